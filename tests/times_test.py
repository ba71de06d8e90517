#!/usr/bin/env python3
"""SPDX-License-Identifier: Apache-2.0"""
import tempfile
import unittest

from times import measured, slow_tests

PUBLISHED = {'a': 10.0, 'b': 20.0, 'c': 40.0, 'quick': 0.1}


class Times(unittest.TestCase):
    def test_a_slow_machine_names_nothing(self):
        self.assertEqual(slow_tests({name: 3 * seconds for name, seconds in PUBLISHED.items()}, PUBLISHED), [])

    def test_a_test_that_doubles_is_named(self):
        self.assertEqual(slow_tests(PUBLISHED | {'c': 81.0}, PUBLISHED), [('c', 81.0, 40.0)])
        self.assertEqual(slow_tests(PUBLISHED | {'quick': 11.0}, PUBLISHED), [('quick', 11.0, 5.0)])

    def test_noise_of_quick_tests_and_new_tests_are_not_named(self):
        self.assertEqual(slow_tests(PUBLISHED | {'quick': 4.0, 'new': 100.0}, PUBLISHED), [])
        self.assertEqual(slow_tests({'new': 100.0}, PUBLISHED), [])

    def test_a_report_gives_the_tests_that_ran(self):
        with tempfile.NamedTemporaryFile('w', suffix='.xml', encoding='utf-8') as file:
            file.write('<testsuite><testcase name="a" time="1.5" status="run"/><testcase name="b" time="0" status="notrun"/></testsuite>')
            file.flush()
            self.assertEqual(measured(file.name), {'a': 1.5})


if __name__ == '__main__':
    unittest.main()
