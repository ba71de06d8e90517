#!/usr/bin/env python3
"""The last call of each file of tests, by which skipped tests do not count as passed.

  tests/e2e/runner_test.py

SPDX-License-Identifier: Apache-2.0
"""
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from runner import SKIPPED, run_tests

HERE = Path(__file__).resolve().parent
PASSES, SKIPS, FAILS = 'pass', 'self.skipTest("no tool")', 'self.fail()'
FILE = '''
import sys, unittest
sys.path.insert(0, {here!r})
from runner import run_tests
class One(unittest.TestCase):
    def test_one(self):
        {one}
@unittest.skipIf({is_missing}, 'no tool')
class Two(unittest.TestCase):
    def test_two(self):
        {two}
class Three(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest('no tool')
    def test_three(self):
        pass
run_tests()
'''


class Endings(unittest.TestCase):
    def ending(self, one, is_missing, two=PASSES):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'some_test.py'
            file.write_text(FILE.format(here=str(HERE), one=one, is_missing=is_missing, two=two), encoding='utf-8')
            return subprocess.run([sys.executable, '-B', file], capture_output=True, check=False).returncode

    def test_only_where_nothing_ran_was_the_file_skipped(self):
        self.assertEqual(self.ending(SKIPS, True), SKIPPED)
        self.assertEqual(self.ending(PASSES, True), 0)
        self.assertEqual(self.ending(SKIPS, False), 0)

    def test_a_failure_counts_whatever_was_skipped(self):
        self.assertEqual(self.ending(SKIPS, False, FAILS), 1)
        self.assertEqual(self.ending(FAILS, True), 1)

    def test_every_file_here_ends_so(self):
        for file in sorted(HERE.glob('*_test.py')):
            text = file.read_text(encoding='utf-8')
            self.assertRegex(text, r"(?s)\nif __name__ == '__main__':\n    run_tests\([^\n]*\n\Z", file.name)


if __name__ == '__main__':
    run_tests()
