#!/usr/bin/env python3
"""outrider-edge chat at a terminal: typed keys, the screen, and a full context.

  OUTRIDER_BIN=build/release/bin tests/e2e/terminal_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import re
import unittest

from programs import BIN, DRAFT, FORGETFUL, TARGET, HeldServer, Server, edge, eventually, free_port
from runner import run_tests
from terminal import (BACKSPACE, CTRL_C, CTRL_D, DELETE, END_KEYS, FUNCTION_KEYS, HOME_KEYS, LEFT, PAGE_KEYS, UP, Terminal,
                      pasted)

ASKED = 'You drive a robot. A red chair stands ahead at 1.0 m. Find it.'
LONG = ('-n', '60', '--temp', '1', '--seed', '11')
HELD_TOKENS = 20  # about half of the long answer
LOG_LINE = re.compile(r'\d\d:\d\d:\d\d\.\d\d\d (info|warning) ')


def chat(*flags, **more):
    return Terminal(BIN / 'outrider-edge', 'chat', '--model', DRAFT, *flags, **more)


class Typing(unittest.TestCase):
    def setUp(self):
        self.terminal = chat('--target', TARGET)
        self.addCleanup(self.terminal.close)
        self.terminal.wait_for_prompt()

    def enters(self, keys, wanted):
        """The program's answer to the line that the keys type."""
        self.terminal.type(keys + '\r')
        self.terminal.wait_for(f'Unknown command {wanted}\\. ', seconds=20)
        self.terminal.wait_for_prompt()

    def test_arrow_keys_edit_the_line_and_bring_earlier_ones_back(self):
        self.enters(f'/ac{LEFT}b', '/abc')
        self.enters(f'{UP}d', '/abcd')
        self.enters(f'{UP}{UP}e', '/abce')

    def test_letters_beyond_ascii_are_whole(self):
        self.enters(f'/né{LEFT}{LEFT}ü', '/üné')
        self.enters(f'/xéß{BACKSPACE}{BACKSPACE}y', '/xy')

    def test_keys_that_mean_nothing_here_leave_nothing_in_the_line(self):
        for number, key in enumerate((*PAGE_KEYS, *FUNCTION_KEYS)):
            self.enters(f'/a{key}{number}', f'/a{number}')

    def test_keys_of_all_terminals_go_to_the_ends_and_delete(self):
        for number, (begin, end) in enumerate(zip(HOME_KEYS, END_KEYS)):
            self.enters(f'ac{begin}{DELETE}/{end}{number}', f'/c{number}')

    def test_several_pasted_lines_are_one_message(self):
        lines = (ASKED, '  Go slowly.', '/and tell me')
        wanted = edge('run', '--target', TARGET, '--model', DRAFT, '-p', '\n'.join(lines), '--json').json['text']
        self.terminal.type(pasted('\r'.join(lines)) + '\r')
        self.terminal.wait_for('/and tell me$')
        rows = self.terminal.wait_for_prompt()
        shown = ''.join(row.ljust(60) for row in rows)
        self.assertTrue(shown.split()[:-1][-len(wanted.split()):] == wanted.split(), '\n'.join(rows))
        self.assertEqual(sum('speculation: ' in row for row in rows), 1, 'one answer')

    def test_ctrl_d_ends_it_and_ctrl_c_at_the_prompt_too(self):
        self.terminal.type(CTRL_D)
        self.assertEqual(self.terminal.wait(), 0)
        self.assertTrue(self.terminal.is_cooked())
        with chat('--target', TARGET) as other:
            other.wait_for_prompt()
            other.type('half a line')
            other.wait_for('> half a line')
            other.type(CTRL_C)
            self.assertEqual(other.wait(), 130)
            self.assertTrue(other.is_cooked(), 'the shell gets the terminal as it was')

    def test_help_lists_the_commands(self):
        rows = len(self.terminal.shown())
        self.terminal.type('/help\r')
        for command in ('/clear', '/stats', '/help', '/exit'):
            eventually(lambda wanted=command: wanted in ' '.join(self.terminal.shown()[rows:]),
                       lambda wanted=command: f'{wanted} is not listed:\n' + '\n'.join(self.terminal.shown()))
        self.terminal.wait_for_prompt()


class LogLines(unittest.TestCase):
    def answer_over_a_lost_link(self, *flags):
        """The screen's rows after an answer whose server goes away and comes back, and the answer."""
        port = free_port()
        server = HeldServer(*FORGETFUL, port=port)
        self.addCleanup(lambda: server.stop())
        talk = ('--server', server.address, *LONG, *flags)
        whole = edge('run', '--model', DRAFT, '-p', ASKED, '--json', *talk).json
        wanted = whole['text']
        server.hold(whole['prompt_tokens'] + HELD_TOKENS)
        with chat(*talk) as terminal:
            terminal.wait_for_prompt()
            terminal.type(ASKED + '\r')
            terminal.wait_for(re.escape(wanted.split('\n')[0][:20]))
            server.kill()
            terminal.wait_for('warning link: ')
            server = Server(port=port)
            terminal.wait_for('info link: |warning link: .*back')
            terminal.wait_for_prompt()
            return terminal.shown(), wanted

    def test_they_stand_above_the_answer_s_line_and_cut_no_word(self):
        rows, wanted = self.answer_over_a_lost_link()
        logged = [i for i, row in enumerate(rows) if LOG_LINE.search(row)]
        self.assertTrue(any('link:' in rows[i] for i in logged))
        for i in logged:
            self.assertTrue(LOG_LINE.match(rows[i]), f'not on a line of its own: {rows[i]}')
        shown = ''.join(row.ljust(60) for row in rows)
        for line in wanted.strip().split('\n'):
            self.assertIn(line.strip(), shown, '\n'.join(rows))


class Interrupted(unittest.TestCase):
    def test_ctrl_c_cancels_the_answer_and_the_conversation_goes_on(self):
        with HeldServer(*FORGETFUL) as server, chat('--server', server.address, *LONG) as terminal:
            whole = edge('run', '--server', server.address, '--model', DRAFT, '-p', ASKED, '--json', *LONG).json
            server.hold(whole['prompt_tokens'] + HELD_TOKENS)
            terminal.wait_for_prompt()
            terminal.type(ASKED + '\r')
            terminal.wait_for('^I ')  # the answer
            terminal.type(CTRL_C)
            terminal.wait_for('cancelled')
            server.release()
            terminal.wait_for_prompt()
            terminal.type(UP + BACKSPACE + '!\r')
            terminal.wait_for('it!$')
            rows = terminal.wait_for_prompt()
            begin = next(i for i, row in enumerate(rows) if row.endswith('it!')) + 1
            self.assertTrue(any(row.strip() for row in rows[begin:-1]), 'no second answer:\n' + '\n'.join(rows))


class FullContext(unittest.TestCase):
    """A target with a short context, which a conversation exceeds."""
    TALK = [ASKED, 'And now?', 'And then?', 'What next?', 'Go on.', 'And the end?']

    def talk(self, *flags, lines, context=160):
        """Returns the conversation, and the JSON of each answer."""
        with Server('--max-model-len', context) as server:
            answer = edge('chat', '--server', server.address, '--model', DRAFT, '-n', '32', '--json', *flags,
                          stdin='\n'.join(lines) + '\n')
        return answer, [json.loads(line) for line in answer.out.splitlines() if line.startswith('{"')]

    def test_it_names_the_remedy_and_clear_is_one(self):
        said, answers = self.talk(lines=[*self.TALK, '/clear', ASKED])
        self.assertEqual(said.code, 1)
        self.assertIn('the context holds 160; /clear begins a new conversation, --context-shift drops the oldest turns',
                      said.err)
        self.assertLess(len(answers), len(self.TALK))
        self.assertEqual(answers[-1]['ids'], answers[0]['ids'])

    def test_context_shift_goes_on_and_says_what_it_dropped(self):
        said, answers = self.talk('--context-shift', lines=self.TALK)
        self.assertEqual(said.code, 0, said.err)
        self.assertEqual(len(answers), len(self.TALK))
        self.assertRegex(said.err, r'context: dropped the oldest \d+ turns? of the conversation to make room')
        for answer in answers:
            self.assertNotEqual(answer['stop_reason'], 'context_full')

    def test_ctx_size_is_such_a_context_too(self):
        said, _ = self.talk('-c', '120', lines=self.TALK, context=512)
        self.assertIn('the context holds 120; /clear begins', said.err)

    def test_an_answer_that_fills_it_names_the_remedy(self):
        said, answers = self.talk(lines=[ASKED], context=48)
        self.assertEqual(answers[0]['stop_reason'], 'context_full')
        self.assertIn('context: the conversation fills it; /clear begins', said.err)

    def test_a_message_that_is_too_long_alone_is_to_be_shortened(self):
        said, _ = self.talk('--context-shift', lines=[ASKED, 'word ' * 300])
        self.assertEqual(said.code, 1)
        self.assertIn('the context holds 160; shorten the message', said.err)


if __name__ == '__main__':
    run_tests(verbosity=2)
