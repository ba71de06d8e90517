#!/usr/bin/env python3
"""A strategy in Python under the virtual clock: the one that docs/lab.md prints, and programs that cannot decide.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python tests/e2e/lab_test.py

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import io
import json
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, ending_with_us
from runner import run_tests

LACKING = [name for name in ('httpx', 'mypy') if not importlib.util.find_spec(name)]
PRINTED = re.search(r'```python\n(.*?)```', (ROOT / 'docs/lab.md').read_text(encoding='utf-8'), re.S)[1]
ENVIRONMENT = {**CLEAN_ENVIRONMENT, 'PYTHONPATH': str(ROOT / 'python'), 'PYTHONDONTWRITEBYTECODE': '1'}

sys.path.insert(0, str(ROOT / 'python'))
if not LACKING:
    from outrider import lab


def bench(*flags):
    return subprocess.run(ending_with_us(BIN / 'outrider-bench', 'run', '--target', TARGET, '--draft', DRAFT, '--num-prompts', '2', '--max-tokens', '48',
                                         '--exit-cost', '1.1', '--network', 'lte', *flags),
                          capture_output=True, text=True, check=False, timeout=250, env=ENVIRONMENT, cwd=ROOT)


@unittest.skipIf(LACKING, f'needs {", ".join(LACKING)} (./run setup puts them into .venv-tests)')
class Printed(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = Path(folder.name) / 'rising.py'
        self.file.write_text(PRINTED, encoding='utf-8')

    def test_its_twenty_lines_stand_in_the_report_with_the_text_of_the_target(self):
        self.assertLessEqual(sum(bool(line.strip()) for line in PRINTED.splitlines()), 20)
        done = bench('--clock', 'virtual', '--strategy', f'ar,sd,rising={sys.executable} {self.file}')
        self.assertIn(done.returncode, (0, 1, 4), done.stderr)
        self.assertRegex(done.stdout, r'(?m)^\|? *rising\b')
        figures = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual((figures['mismatches'], figures['failed']), (0, 0))
        self.assertEqual([cell['variant'] for cell in figures['cells']], ['ar', 'sd', 'rising'])

    def test_it_is_typed(self):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run([sys.executable, '-m', 'mypy', '--strict', '--cache-dir', cache, self.file], capture_output=True, text=True,
                                  timeout=240, check=False, env=ENVIRONMENT)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Decided(unittest.TestCase):
    def test_without_methods_of_its_own_a_strategy_is_plain_speculation(self):
        """Each figure of virtual time is the same."""
        if LACKING:
            self.skipTest('needs httpx')
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / 'plain.py'
            file.write_text('from outrider import lab\nlab.serve(lab.Strategy)\n', encoding='utf-8')
            done = bench('--clock', 'virtual', '--strategy', f'sd,plain={sys.executable} {file}')
        ours, theirs = json.loads(done.stdout.splitlines()[-1])['cells']
        for cell in (ours, theirs):
            for field in ('variant', 'strategy', 'speculation'):
                cell.pop(field, None)
        self.assertEqual(ours, theirs)

    def test_what_cannot_decide_ends_the_run_with_a_sentence(self):
        for command, said in (('false', 'it has ended'), ("echo '{\"length\": 99}'", "'length' is 99. Remedy: a whole number from 0 to 64"),
                              ('yes hello', 'JSON'), ('/nowhere/at/all', 'it has ended')):
            done = bench('--clock', 'virtual', '--strategy', f'ar,mine={command}')
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(f'--strategy mine={command}: ', done.stderr)
            self.assertIn(said, done.stderr)

    def test_names_and_clocks_that_make_no_sense_are_refused(self):
        for flags, said in ((('--clock', 'virtual', '--strategy', 'sd=cat'), "'sd' is the name of another"),
                            (('--clock', 'virtual', '--strategy', 'My One=cat'), "'My One' is no name"),
                            (('--clock', 'virtual', '--strategy', 'mine='), 'names no command'),
                            (('--clock', 'virtual', '--strategy', 'mine=cat,mine=true'), 'stands twice'),
                            (('--clock', 'real', '--strategy', 'mine=cat'), 'Remedy: --clock virtual')):
            done = bench(*flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(said, done.stderr)


@unittest.skipIf(LACKING, f'needs {", ".join(LACKING)} (./run setup puts them into .venv-tests)')
class Served(unittest.TestCase):
    def test_each_answer_has_a_strategy_of_its_own_and_prints_are_no_plans(self):
        class Counting(lab.Strategy):
            rounds = 0

            def verdict(self, verdict):
                self.rounds += 1
                print('round', self.rounds)
                return lab.Plan(length=self.rounds) if verdict.accepted else None

        verdict = {'event': 'verdict', 'tokens': [1], 'drafted': 2, 'accepted': 1, 'now_ms': 1.0, 'draft_step_ms': 1.0, 'pass_ms': 1.0,
                   'round_trip_ms': 1.0}
        lines = [{'event': 'answer', 'length': 6}, verdict, {**verdict, 'accepted': 0}, {'event': 'answer', 'length': 6}, verdict]
        plans, stdout = io.StringIO(), sys.stdout
        self.addCleanup(setattr, sys, 'stdout', stdout)
        lab.serve(Counting, io.StringIO(''.join(json.dumps(line) + '\n' for line in lines)), plans)
        lengths = [json.loads(line).get('length') for line in plans.getvalue().splitlines()]
        self.assertEqual(lengths, [6, 1, None, 6, 1])


if __name__ == '__main__':
    run_tests()
