#!/usr/bin/env python3
"""outrider-bench elastic: one short run of it, and what it refuses; what an edge says of a table beside a model; levels
of a server that edges name.

  OUTRIDER_BIN=build/release/bin tests/e2e/elastic_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import shutil
import subprocess
import tempfile
import unittest

from loops import LONGEST, LOOPING, longest_loop
from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, Edge, HeldServer, edge, ending_with_us
from runner import run_tests

LEVELS = ('--target', TARGET, '--elastic', f'{TARGET}/elastic.json')


class Elastic(unittest.TestCase):
    def elastic(self, *flags):
        return subprocess.run(ending_with_us(f'{BIN}/outrider-bench', 'elastic', *flags), capture_output=True,
                              text=True, timeout=120, check=False, env=CLEAN_ENVIRONMENT, cwd=ROOT)

    def test_a_switch_is_timed_beside_an_answer_of_the_same_level(self):
        run = self.elastic('switch', *LEVELS, '--levels', '100,60', '--switches', '3', '--prompt-tokens', '8', '-c', '64')
        result = json.loads(run.stdout.splitlines()[-1])
        self.assertEqual(result['switches'], 3)
        self.assertGreater(result['later_ms']['value'], 0)
        self.assertEqual(run.returncode, 0 if result['passed'] else 1, run.stderr)

    def test_actions_and_deadlines_of_robot_scenes(self):
        with tempfile.TemporaryDirectory() as folder:
            scenes = f'{folder}/scenes.jsonl'
            subprocess.run((f'{BIN}/outrider-train', 'data-robot', '--seed', '2', '--count', '3', '--split', 'heldout', '--out', scenes),
                           check=True, capture_output=True, timeout=60, env=CLEAN_ENVIRONMENT)
            asked = (*LEVELS, '--prompts', scenes, '--count', '3')
            counted = json.loads(self.elastic('actions', *asked, '--levels', '100,40', '--tokens', '80').stdout)['levels']
            self.assertEqual(counted['100']['text_of_full'], 3)
            self.assertLess(counted['40']['text_of_full'], 3)
            flash = ('deadline', *asked, '--flash-bandwidth', '4MB/s')
            in_time, too_soon = (self.elastic(*flash, '--time-ms', time_ms) for time_ms in ('800', '1'))
            for run, share in ((in_time, 1), (too_soon, 0)):
                result = json.loads(run.stdout)
                self.assertEqual(result['other_texts'], 0)
                self.assertEqual(result['bars'][0]['value'], share, run.stderr)
                self.assertEqual(run.returncode, 1 - share, run.stderr)
            self.assertIn('does not end as --pattern says', self.elastic('actions', *asked, '--pattern', 'Answer').stderr)

    def test_an_edge_leaves_a_level_that_loops_and_its_course_says_so(self):
        def answer(prompt, *flags):
            return edge('run', *LEVELS, '-p', prompt, '-n', '80', '--temp', '0', '--json', *flags).json

        soon = ('--slo', 'time_ms=0.001,min_quality=0.2')
        for prompt in LOOPING:
            left, named = answer(prompt, *soon), answer(prompt, '--level', '40')
            self.assertRegex(left['level']['course'], r'^40,\d+:50')
            self.assertLessEqual(longest_loop(left['ids']), LONGEST)
            self.assertGreater(longest_loop(named['ids']), LONGEST)
            self.assertEqual(named['level']['course'], '40')
            self.assertEqual(answer(prompt, '--draft-source', 'none', *soon)['ids'], left['ids'], 'whatever was drafted')
            self.assertEqual(answer(prompt, '--level', left['level']['course'])['ids'], left['ids'])

    def test_a_server_answers_an_edge_by_the_level_that_it_names(self):
        asked = ('-p', 'Find the charger.', '-n', '60', '--temp', '0.8', '--seed', '3', '--ignore-eos', '--json')
        by_device = {level: edge('run', *LEVELS, '--level', level, '--strategy', 'ar', *asked).json['ids'] for level in ('100', '60')}
        self.assertNotEqual(by_device['100'], by_device['60'])
        with HeldServer(*LEVELS[2:]) as server, tempfile.TemporaryDirectory() as folder:
            remote = ('run', '--server', server.address, '--model', DRAFT, *asked)
            self.assertEqual(edge(*remote).json['ids'], by_device['100'])
            small = edge(*remote, '--level', '60')
            self.assertEqual(small.json['ids'], by_device['60'])
            self.assertIn('target: demo-target@60', small.err)
            refused = edge(*remote, '--level', '61')
            self.assertNotEqual(refused.code, 0)
            self.assertIn('no level "61"; it has 100, 90,', refused.err)
            # Mid-answer the server is gone, and the same level goes on.
            server.hold(small.json['prompt_tokens'] + 30)
            record = f'{folder}/record.jsonl'
            running = Edge(*remote, *LEVELS, '--level', '60', '--failover-after', '1', '--reconnect-timeout', '3', '--record', record)
            self.assertTrue(running.process.stdout.read(1))
            server.kill()
            answer = running.wait()
            self.assertEqual(answer.code, 0, answer.err)
            self.assertEqual(answer.json['failovers_total'], 1)
            self.assertEqual(answer.json['ids'], by_device['60'])
            self.assertIn('0 wrong', edge('audit', record, *LEVELS).out)

    def test_an_edge_says_which_levels_its_target_could_have(self):
        def said(target):
            return subprocess.run(ending_with_us(f'{BIN}/outrider-edge', 'run', '--target', target, '--draft-source', 'none', '-p', 'x',
                                                 '-n', '1', '--state-dir', 'none'),
                                  capture_output=True, text=True, timeout=60, check=True, env=CLEAN_ENVIRONMENT).stderr

        self.assertIn(f'has levels, which --elastic {TARGET}/elastic.json', said(TARGET))
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(ROOT / 'models/demo-draft', folder, dirs_exist_ok=True)
            shutil.copy(f'{TARGET}/elastic.json', folder)
            self.assertNotIn('levels', said(folder))

    def test_what_it_cannot_measure_is_refused_with_the_remedy(self):
        for flags, words in (
                (('switch', *LEVELS, '--levels', '60'), '--levels 60: a switch needs two'),
                (('switch', *LEVELS, '--levels', '100,61', '--prompt-tokens', '8', '-c', '64'), 'no level "61"'),
                (('switch', '--target', TARGET), 'has no smaller levels'),
                (('law', *LEVELS), '--dtype auto'),
                (('memory', *LEVELS, '--level', '60', '--rounds', '2'), '--level'),
                (('flash', *LEVELS), '--plain'),
                (('flash', *LEVELS, '--plain', TARGET, '--levels', '60'), 'is no pack'),
                (('deadline', *LEVELS), '--flash-bandwidth and --elastic'),
                (('deadline', *LEVELS, '--flash-bandwidth', '8MB/s', '--pattern', '('), '--pattern ('),
                (('deadline', *LEVELS, '--flash-bandwidth', '8MB/s', '--pass-ms', '1:x'), '1:x'),
                (('speed',), 'part')):
            run = self.elastic(*flags)
            self.assertIn(run.returncode, (1, 2), (flags, run.stdout, run.stderr))
            self.assertIn(words, run.stderr, flags)


if __name__ == '__main__':
    run_tests()
