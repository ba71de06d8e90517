#!/usr/bin/env python3
"""outrider-bench capacity: a case that one can compute by hand, the same result twice, wrong flags.

  OUTRIDER_BIN=build/release/bin tests/e2e/capacity_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import unittest

from programs import BIN, CLEAN_ENVIRONMENT, ending_with_us
from runner import run_tests

# A row takes 10 ms, the link and the edges' drafts next to nothing.
BY_HAND = ('--pass-curve=1:10,64:640', '--step-ms=0.001', '--one-way-ms=0', '--pair=demo-robot', '--tpot-ms=107',
           '--prompt-tokens=1', '--answer-tokens=60', '--seeds=2')


class Capacity(unittest.TestCase):
    def capacity(self, *flags):
        return subprocess.run(ending_with_us(f'{BIN}/outrider-bench', 'capacity', *flags), capture_output=True,
                              text=True, timeout=120, check=False, env=CLEAN_ENVIRONMENT)

    def test_ten_rows_of_10_ms_carry_ten_plain_sessions(self):
        runs = [self.capacity(*BY_HAND) for _ in range(2)]
        self.assertEqual(runs[0].stdout, runs[1].stdout)
        result = json.loads(runs[0].stdout.splitlines()[-1])
        found = {one['contender']: one for one in result['cells'][0]['contenders']}
        self.assertEqual(found['plain']['sessions']['value'], 10)
        self.assertEqual(found['plain']['gamma'], 0)
        # Each drafted row costs as much as a token, so that drafting never pays.
        for name, one in found.items():
            self.assertLessEqual(one['sessions']['value'], 10, name)
        self.assertEqual((found['ours']['gamma'], found['ours']['sessions']['value']), (0, 10))
        self.assertEqual({bar['met'] for bar in result['bars'] if 'ours' in bar['name']}, {True})
        self.assertEqual(runs[0].returncode, 0 if result['passed'] else 1)

    def test_so_many_clients_are_one_timed_run(self):
        run = self.capacity('--clients=2000', '--duration=4', '--pace=h100-5ms', '--max-batched-rows=320')
        self.assertEqual(run.returncode, 0, run.stderr)
        result = json.loads(run.stdout.splitlines()[-1])
        self.assertEqual((result['clients'], result['virtual_s']), (2000, 5))
        self.assertGreater(result['rounds'], 1000)

    def test_several_loads_tell_who_should_draft(self):
        run = self.capacity('--clients=1,2', '--pair=demo-robot', '--pace=table9-5ms', '--duration=2', '--seeds=2')
        result = json.loads(run.stdout.splitlines()[-1])
        loads = result['table9-5ms, demo-robot']
        self.assertEqual([load['clients'] for load in loads], [1, 2])
        # At 5 ms the server has enough of one client's time to draft.
        self.assertGreater(loads[0]['both']['server_share'], 0.5)
        self.assertEqual(run.returncode, 0 if result['passed'] else 1)

    def test_wrong_flags_are_named_with_what_is_expected(self):
        for flags, words in (
                (['--pace=tpu'], 'not known; there are all, table9-5ms'),
                (['--pace=rtx-68m-7b'], 'rtx-68m-7b: its source has no pass times by rows'),
                (['--pair=nobody'], 'not known; there are all, demo-robot'),
                (['--network=carrier-pigeon', '--clients=2'], 'ethernet'),
                (['--network=offline', '--clients=2'], 'nothing arrives'),
                (['--pass-curve=20'], 'two points'),
                (['--pass-curve=1:0,4:10'], 'more than 0 ms'),
                (['--pass-curve=fast'], 'expected'),
                (['--step-ms=3'], '--pass-curve'),
                (['--tpot-ms=0'], '--tpot-ms'), (['--ttft-ms=0'], '--ttft-ms'),
                (['--clients=0'], '--clients'), (['--clients=-4'], '--clients'), (['--clients=10001'], '--clients'),
                (['--clients=9', '--max-batched-rows=65'], 'the last row of table9-5ms'),
                (['--clients=9', '--gamma=16'], 'expected more than --gamma 16'),
                (['--clients=2,0'], '--clients'), (['--clients=1,2', '--contender=plain'], '--contender'),
                (['--duration=0'], '--duration'), (['--duration=-1'], '--duration'), (['--duration=1e9'], '--duration'),
                (['--seeds=1'], '--seeds'), (['--contender=nobody'], 'specedge-dynamic')):
            run = self.capacity(*flags)
            self.assertEqual(run.returncode, 2, (flags, run.stderr))
            self.assertIn(words, run.stderr, flags)


if __name__ == '__main__':
    run_tests()
