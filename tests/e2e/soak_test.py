#!/usr/bin/env python3
"""The scripts of tests/soak: their outcomes, the link that they cut, and a short run of one.

  OUTRIDER_BIN=build/release/bin tests/e2e/soak_test.py

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import io
import json
import socket
import subprocess
import sys
import threading
import unittest

from programs import BIN, ROOT, eventually
from runner import run_tests

SCRIPTS = ROOT / 'tests/soak'
sys.path.insert(0, str(SCRIPTS))

import company  # noqa: E402
from outcome import Outcome, median  # noqa: E402
from tcp_link import TcpLink  # noqa: E402


def finish(outcome):
    """(exit code, the JSON line)."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
        code = outcome.finish()
    return code, json.loads(out.getvalue())


class Company(unittest.TestCase):
    """The faults that company.py finds in answers."""
    REQUEST = {'prompt': 'Find the cup.'}

    def faults(self, one, other, kind='full'):
        return list(company.faults([self.REQUEST], [kind], [one], [other]))

    def test_the_same_text_is_no_fault_and_another_is(self):
        self.assertEqual(self.faults(company.Answer('a cup'), company.Answer('a cup')), [])
        self.assertIn("alone 'a cup', in company 'a mug'", self.faults(company.Answer('a cup'), company.Answer('a mug'))[0])

    def test_a_refusal_is_a_fault_on_both_sides_even_if_they_are_alike(self):
        refused = company.Answer(refusal='503 {}')
        self.assertEqual(len(self.faults(refused, refused)), 2)
        self.assertIn('refused in company: 503', self.faults(company.Answer('a cup'), refused)[0])

    def test_what_left_is_not_compared(self):
        self.assertEqual(self.faults(company.Answer('a cup'), company.Answer(), kind='leaves'), [])


class Judging(unittest.TestCase):
    def outcome(self, estimate, limit, at_least=True):
        outcome = Outcome('a check')
        with contextlib.redirect_stderr(io.StringIO()):
            outcome.hold('a bar', estimate, limit, at_least)
        return outcome

    def test_a_bar_is_held_on_the_end_that_is_closer_to_failing(self):
        self.assertEqual(finish(self.outcome((1.2, 1.1, 1.3), 1.1))[0], 0)
        self.assertEqual(finish(self.outcome((1.2, 1.1, 1.3), 1.15))[0], 1)
        self.assertEqual(finish(self.outcome((1.2, 1.1, 1.3), 1.25, at_least=False))[0], 1)

    def test_one_sample_and_no_bar_mark_inconclusive(self):
        code, line = finish(self.outcome(median([2.0]), 1))
        self.assertEqual((code, line['passed']), (4, False))
        self.assertIn('no confidence interval', line['inconclusive'])
        self.assertEqual(finish(Outcome('a check'))[0], 4)

    def test_a_failure_counts_before_a_lack_of_evidence(self):
        outcome = Outcome('a check')
        outcome.mark_inconclusive('it never occurred')
        with contextlib.redirect_stderr(io.StringIO()):
            outcome.fail('another text')
        self.assertEqual(finish(outcome)[0], 1)


class CutLinks(unittest.TestCase):
    """A server that returns what it receives."""

    def setUp(self):
        self.listener = socket.create_server(('127.0.0.1', 0))
        threading.Thread(target=self.echo, daemon=True).start()
        self.link = TcpLink(self.listener.getsockname()[1])

    def tearDown(self):
        self.link.close()
        self.listener.close()

    def echo(self):
        while True:
            try:
                end, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.echo_one, args=(end,), daemon=True).start()

    def echo_one(self, end):
        with contextlib.suppress(OSError), end:
            while data := end.recv(1000):
                end.sendall(data)

    def connect(self):
        end = self.accepted()
        end.sendall(b'one')
        self.assertEqual(end.recv(10), b'one')
        return end

    def accepted(self):
        """The link obeys a command a moment after it has answered."""
        return eventually(lambda: socket.create_connection(('127.0.0.1', self.link.port), timeout=5), 'the link takes no connection')

    def test_silence_holds_back_what_a_restored_link_delivers(self):
        with self.connect() as end:
            self.link.silence()
            end.sendall(b'two')
            end.settimeout(0.3)
            with self.assertRaises(TimeoutError):
                end.recv(10)
            self.link.restore()
            end.settimeout(5)
            self.assertEqual(end.recv(10), b'two')

    def test_a_reset_ends_connections_and_refuses_new_ones_until_it_is_restored(self):
        with self.connect() as end:
            self.link.reset()
            with self.assertRaises(ConnectionResetError):
                end.recv(10)
        with self.assertRaises(OSError):
            socket.create_connection(('127.0.0.1', self.link.port), timeout=5)
        self.link.restore()
        self.connect().close()


class Scripts(unittest.TestCase):
    def run_script(self, name, *flags):
        done = subprocess.run([sys.executable, SCRIPTS / name, *map(str, flags)], capture_output=True, text=True,
                              check=False, env={'OUTRIDER_BIN': str(BIN), 'PATH': '/usr/bin:/bin'})
        self.assertIn(done.returncode, (0, 1, 4), done.stderr)
        return done.returncode, json.loads(done.stdout.splitlines()[-1])

    def test_cuts_cost_no_token(self):
        _, line = self.run_script('cuts.py', '--cuts', 3)
        self.assertEqual(line.get('failures', []), [])
        self.assertEqual(line['wrong'], 0)
        self.assertGreaterEqual(sum(line['cuts'].values()), 1)

    def test_growth_needs_more_than_moments_and_says_so(self):
        code, line = self.run_script('growth.py', '--minutes', 0.1, '--requests', 6, '--clients', 2)
        self.assertEqual((code, line.get('failures', [])), (4, []))
        self.assertIn('too few', line['inconclusive'])


if __name__ == '__main__':
    run_tests(verbosity=2)
