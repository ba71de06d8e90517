#!/usr/bin/env python3
"""The programs' own streams: closed readers, full disks, files that are pipes.

  OUTRIDER_BIN=build/release/bin tests/e2e/streams_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from programs import (BIN, CLEAN_ENVIRONMENT, DRAFT, TARGET, Edge, Server, edge, ending_with_us, free_port,
                      wait_until_served)
from runner import run_tests

TARGETS = ('--target', TARGET, '--tokenizer', DRAFT)
ANSWER = (*TARGETS, '-p', 'Find the cup.')


class ReadersThatGo(unittest.TestCase):
    def closed_pipe(self):
        reader, writer = os.pipe()
        os.close(reader)
        self.addCleanup(os.close, writer)
        return writer

    def test_a_server_serves_on_without_readers(self):
        port, http = free_port(), free_port()
        server = subprocess.Popen(
            ending_with_us(BIN / 'outrider-server', '--model', TARGET, '--port', port, '--http-port', http,
                           '--log-level', 'debug'),
            env=CLEAN_ENVIRONMENT, stdout=self.closed_pipe(), stderr=self.closed_pipe())
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        base = f'http://127.0.0.1:{http}'
        wait_until_served(base)
        for _ in range(2):  # each leaves lines in the log
            answer = edge('run', '--server', f'127.0.0.1:{port}', '--tokenizer', DRAFT, '-p', 'Find', '-n', '3')
            self.assertEqual(answer.code, 0, answer.err)
        self.assertIsNone(server.poll())
        server.send_signal(signal.SIGTERM)
        self.assertEqual(server.wait(timeout=60), 0)

    def test_an_edge_answers_on_when_nobody_reads_its_log(self):
        with Server() as server:
            port = free_port()
            serving = Edge('serve', '--model', DRAFT, '--server', server.address, '--port', port,
                           stdout=self.closed_pipe(), stderr=self.closed_pipe())
            self.addCleanup(serving.process.kill)
            base = f'http://127.0.0.1:{port}'
            wait_until_served(base)
            for _ in range(2):
                request = urllib.request.Request(f'{base}/v1/completions', method='POST',
                                                 data=b'{"prompt": "Find", "max_tokens": 3}')
                self.assertEqual(urllib.request.urlopen(request, timeout=60).status, 200)
            serving.interrupt()
            serving.process.stdin.close()
            serving.process.wait(timeout=60)
            self.assertGreaterEqual(serving.process.returncode, 0, 'no signal ended it')

    def test_every_program_ends_with_an_error_and_not_by_a_signal(self):
        commands = (('outrider-edge', 'run', *ANSWER, '-n', '3'), ('outrider-edge', 'tokenize', '--tokenizer', DRAFT),
                    ('outrider-edge', '--help'), ('outrider-server', '--version'),
                    ('outrider-server', '--model', 'x', '--print-config'), ('outrider-server', 'token', 'new', 'a'),
                    ('outrider-train', '--help'), ('outrider-bench', '--help'),
                    ('outrider-rows', '--model', DRAFT, '--cases', '1'), ('outrider-passes', '--model', DRAFT),
                    ('outrider-link', '--to', '127.0.0.1:1', '--profile', 'delay=0ms'), ('outrider-link', '--help'),
                    ('outrider-lab-edge', 'run', *ANSWER, '-n', '3'), ('outrider-lab-edge', '--help'),
                    ('outrider-lab-server', '--version'), ('outrider-lab-server', '--model', 'x', '--print-config'),
                    ('outrider-race', '--help'))
        for command in commands:
            if not (BIN / command[0]).exists():
                continue  # not part of every build
            ended = subprocess.run([BIN / command[0], *map(str, command[1:])], input='text\n', text=True, check=False,
                                   stdout=self.closed_pipe(), stderr=subprocess.PIPE, env=CLEAN_ENVIRONMENT)
            self.assertEqual(ended.returncode, 1, f'{command}: {ended.stderr}')
            self.assertIn('stdout', ended.stderr, command)

    def test_a_full_disk_under_the_answer_is_said(self):
        for flags in ((), ('--json',)):
            with open('/dev/full', 'wb') as full:
                answer = Edge('run', *ANSWER, '-n', '30', *flags, stdout=full).wait()
            self.assertEqual(answer.code, 1, answer.err)
            self.assertIn('outrider-edge: UNAVAILABLE: stdout: No space left on device', answer.err)
            self.assertEqual(answer.err.count('No space left on device'), 1, answer.err)
            self.assertNotIn('cancelled', answer.err)


class Prompts(unittest.TestCase):
    """Prompts from files of other kinds and other systems."""

    def ids(self, text, *flags):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'prompt.txt'
            file.write_bytes(text)
            answer = edge('run', *TARGETS, '-f', file, '-n', '4', '--json', *flags)
        self.assertEqual(answer.code, 0, answer.err)
        return answer.json['prompt_tokens'], answer.json['ids'], answer.err

    def test_what_windows_adds_to_a_text_is_left_out_and_said(self):
        for flags in ((), ('--raw',)):
            plain = self.ids(b'Find the cup.\nThen stop.', *flags)
            windows = self.ids(b'\xef\xbb\xbfFind the cup.\r\nThen stop.\r\n', *flags)
            self.assertEqual(windows[:2], plain[:2])
            self.assertIn('byte_order_mark=true carriage_returns=2 last_newline=true', windows[2])
            self.assertNotIn('carriage_returns', plain[2])
            unix = self.ids(b'Find the cup.\nThen stop.\n', *flags)
            self.assertEqual(unix[:2], plain[:2], 'the last newline is the editor\'s')
            self.assertIn('last_newline=true', unix[2])
            if flags:  # a template may trim its text
                two = self.ids(b'Find the cup.\nThen stop.\n\n', *flags)
                self.assertNotEqual(two[:2], plain[:2], 'others are the writer\'s')

    def test_what_is_not_utf_8_is_refused_wherever_it_comes_from(self):
        bad = b'Find \xff the cup'
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'prompt.txt'
            file.write_bytes(bad)
            for command in (('run', '-p', bad), ('run', '-f', file), ('run', '--raw', '-p', b'\xed\xa0\x80'), ('doctor', '-p', bad)):
                ended = subprocess.run([BIN / 'outrider-edge', *command, *TARGETS], capture_output=True, check=False,
                                       env=CLEAN_ENVIRONMENT)
                self.assertEqual(ended.returncode, 2, ended.stderr)
                self.assertIn(b'is not UTF-8. Remedy', ended.stderr)
        answer = subprocess.run([BIN / 'outrider-edge', 'chat', *TARGETS, '-n', '2'], input=bad + b'\n', capture_output=True, check=False,
                                env=CLEAN_ENVIRONMENT)
        self.assertEqual(answer.returncode, 1, answer.stderr)
        self.assertIn(b'the message: byte 6 is not UTF-8', answer.stderr)

    def test_utf_16_is_refused_with_the_remedy(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'prompt.txt'
            file.write_text('Find the cup.', encoding='utf-16')
            answer = edge('run', *TARGETS, '-f', file)
        self.assertEqual(answer.code, 2, answer.err)
        self.assertIn('is UTF-16. Remedy: save it as UTF-8', answer.err)

    def test_a_pipe_of_the_shell_is_read_as_a_file_is(self):
        command = f'{BIN}/outrider-edge run --target {TARGET} --tokenizer {DRAFT} -n 4 --json -f <(echo Find the cup.)'
        ended = subprocess.run(['bash', '-c', command], capture_output=True, text=True, check=False, env=CLEAN_ENVIRONMENT)
        self.assertEqual(ended.returncode, 0, ended.stderr)
        self.assertEqual(json.loads(ended.stdout.splitlines()[-1])['ids'], self.ids(b'Find the cup.\n')[1])

    def test_a_chat_reads_the_lines_of_windows_too(self):
        def chat(lines):
            answer = edge('chat', *TARGETS, '-n', '4', '--json', stdin=lines)
            self.assertEqual(answer.code, 0, answer.err)
            return [json.loads(line)['ids'] for line in answer.out.splitlines() if line.startswith('{')]
        self.assertEqual(chat('\ufeffFind the cup.\r\nGo on.\r\n'), chat('Find the cup.\nGo on.\n'))


class Proxies(unittest.TestCase):
    def test_the_proxy_that_refused_is_named_without_its_password(self):
        port = free_port()
        environment = {'http_proxy': f'http://me:secret@127.0.0.1:{port}', 'no_proxy': 'else.where'}
        for name in ('grpc_proxy', 'https_proxy', 'no_grpc_proxy'):
            environment[name] = ''
        answer = edge('run', '--server', '10.255.255.1:8001', '--insecure', '--reconnect-timeout', '0', '--tokenizer', DRAFT,
                      '-p', 'x', environment=environment)
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn(f'through the proxy 127.0.0.1:{port} of http_proxy; no_proxy=10.255.255.1 goes without it', answer.err)
        self.assertNotIn('secret', answer.err)


if __name__ == '__main__':
    run_tests(verbosity=2)
