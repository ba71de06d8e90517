#!/usr/bin/env python3
"""Answers that are disturbed in their middle: a killed server, another model in its place, Ctrl-C, SIGTERM.

  OUTRIDER_BIN=build/release/bin tests/e2e/broken_links_test.py

SPDX-License-Identifier: Apache-2.0
"""
import os
import pty
import re
import signal
import tempfile
import time
import unittest
from pathlib import Path

from programs import ANSWER_SECONDS, DRAFT, FORGETFUL, Edge, HeldServer, Server, edge, eventually, free_port
from runner import run_tests

PROMPT = (DRAFT.parents[1] / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
CHAT_LINE = f'{PROMPT.splitlines()[0]} red chair ahead at 1.0 m. Find it.'
LONG_ANSWER = ('-n', '60', '--temp', '1', '--seed', '11')
HELD_TOKENS = 20  # about half of the long answer


class BrokenLinks(unittest.TestCase):
    COMMON = ('--model', DRAFT, '-p', PROMPT, '--json', *LONG_ANSWER)

    @classmethod
    def setUpClass(cls):
        with Server() as server:
            cls.prompt_tokens = {prompt: edge('run', '--server', server.address, '--tokenizer', DRAFT, '-p', prompt, '-n', '1',
                                              '--json').json['prompt_tokens'] for prompt in (PROMPT, CHAT_LINE)}

    def hold(self, server, prompt=PROMPT):
        """From now on no answer to the prompt goes beyond its middle."""
        server.hold(self.prompt_tokens[prompt] + HELD_TOKENS)

    def start(self, server, *flags):
        """An edge in the middle of its answer."""
        self.hold(server)
        running = Edge('run', '--server', server.address, *self.COMMON, *flags)
        self.assertTrue(running.process.stdout.read(1), 'the answer ended before its first letter')
        return running

    def test_a_killed_server_that_comes_back_costs_no_token(self):
        with HeldServer(*FORGETFUL, port=free_port()) as server:
            undisturbed = edge('run', '--server', server.address, *self.COMMON)
            running = self.start(server)
            server.kill()
            with Server(*FORGETFUL, port=server.port):
                answer = running.wait()
        self.assertEqual(answer.code, 0, answer.err)
        self.assertGreaterEqual(answer.json['reconnects'], 1)
        self.assertEqual(answer.json['ids'], undisturbed.json['ids'])

    def test_another_model_in_the_server_s_place_ends_the_answer_with_what_is_there(self):
        with HeldServer(*FORGETFUL, port=free_port()) as server:
            whole = edge('run', '--server', server.address, *self.COMMON)
            running = self.start(server)
            server.kill()
            with Server(*FORGETFUL, port=server.port, model=DRAFT):
                answer = running.wait()
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn('fingerprint', answer.err)
        kept = answer.json['ids']
        self.assertGreater(len(kept), 0)
        self.assertEqual(kept, whole.json['ids'][:len(kept)])

    def test_a_server_that_stays_away_ends_the_answer_with_what_is_there(self):
        with HeldServer(*FORGETFUL) as server:
            whole = edge('run', '--server', server.address, *self.COMMON)
            running = self.start(server, '--reconnect-timeout', '2')
            server.kill()
            answer = running.wait()
        self.assertEqual(answer.code, 1, answer.err)
        self.assertEqual(answer.json['stop_reason'], 'link_lost')
        kept = answer.json['ids']
        self.assertGreater(len(kept), 0)
        self.assertEqual(kept, whole.json['ids'][:len(kept)])

    def test_ctrl_c_prints_the_stats_and_frees_the_server(self):
        with HeldServer(*FORGETFUL, '--max-concurrent-sessions', '1') as server:
            running = self.start(server)
            running.interrupt()
            answer = running.wait()
            self.assertEqual(answer.code, 130, answer.err)
            self.assertEqual(answer.json['stop_reason'], 'cancelled')
            self.assertIn('target passes', answer.out + answer.err)
            server.release()
            after = edge('run', '--server', server.address, '--model', DRAFT, '-p', PROMPT,
                         '-n', '3', '--json')
            self.assertEqual(after.code, 0, after.err)

    def test_ctrl_c_while_flags_are_read_ends_it_as_any_other(self):
        with tempfile.TemporaryDirectory() as folder:
            config = Path(folder) / 'config.toml'
            os.mkfifo(config)
            for command in ('run', 'tokenize'):
                running = Edge(command, '--config', config, '--tokenizer', DRAFT)
                with open(config, 'w', encoding='utf-8'):  # the program reads its flags and waits for more
                    running.interrupt()
                    self.assertEqual(running.wait().code, 130)

    def test_ctrl_c_at_any_time_ends_an_answer_with_130(self):
        with HeldServer(*FORGETFUL) as server:
            self.hold(server)
            for milliseconds in range(0, 400, 40):
                running = Edge('run', '--server', server.address, *self.COMMON)
                self.wait_until_signals_are_taken(running)
                time.sleep(milliseconds / 1000)
                running.interrupt()
                self.assertEqual(running.wait().code, 130, f'after {milliseconds} ms')

    @staticmethod
    def wait_for_ctrl_c(running, mask, is_there):
        """Until Ctrl-C is in that mask of /proc, or no longer."""
        status = Path(f'/proc/{running.process.pid}/status')
        while True:
            signals = re.search(rf'{mask}:\s*(\w+)', status.read_text(encoding='utf-8'))
            if bool(int(signals[1], 16) & 1 << (signal.SIGINT - 1)) == is_there:
                return
            time.sleep(0.001)

    def wait_until_signals_are_taken(self, running):
        """Waits until main() has begun; before that the system's loader runs."""
        self.wait_for_ctrl_c(running, 'SigBlk', True)

    def test_a_second_ctrl_c_waits_for_nothing(self):
        with Server('--pace-pass-ms', '4000', '--metrics-port', '0') as server:
            running = Edge('run', '--server', server.address, *self.COMMON)
            eventually(lambda: server.metric('num_requests_running') == 1)
            running.interrupt()
            self.wait_for_ctrl_c(running, 'ShdPnd', False)  # two that wait are one
            begin = time.monotonic()
            running.interrupt()
            self.assertEqual(running.wait().code, 130)
            self.assertLess(time.monotonic() - begin, 2)

    def start_chat(self, server, **streams):
        """A chat, and the file of what it says beside its answers."""
        said = tempfile.NamedTemporaryFile('w+', encoding='utf-8')
        self.addCleanup(said.close)
        return Edge('chat', '--server', server.address, '--model', DRAFT, *LONG_ANSWER, stderr=said, **streams), Path(said.name)

    def wait_for_words(self, said, words, times=1):
        eventually(lambda: said.read_text(encoding='utf-8').count(words) >= times, lambda: said.read_text(encoding='utf-8'),
                   ANSWER_SECONDS)

    def test_ctrl_c_in_a_piped_chat_ends_it_after_the_stats(self):
        with HeldServer(*FORGETFUL) as server:
            self.hold(server, CHAT_LINE)
            running, said = self.start_chat(server)
            running.process.stdin.write(f'{CHAT_LINE}\nAnd now?\n/stats\n')
            running.process.stdin.flush()
            self.assertTrue(running.process.stdout.read(1))
            running.interrupt()
            answer, err = running.wait(), said.read_text(encoding='utf-8')
        self.assertEqual(answer.code, 130, err)
        self.assertIn('cancelled', err)
        self.assertEqual(err.count('target passes'), 1, 'what followed was not read')

    def start_chat_at_a_terminal(self, server):
        """The chat in the midst of its first answer, what it says beside it, and the keyboard's end of its terminal."""
        self.hold(server, CHAT_LINE)
        keyboard, terminal = pty.openpty()
        self.addCleanup(os.close, keyboard)
        running, said = self.start_chat(server, stdin=terminal)
        os.close(terminal)
        os.write(keyboard, f'{CHAT_LINE}\n'.encode())
        self.assertTrue(running.process.stdout.read(1))
        return running, said, keyboard

    def test_ctrl_c_at_a_terminal_goes_back_to_the_prompt(self):
        with HeldServer(*FORGETFUL) as server:
            running, said, keyboard = self.start_chat_at_a_terminal(server)
            running.interrupt()
            self.wait_for_words(said, 'cancelled')
            os.write(keyboard, b'/stats\n')
            self.wait_for_words(said, 'target passes', 2)
            self.assertIsNone(running.process.poll(), 'the chat should go on')
            running.interrupt()
            answer, err = running.wait(), said.read_text(encoding='utf-8')
        self.assertEqual(answer.code, 130, err)
        self.assertEqual(err.count('target passes'), 2, 'of the answer and of /stats')

    def test_sigterm_at_a_terminal_ends_the_chat_after_the_stats(self):
        with HeldServer(*FORGETFUL) as server:
            running, said, _ = self.start_chat_at_a_terminal(server)
            running.process.terminate()
            answer, err = running.wait(), said.read_text(encoding='utf-8')
        self.assertEqual(answer.code, 130, err)
        self.assertEqual(err.count('target passes'), 1)

    def test_a_drained_server_lets_its_answers_finish(self):
        with HeldServer(*FORGETFUL) as server:
            running = self.start(server)
            server.process.terminate()
            eventually(lambda: 'shutting down' in ''.join(server.log))
            server.release()
            answer = running.wait()
            self.assertEqual(server.stop(), 0, ''.join(server.log))
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual(answer.json['reconnects'], 0)

    def test_without_a_server_it_says_where_it_looked(self):
        address = f'127.0.0.1:{free_port()}'
        answer = edge('run', '--server', address, *self.COMMON, '--reconnect-timeout', '1')
        self.assertEqual(answer.code, 1)
        self.assertIn(address, answer.err)


if __name__ == '__main__':
    run_tests(verbosity=2)
