#!/usr/bin/env python3
"""Answers that may not change when code moves: their tokens, passes, bytes and times in virtual time.

Every strategy answers the same prompts with the demo pair, over two emulated networks, greedily and
sampled. The virtual clock makes each answer repeatable, so a change of a policy, of
the protocol or of a kernel's bits shows here first. Where the change is meant, write the file anew
and say in the commit why it differs:

  OUTRIDER_BIN=build/release/bin tests/golden/answers/answers_test.py --write

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / 'e2e'))

from programs import BIN, CLEAN_ENVIRONMENT, ROOT, ending_with_us  # noqa: E402

GOLDEN = HERE / 'answers.json'
INCONCLUSIVE = 4  # so few prompts decide no bar
SETTING = ('--clock', 'virtual', '--pace', 'rtx-68m-7b', '--network', 'lte,wifi', '--exit-cost', '1.1',
           '--pace-exits', 'measured', '--strategy', 'ar,sd,fsd,mirror', '--temp', '0,0.7',
           '--max-tokens', '40', '--num-prompts', '3')


def bench(*arguments):
    ran = subprocess.run(ending_with_us(BIN / 'outrider-bench', *arguments), cwd=ROOT, env=CLEAN_ENVIRONMENT, check=False,
                         capture_output=True, text=True)
    if ran.returncode not in (0, INCONCLUSIVE):
        sys.exit(f'outrider-bench {arguments[0]} ended with {ran.returncode}: {ran.stderr}')
    return ran.stdout


def figures(row):
    """Returns an answer and its cost. Times are in milliseconds, of which libm may move the last digits."""
    answer, predraft = row['answer'], row['answer']['predraft']
    return {
        'answer': f'{row["setting"]}, {row["strategy"]}, prompt {row["prompt"]}',
        'ids': hashlib.sha256(json.dumps(answer['ids']).encode()).hexdigest()[:16],
        'tokens': answer['completion_tokens'],
        'stop': answer['stop_reason'],
        'passes': answer['target_passes'],
        'rows': answer['target_rows'],
        'drafted': answer['spec_decode_num_draft_tokens'],
        'accepted': answer['spec_decode_num_accepted_tokens'],
        'cache': [predraft['hits'], predraft['partial_hits'], predraft['misses'], predraft['reports']],
        'bytes': [answer['bytes']['payload_up'], answer['bytes']['payload_down']],
        'ms': round(answer['chunk_ms'][-1], 1),
    }


def measure():
    with tempfile.TemporaryDirectory() as out:
        bench('run', *SETTING, '--prompts', HERE / 'prompts.jsonl', '--out', out, '--json')
        lines = (Path(out) / 'requests.jsonl').read_text(encoding='utf-8').splitlines()
    rows = [json.loads(line) for line in lines]
    answers = sorted((figures(row) for row in rows if 'answer' in row), key=lambda one: one['answer'])
    wire = json.loads(bench('wire').splitlines()[-1])
    return {'answers': answers, 'wire': {key: value for key, value in wire.items() if key.endswith('bytes')}}


class Answers(unittest.TestCase):
    maxDiff = None

    def test_they_are_what_they_were(self):
        golden, now = json.loads(GOLDEN.read_text(encoding='utf-8')), measure()
        self.assertEqual(now['wire'], golden['wire'])
        self.assertEqual(len(now['answers']), len(golden['answers']))
        for was, is_now in zip(golden['answers'], now['answers']):
            with self.subTest(was['answer']):
                self.assertEqual(is_now, was)


def write():
    measured = measure()
    lines = ',\n'.join(json.dumps(one) for one in measured['answers'])
    GOLDEN.write_text(f'{{"wire": {json.dumps(measured["wire"])},\n"answers": [\n{lines}\n]}}\n', encoding='utf-8')


if __name__ == '__main__':
    if sys.argv[1:] == ['--write']:
        write()
    else:
        unittest.main()
