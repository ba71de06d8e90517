#!/usr/bin/env python3
"""`./run proof` with what every machine has: this machine's edge, and without a GPU's kernels.

  OUTRIDER_BIN=build/release/bin tests/e2e/proof_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import CLEAN_ENVIRONMENT, BIN, ROOT
from runner import run_tests


class Proof(unittest.TestCase):
    def test_an_answer_of_four_programs_is_that_of_one_and_planted_faults_are_seen(self):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([sys.executable, ROOT / 'tests/soak/proof.py', '--no-arm', '--gpu', '', '--tokens', '300', '--out', folder],
                                 capture_output=True, text=True, timeout=200, check=False, env={**CLEAN_ENVIRONMENT, 'OUTRIDER_BIN': str(BIN)})
            self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
            proof = json.loads(run.stdout.splitlines()[-1])
            self.assertEqual(sum(part['tokens'] for part in proof['parts']), 300)
            self.assertEqual(run.stdout.count('planted '), 4)
            self.assertIn('<svg', (Path(folder) / 'answer.svg').read_text(encoding='utf-8'))


if __name__ == '__main__':
    run_tests()
