#!/usr/bin/env python3
"""Rounds that are trees, with a target on this device: their size, their exits, and what ends their
branches, also where a file is damaged or another's.

  OUTRIDER_BIN=build/release/bin tests/e2e/trees_test.py

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import re
import shutil
import struct
import tempfile
import unittest
from pathlib import Path

from programs import DRAFT, TARGET, edge
from runner import run_tests

PROMPT = (DRAFT.parents[1] / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
BOTTLE = 'In view: silver bottle 20 degrees left at 2.1 m. Task: find the silver bottle.'  # its answer's rounds branch
COMMON = ('--model', DRAFT, '-p', PROMPT, '-n', '40', '-c', '256', '--json')
PRUNED = ('--tree', 'top-n', '--prune', '0.2')
MIB = 1 << 20


def run(target, *flags):
    return edge('run', '--target', target, *COMMON, *flags)


class WithFolder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.plain = edge('run', '--target', TARGET, '--tokenizer', DRAFT, '--strategy', 'ar',
                         *COMMON[2:]).json['ids']

    def assert_plain(self, answer):
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual(answer.json['ids'], self.plain, answer.err)


class Sizes(WithFolder):
    def test_no_round_has_more_nodes_than_asked_for(self):
        for kind in ('llmcad', 'edgellm', 'lever', 'fixed', 'top-n', 'outrider'):
            for size in (1, 3):
                answer = run(TARGET, '--tree', kind, '--tree-size', size)
                self.assert_plain(answer)
                self.assertGreater(answer.json['spec_decode_num_drafts'], 0, kind)
                rows = len(answer.json['passes_by_rows'])  # beside the nodes the text's last token
                self.assertLessEqual(rows, size + 1, f'{kind}, {size}')

    def test_zero_is_the_policys_own_size(self):
        own, zero = run(TARGET, '--tree', 'top-n'), run(TARGET, '--tree', 'top-n', '--tree-size', 0)
        self.assert_plain(zero)
        self.assertEqual(zero.json['spec_decode_num_draft_tokens'],
                         own.json['spec_decode_num_draft_tokens'])

    def test_more_than_the_target_takes_is_less_and_said(self):
        answer = run(TARGET, '--tree', 'top-n', '--tree-size', 512)
        self.assert_plain(answer)
        most = int(re.search(r'tree: at most (\d+) nodes a round instead of 512', answer.err)[1])
        self.assertLessEqual(len(answer.json['passes_by_rows']), most + 1)

    def test_more_than_any_target_takes_is_refused_with_the_bound(self):
        answer = run(TARGET, '--tree', 'top-n', '--tree-size', 513)
        self.assertEqual(answer.code, 2)
        self.assertIn('--tree-size: Value 513 not in range 0 to 512', answer.err)


class Strategies(unittest.TestCase):
    def test_a_strategy_without_trees_is_named_with_the_one_that_has_them(self):
        for strategy in ('ar', 'fsd', 'mirror', 'specedge', 'ssd', 'picospec'):
            answer = run(TARGET, '--strategy', strategy, '--tree', 'lever')
            self.assertEqual(answer.code, 2, strategy)
            self.assertIn('--tree lever is a round of --strategy sd, not of ' + strategy, answer.err)
            self.assertIn('Remedy: --strategy sd', answer.err)


class Damage(WithFolder):
    WEIGHTS = (TARGET / 'adapters.safetensors').read_bytes()
    HEADER = struct.unpack('<Q', WEIGHTS[:8])[0] + 8

    def with_exits(self, weights=WEIGHTS, change=lambda index: None):
        """A copy of the target with these weights of exits, whose index fits them."""
        target = self.folder / 'target'
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(TARGET, target)
        text = (TARGET / 'adapters.json').read_text(encoding='utf-8')
        text = text.replace(hashlib.sha256(self.WEIGHTS).hexdigest(), hashlib.sha256(weights).hexdigest())
        index = json.loads(text)
        change(index)
        (target / 'adapters.json').write_text(json.dumps(index), encoding='utf-8')
        (target / 'adapters.safetensors').write_bytes(weights)
        return target

    def not_numbers(self):
        return self.WEIGHTS[:self.HEADER] + b'\xff' * (len(self.WEIGHTS) - self.HEADER)

    def another_shape(self):
        header = self.WEIGHTS[8:self.HEADER]
        changed = header.replace(b'"shape":[64,320]', b'"shape":[32,640]', 1)
        self.assertNotEqual(changed, header)
        return self.WEIGHTS[:8] + changed + self.WEIGHTS[self.HEADER:]

    def test_exits_of_its_own_that_are_damaged_are_said_and_decoding_goes_on(self):
        def another_target(index):
            index['target']['fingerprint'] = '0' * 64

        cases = ((self.WEIGHTS[:1000], lambda index: None, 'adapters.safetensors'),
                 (self.WEIGHTS, another_target, 'fingerprint'),
                 (self.not_numbers(), lambda index: None, 'NaN'))
        for weights, change, why in cases:
            target = self.with_exits(weights, change)
            for flags in (PRUNED, ()):
                answer = run(target, *flags)
                self.assert_plain(answer)
                self.assertRegex(answer.err, f'exits: OFF because of target .*{why}')
                self.assertEqual(answer.err.count('exits: OFF'), 1)
                self.assertEqual('prune: OFF because the target\'s early exits are off' in answer.err,
                                 flags == PRUNED)
                self.assertEqual(answer.json['target_rows_pruned'], 0)

    def test_a_predictor_that_cannot_be_used_is_said_and_decoding_goes_on(self):
        for weights, why in ((self.not_numbers(), 'holds NaN or infinity'),
                             (self.another_shape(), r'is BF16 \[32, 640\], must be BF16 \[64, 320\]'),
                             (self.WEIGHTS[:1000], 'cut short')):
            answer = run(TARGET, *PRUNED, '--predictor', self.with_exits(weights))
            self.assert_plain(answer)
            self.assertRegex(answer.err, f'prune: OFF because of --predictor: .*{why}')
            self.assertEqual(answer.json['target_rows_pruned'], 0)
        fitting = run(TARGET, *PRUNED, '--predictor', self.with_exits())
        self.assert_plain(fitting)
        self.assertGreater(fitting.json['target_rows_pruned'], 0)


class ExitsOfAPack(WithFolder):
    def test_a_streamed_tree_has_them_where_the_layers_leave_room(self):
        pack = self.folder / 'target.pack'
        self.assertEqual(edge('pack', '--model', TARGET, '--out', pack).code, 0)
        refused = run(pack, '--memory-budget', MIB)
        least = int(re.search(r'at least (\d+) MiB are needed', refused.err)[1])
        seen = set()
        for more in range(4):
            answer = run(pack, '--memory-budget', (least + more) * MIB, '--tree-exits')
            self.assert_plain(answer)
            self.assertIn('trees: outrider', answer.json['speculation'])
            looked = sum(answer.json['exit_passes_by_rows'])
            off = 'exits: OFF for --tree-exits' in answer.err
            self.assertEqual(looked == 0, off, answer.err)
            seen.add(off)
        self.assertEqual(seen, {True, False}, 'both were to be seen')
        unasked = run(pack, '--memory-budget', (least + 3) * MIB)
        self.assert_plain(unasked)
        self.assertEqual(unasked.json['exit_passes_by_rows'], [], 'only --tree-exits asks for them')
        self.assertNotIn('exits: OFF', unasked.err)

    def test_a_target_that_stays_in_memory_waits_for_nothing_and_needs_none(self):
        pack = self.folder / 'whole.pack'
        self.assertEqual(edge('pack', '--model', TARGET, '--out', pack).code, 0)
        answer = run(pack, '--tree-exits')
        self.assert_plain(answer)
        self.assertEqual(answer.json['exit_passes_by_rows'], [])
        self.assertNotIn('exits: OFF', answer.err)


class Learning(unittest.TestCase):
    def test_what_pruning_learnt_the_next_run_goes_on_with(self):
        with tempfile.TemporaryDirectory() as state:
            file = Path(state) / 'learnt.json'

            def learnt_after_a_run():
                done = edge('run', '--target', TARGET, '--model', DRAFT, '-p', BOTTLE, '-n', '200', '--temp', '0',
                            '--tree', 'lever', '--prune', '0.2', '--state-dir', state)
                self.assertEqual(done.code, 0, done.err)
                return json.loads(file.read_text(encoding='utf-8'))

            learnt = learnt_after_a_run()
            [pair] = learnt['pairs']
            self.assertLess(pair['learnt']['edge_weights'][1], 1)
            # One run moves a weight by a tenth or less, and on a loaded machine by nothing.
            pair['learnt']['edge_weights'][1] = 2
            file.write_text(json.dumps(learnt), encoding='utf-8')
            [pair] = learnt_after_a_run()['pairs']
            self.assertGreater(pair['learnt']['edge_weights'][1], 1.5)


if __name__ == '__main__':
    run_tests(verbosity=2)
