#!/usr/bin/env python3
"""outrider-edge doctor: a target on this device, a server that drafts, and what it refuses.

  OUTRIDER_BIN=build/release/bin tests/e2e/doctor_test.py

SPDX-License-Identifier: Apache-2.0
"""
import re
import tempfile
import unittest
from pathlib import Path

from programs import DRAFT, FORGETFUL, TARGET, Server, edge
from runner import run_tests

PROMPTS = [flag for task in ('find the red chair', 'go to the door', 'pick up the cup', 'bring the lamp', 'wait here', 'find the box', 'come back', 'open the door')
           for flag in ('-p', f'In view: red chair ahead at 1.0 m. Task: {task}.')]
COMMON = (*PROMPTS, '-n', '24', '--json')


class OnThisDevice(unittest.TestCase):
    def examined(self, *flags):
        done = edge('doctor', *flags, *COMMON)
        self.assertEqual(done.code, 0, done.err)
        advice, drafters = done.json['advice'], {each['way']: each for each in done.json['drafters']}
        self.assertIn(advice['tried'], drafters)
        self.assertNotEqual(advice['tried'], '--draft-source none')
        self.assertEqual(advice['draft'], advice['interval'][0] > 1)
        for way, figures in drafters.items():
            self.assertGreater(figures['answers'], 0, way)
            self.assertGreater(figures['ms_per_token'], 0, way)
            self.assertGreater(figures['target_pass_ms'], 0, way)
        # A way that has answered all was the best so far; one that has not took longer on the first third.
        for way in ('--draft-source none', advice['tried']):
            self.assertEqual(drafters[way]['answers'], 8)
        self.assertEqual(advice['tried'], [way for way, figures in drafters.items() if figures['answers'] == 8][-1])
        self.assertLessEqual({figures['answers'] for figures in drafters.values()}, {1, 2, 8})
        self.assertIsNone(drafters['--draft-source none']['acceptance_rate'])
        return done, list(drafters)

    def test_each_that_may_draft_answers_and_one_is_named(self):
        done, drafters = self.examined('--target', TARGET, '--model', DRAFT)
        model = f'--model {DRAFT}'
        self.assertEqual(drafters, ['--draft-source none', '--draft-source lookup', f'{model} --draft-source model', f'{model} --draft-source both'])
        self.assertIn('drafted by', done.err)
        told = done.json['drafters'][0]['joules_per_token']
        self.assertEqual('energy      not told: no RAPL counter can be read' in done.err, told is None, done.err)

    def test_the_largest_level_that_fits_a_budget_is_tried(self):
        with tempfile.TemporaryDirectory() as folder:
            pack = Path(folder) / 'levels.pack'
            self.assertEqual(edge('pack', '--model', TARGET, '--elastic', '--out', pack).code, 0)
            refused = edge('run', '--target', pack, '--draft-level', '60', '-c', '256', '-p', 'x', '--memory-budget', '1MiB')
            budget = re.search(r'at least (\d+ MiB)', refused.err)[1].replace(' ', '')
            done, drafters = self.examined('--target', pack, '-c', '256', '--memory-budget', budget)
        self.assertEqual(drafters[:2], ['--draft-source none', '--draft-source lookup'])
        level = int(drafters[2].removeprefix('--draft-level '))
        self.assertGreaterEqual(level, 60)
        self.assertIn(f'--draft-level {level + 10} cannot be tried: --memory-budget', done.err)

    def test_a_source_that_is_named_is_tried_alone(self):
        _, drafters = self.examined('--target', TARGET, '--draft-source', 'lookup')
        self.assertEqual(drafters, ['--draft-source none', '--draft-source lookup'])


class OverALink(unittest.TestCase):
    def test_both_sides_are_tried_where_the_server_drafts(self):
        with Server(*FORGETFUL, '--draft-source', 'lookup') as server:
            done = edge('doctor', '--server', server.address, '--model', DRAFT, *COMMON)
            self.assertEqual(done.code, 0, done.err)
            self.assertTrue(done.json['server_drafts'])
            for side in ('edge', 'server', 'auto'):
                self.assertIn(f'--draft-at {side}', done.err)
            self.assertIn('--draft-at', done.json['advice']['tried'])
            few = edge('doctor', '--server', server.address, '--model', DRAFT, '-p', 'one', '-p', 'two')
            self.assertEqual(few.code, 2, few.err)
            self.assertIn('needs 8 prompts', few.err)
            here = edge('doctor', '--server', server.address, '--draft-at', 'edge', '--tokenizer', DRAFT, *COMMON)
        self.assertEqual(here.code, 0, here.err)
        self.assertNotIn('--draft-at', here.err)

    def test_what_it_refuses(self):
        for flags, words in ((('--target', TARGET, '--server', '127.0.0.1:1', '--model', DRAFT), 'one target'),
                             (('--target', TARGET, '--draft-source', 'none'), 'rule out'),
                             (('--server', '127.0.0.1:1', '--model', DRAFT, '--strategy', 'ar'), 'rule out'),
                             (('--server', '127.0.0.1:1', '--draft-at', 'server', '--tokenizer', DRAFT), 'rule out'),
                             (('--server', '127.0.0.1:1', '--model', DRAFT, '--memory-budget', '1MiB'), 'name a pack with --target'),
                             (('--target', TARGET, '-p', 'one', '-p', 'two'), 'needs 6 prompts')):
            done = edge('doctor', *flags)
            self.assertEqual(done.code, 2, done.err)
            self.assertIn(words, done.err)


if __name__ == '__main__':
    run_tests()
