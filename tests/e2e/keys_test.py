#!/usr/bin/env python3
"""An edge's key: its file, and what happens when the server no longer accepts it.

  OUTRIDER_BIN=build/release/bin tests/e2e/keys_test.py

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import signal
import subprocess
import tempfile
import unittest
from pathlib import Path

from programs import BIN, DRAFT, ROOT, TARGET, Edge, Server, edge, eventually, new_key
from runner import run_tests

PROMPT = (DRAFT.parents[1] / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
ANSWER = ('--tokenizer', DRAFT, '-p', PROMPT, '-c', '256', '--json')
LONG = ('-n', '40')
PACED = ('--pace-pass-ms', '300')  # slow enough that a test can act in the middle of an answer


class Keys(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.tokens = self.folder / 'tokens'
        self.key = new_key(self.tokens)

    def write(self, text, mode=0o600):
        path = self.folder / 'key'
        path.write_text(text, encoding='utf-8')
        path.chmod(mode)
        return path


class KeyFiles(Keys):
    def setUp(self):
        super().setUp()
        self.server = Server('--token-file', self.tokens)
        self.addCleanup(self.server.stop)

    def ask(self, path):
        return edge('run', '--server', self.server.address, '--token-file', path, *ANSWER,
                    '-n', '3')

    def test_a_key_is_its_line_whatever_stands_around_it(self):
        for text in (self.key, self.key + '\n', f'  {self.key}\r\n', f'{self.key}\nanother line\n'):
            answer = self.ask(self.write(text))
            self.assertEqual(answer.code, 0, answer.err)
            self.assertEqual(len(answer.json['ids']), 3)

    def test_a_file_without_a_key_is_refused_by_its_name(self):
        for text in ('', '\n', '  \t\n' + self.key):
            answer = self.ask(self.write(text))
            self.assertEqual(answer.code, 2, answer.err)
            self.assertIn(f'{self.folder}/key: its first line is empty', answer.err)

    def test_a_file_that_everybody_may_read_is_refused_with_the_remedy(self):
        answer = self.ask(self.write(self.key, 0o644))
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn(f'chmod o-r {self.folder}/key', answer.err)
        self.assertNotIn(self.key, answer.err)

    def test_a_file_that_everybody_may_write_is_refused_with_the_remedy(self):
        answer = self.ask(self.write(self.key, 0o602))
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn(f'chmod o-rw {self.folder}/key', answer.err)

    def test_a_byte_order_mark_is_not_part_of_the_key(self):
        answer = self.ask(self.write('\ufeff' + self.key + '\r\n'))
        self.assertEqual(answer.code, 0, answer.err)

    def test_bytes_that_no_header_may_hold_are_refused_and_the_key_is_not_shown(self):
        for bad in ('\t', '\xa0', 'é', '\0', '\x7f', '\x1b'):
            text = self.key[:20] + bad + self.key[20:]
            path = self.write(text)
            for command in (('run', *ANSWER, '-n', '3'),
                            ('doctor', '--model', DRAFT, '-p', PROMPT),
                            ('serve', '--model', DRAFT, '--port', 0)):
                answer = edge(*command, '--server', self.server.address, '--token-file', path)
                self.assertEqual(answer.code, 2, f'{bad!r} {command[0]}: {answer.err}')
                self.assertIn(f'{path}: character 21 of the key is', answer.err)
                self.assertNotIn(self.key[:20], answer.err + answer.out)
                self.assertNotIn(self.key[:20].encode().hex(' '), answer.err + answer.out)

    def test_a_file_that_is_not_there_is_named(self):
        answer = self.ask(self.folder / 'none')
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn(f'{self.folder}/none', answer.err)

    def test_a_wrong_key_is_refused_and_not_told(self):
        wrong = self.key[:-1] + ('A' if self.key[-1] != 'A' else 'B')
        answer = self.ask(self.write(wrong))
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn('key', answer.err)
        self.assertNotIn(wrong, answer.err + answer.out)


class KeysThatGo(Keys):
    """The key's line is removed from the server's file in the middle of an answer."""

    def answer_while_the_key_goes(self, *flags):
        key, without_it = self.write(self.key), self.folder / 'later'
        new_key(without_it)
        with Server(*PACED, '--token-file', self.tokens) as server:
            running = Edge('run', '--server', server.address, '--token-file', key, *ANSWER,
                           *LONG, '--model', DRAFT, '--strategy', 'sd', *flags)
            self.assertTrue(running.process.stdout.read(1))
            without_it.replace(self.tokens)
            server.process.send_signal(signal.SIGHUP)
            return running.wait()

    def whole(self):
        return edge('run', '--target', TARGET, *ANSWER, *LONG).json['ids']

    def test_a_target_of_its_own_goes_on_with_the_same_text(self):
        answer = self.answer_while_the_key_goes('--target', TARGET)
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual(answer.json['ids'], self.whole())
        self.assertGreater(answer.json['offline_seconds_total'], 0)
        self.assertRegex(answer.err, r'failover: .*key.*; going on offline at token [1-9]')

    def test_without_one_the_answer_ends_and_says_why(self):
        answer = self.answer_while_the_key_goes()
        self.assertEqual(answer.code, 1, answer.err)
        self.assertEqual(answer.json['stop_reason'], 'failed')
        self.assertIn('key', answer.json['stopped_by'])
        kept = answer.json['ids']
        self.assertGreater(len(kept), 0)
        self.assertEqual(kept, self.whole()[:len(kept)])


class FaultyFiles(Keys):
    """A file of keys that is half saved."""

    def faulty(self):
        whole = self.tokens.read_text(encoding='utf-8')
        return (whole + 'bob sha256:12', whole + whole, whole + whole.replace('alice', 'bob'), whole + 'bob certificate speed=3')

    def test_the_server_does_not_start_with_it(self):
        for text in self.faulty():
            self.tokens.write_text(text, encoding='utf-8')
            ended = subprocess.run([BIN / 'outrider-server', '--model', TARGET, '--port', '0', '--token-file', self.tokens],
                                   capture_output=True, text=True, check=False, timeout=60)
            self.assertEqual(ended.returncode, 2, ended.stderr)
            self.assertIn(f'{self.tokens}: line 2: ', ended.stderr)

    def test_a_running_server_keeps_its_keys_and_says_so(self):
        key = self.write(self.key)
        whole = self.tokens.read_text(encoding='utf-8')
        with Server('--token-file', self.tokens) as server:
            for text in (*self.faulty(), whole.replace('alice', 'alice x'), ''):
                lines_before = len(server.log)
                self.tokens.write_text(text, encoding='utf-8')
                server.process.send_signal(signal.SIGHUP)
                eventually(lambda begin=lines_before: any('the keys stay as they were' in line for line in server.log[begin:]),
                           lambda: ''.join(server.log))
                answer = edge('run', '--server', server.address, '--token-file', key, *ANSWER, '-n', '3')
                self.assertEqual(answer.code, 0, answer.err)

    def test_no_key_is_added_to_it(self):
        for text in (*self.faulty(), 'a diary\n'):
            self.tokens.write_text(text, encoding='utf-8')
            made = subprocess.run([BIN / 'outrider-server', 'token', 'new', 'carol', '--token-file', self.tokens],
                                  capture_output=True, text=True, check=False)
            self.assertEqual((made.returncode, made.stdout), (2, ''), made.stderr)
            self.assertEqual(self.tokens.read_text(encoding='utf-8'), text)


class NewKeys(Keys):
    """outrider-server token new."""

    def new(self, name, *flags, **how):
        return subprocess.run([BIN / 'outrider-server', 'token', 'new', name, '--token-file', self.tokens, *flags],
                              capture_output=True, text=True, check=False, **how)

    def names(self):
        return [line.split()[0] for line in self.tokens.read_text(encoding='utf-8').splitlines()]

    def test_a_line_without_an_end_stays_its_tenants(self):
        self.tokens.write_text(self.tokens.read_text(encoding='utf-8').rstrip(), encoding='utf-8')
        bob = self.new('bob')
        self.assertEqual(bob.returncode, 0, bob.stderr)
        self.assertEqual(self.names(), ['alice', 'bob'])
        with Server('--token-file', self.tokens) as server:
            for key in (self.key, bob.stdout.strip()):
                answer = edge('run', '--server', server.address, '--token-file', self.write(key), *ANSWER, '-n', '3')
                self.assertEqual(answer.code, 0, answer.err)

    def test_a_key_that_could_not_be_shown_is_an_error_that_says_so(self):
        with open('/dev/full', 'wb') as full:
            made = subprocess.run([BIN / 'outrider-server', 'token', 'new', 'bob', '--token-file', self.tokens],
                                  stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(made.returncode, 1)
        self.assertIn('No space left on device', made.stderr)
        self.assertIn(f'remove the first key on the line of bob in {self.tokens}', made.stderr)
        self.assertEqual(self.names(), ['alice', 'bob'])

    def test_a_file_that_everybody_may_write_gets_no_key(self):
        self.tokens.chmod(0o646)
        made = self.new('bob')
        self.assertEqual((made.returncode, made.stdout), (1, ''))
        self.assertIn('chmod', made.stderr)

    @unittest.skipUnless(os.geteuid() == 0, 'only root may make files of two users')
    def test_what_root_writes_by_docs_deploy_md_the_services_user_reads(self):
        service = 23456  # the group outrider
        self.folder.chmod(0o755)
        etc = self.folder / 'etc'
        etc.mkdir()
        os.chown(etc, 0, service)
        etc.chmod(0o750)  # as the package makes /etc/outrider
        text = (ROOT / 'docs/deploy.md').read_text(encoding='utf-8')
        recipes = re.findall(r'^ *((?:outrider-server token new|install) .*/etc/outrider/\w+)$', text, re.M)
        self.assertEqual([recipe.rsplit('/', 1)[1] for recipe in recipes], ['tokens', 'key'])
        for recipe in recipes * 2:  # the second time the file is there
            recipe = recipe.replace('/etc/outrider', str(etc)).replace('-g outrider', f'-g {service}')
            subprocess.run(recipe, shell=True, check=True, input=self.key, text=True, capture_output=True,
                           env={**os.environ, 'PATH': f'{BIN}:{os.environ["PATH"]}'})
        for name, lines in (('tokens', 1), ('key', 1)):
            self.assertEqual((etc / name).stat().st_mode & 0o7777, 0o640)
            read = subprocess.run(['cat', etc / name], user=service, group=service, extra_groups=[],
                                  capture_output=True, text=True, check=False)
            self.assertEqual(read.returncode, 0, read.stderr)
            self.assertEqual(len(read.stdout.splitlines()), lines)
        self.assertEqual((etc / 'tokens').read_text(encoding='utf-8').count('sha256:'), 2, 'the old key and the new one')


if __name__ == '__main__':
    run_tests(verbosity=2)
