#!/usr/bin/env python3
"""An edge's key: the file that it stands in, and what happens when the server no longer takes it.

  OUTRIDER_BIN=build/release/bin tests/e2e/keys_test.py

SPDX-License-Identifier: Apache-2.0
"""
import signal
import tempfile
import unittest
from pathlib import Path

from programs import DRAFT, TARGET, Edge, Server, edge, new_key

PROMPT = (DRAFT.parents[1] / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
ANSWER = ('--tokenizer', DRAFT, '-p', PROMPT, '-c', '256', '--json')
LONG = ('-n', '40')
PACED = ('--pace-pass-ms', '60')  # slow enough that a test can act in the middle of an answer


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
    """The key's line leaves the server's file in the middle of an answer."""

    def answer_while_the_key_goes(self, *flags):
        key = self.write(self.key)
        with Server(*PACED, '--token-file', self.tokens) as server:
            running = Edge('run', '--server', server.address, '--token-file', key, *ANSWER,
                           *LONG, '--model', DRAFT, '--strategy', 'sd', *flags)
            self.assertTrue(running.process.stdout.read(10))
            self.tokens.write_text('', encoding='utf-8')
            new_key(self.tokens)
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


if __name__ == '__main__':
    unittest.main(verbosity=2)
