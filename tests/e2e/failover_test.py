#!/usr/bin/env python3
"""An edge with a server and a target of its own: the server is killed, hangs, comes back, or was
never there, and the text is the same.

  OUTRIDER_BIN=build/release/bin tests/e2e/failover_test.py

OUTRIDER_FAILOVERS=N cuts the link at N places of an answer instead of a few. OUTRIDER_FAILOVER_PAIR=TARGET,DRAFT
has another pair than the demo's; of a large one, choose the tests that kill the server.
SPDX-License-Identifier: Apache-2.0
"""
import itertools
import os
import re
import shutil
import signal
import tempfile
import unittest
from pathlib import Path

import programs
from programs import ROOT, Edge, edge, free_port
from runner import run_tests

TARGET, DRAFT = os.environ.get('OUTRIDER_FAILOVER_PAIR', f'{programs.TARGET},{programs.DRAFT}').split(',')
PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
PACED = ('--pace-pass-ms', '60')
# A drafted answer has four passes or more, of which some are to come when its first letters are there.
FEW_PASSES = ('--pace-pass-ms', '400')
SHARED = ('--pace-pass-ms', '200')  # two edges are in the midst of their answers
CUTS = int(os.environ.get('OUTRIDER_FAILOVERS', '4'))
SAMPLINGS = (('--temp', '0'), ('--temp', '0.8', '--seed', '4'))
COMMON = ('--tokenizer', DRAFT, '--strategy', 'ar', '-p', PROMPT, '-n', '40', '-c', '256', '--json')
DRAFTED = ('--model', DRAFT, '-p', PROMPT, '-n', '40', '-c', '256', '--json')
# A large model's first pass takes longer than a second.
PATIENCE = '5' if 'OUTRIDER_FAILOVER_PAIR' in os.environ else '1'
QUICK = ('--failover-after', PATIENCE, '--failback-after', '0.3', '--reconnect-timeout', '3')


class Server(programs.Server):
    def __init__(self, *flags, **options):
        super().__init__(*flags, model=TARGET, **options)


def free_address():
    return f'127.0.0.1:{free_port()}'


class Failover(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.packs = {}
        for dtype in ('auto', 'int8'):
            cls.packs[dtype] = Path(cls.folder.name) / f'{dtype}.pack'
            packed = edge('pack', '--model', TARGET, '--out', cls.packs[dtype], '--dtype', dtype)
            assert packed.code == 0, packed.err
        cls.whole = {sampling: edge('run', '--target', cls.packs['auto'], *COMMON, *sampling).json['ids']
                     for sampling in SAMPLINGS}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def start(self, address, *flags, pack='auto'):
        """An edge with a server and a pack."""
        return Edge('run', '--server', address, '--target', self.packs[pack], *QUICK, *COMMON, *flags)

    def wait_for_letters(self, running, count):
        letters = ''
        while len(letters) < count:
            letter = running.process.stdout.read(1)
            self.assertTrue(letter, 'the answer ended early')
            letters += letter

    def wait_for_failover(self, running):
        said = ''
        while 'failover: ' not in said:
            said = running.process.stderr.readline()
            self.assertTrue(said, 'the answer ended early')

    def assert_same(self, answer, sampling):
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual(answer.json['ids'], self.whole[sampling], answer.err)
        self.assertEqual(answer.json['mode'], 'auto')

    def test_a_pack_that_takes_over_is_speculated_with_by_trees(self):
        for sampling in SAMPLINGS:
            with Server(*FEW_PASSES) as server:
                running = Edge('run', '--server', server.address, '--target', self.packs['auto'], *QUICK, *DRAFTED, *sampling)
                self.wait_for_letters(running, 1)
                server.kill()
                answer = running.wait()
            self.assert_same(answer, sampling)
            self.assertRegex(answer.err, r'speculation: ON \(mirror, draft \S+, γ<=8; offline trees: outrider\)')
            self.assertGreater(answer.json['offline_seconds_total'], 0, answer.err)

    def test_whoever_drafts_a_server_killed_costs_no_token(self):
        drafting, looking_up = ('--draft-model', DRAFT), ('--draft-source', 'lookup')
        modelless = (*COMMON[:2], *DRAFTED[2:])
        places = ((drafting, DRAFTED), (drafting, (*DRAFTED, '--draft-source', 'both')),
                  (looking_up, (*modelless, *looking_up)), (drafting, (*modelless, '--draft-at', 'server')))
        for sampling, (of_server, of_edge) in itertools.product(SAMPLINGS, places):
            with self.subTest(server=of_server, edge=of_edge), Server(*FEW_PASSES, *of_server) as server:
                running = Edge('run', '--server', server.address, '--target', self.packs['auto'], *QUICK, *of_edge, *sampling)
                self.wait_for_letters(running, 10)  # the first token or two come without drafts
                server.kill()
                answer = running.wait()
                self.assert_same(answer, sampling)
                self.assertEqual(answer.json['failovers_total'], 1, answer.err)
                drafted = answer.json['spec_decode_num_draft_tokens'] + answer.json['spec_decode_num_server_tokens']
                self.assertGreater(drafted, 0, answer.json)

    def test_a_server_killed_anywhere_costs_no_token(self):
        for number in range(CUTS):
            sampling = SAMPLINGS[number % 2]
            with Server(*PACED) as server:
                running = self.start(server.address, *sampling)
                if number > 0:
                    self.wait_for_letters(running, 1 + number * 80 // CUTS)
                server.kill()
                answer = running.wait()
            self.assert_same(answer, sampling)
            self.assertEqual(answer.json['failovers_total'], 1, answer.err)
            self.assertEqual(answer.err.count('failover: '), 1, answer.err)
            self.assertRegex(answer.err, r'going on offline at token \d+')
            self.assertGreater(answer.json['offline_seconds_total'], 0)

    def test_the_kernels_of_a_gpu_go_on_from_flash(self):
        """By fibers, which is slow, so most of the answer is there when the server goes."""
        device = ('--device', 'host-cuda')
        refused = edge('run', '--target', self.packs['auto'], *COMMON, *device, '--memory-budget', '1MiB')
        budget = ('--memory-budget', re.search(r'at least (\d+ MiB)', refused.err)[1].replace(' ', ''))
        with Server(*PACED) as server:
            running = self.start(server.address, *device, *budget, *SAMPLINGS[1])
            self.wait_for_letters(running, 60)
            server.kill()
            answer = running.wait()
        self.assert_same(answer, SAMPLINGS[1])
        self.assertEqual(answer.json['failovers_total'], 1, answer.err)
        self.assertRegex(answer.err, 'on device host-cuda: .* streamed a pass')
        self.assertGreater(answer.json['streamed']['passes'], 0)

    def test_a_server_that_hangs_is_left(self):
        with Server(*PACED) as server:
            running = self.start(server.address, *SAMPLINGS[1])
            self.wait_for_letters(running, 20)
            server.process.send_signal(signal.SIGSTOP)
            answer = running.wait()
            server.process.send_signal(signal.SIGCONT)
        self.assert_same(answer, SAMPLINGS[1])
        self.assertIn('failover: the server has said nothing for', answer.err)

    def test_a_server_that_comes_back_takes_over_again(self):
        for sampling in SAMPLINGS:
            with Server(*PACED, port=free_port()) as server:
                # A flash so slow that this device alone would need half a minute.
                running = self.start(server.address, '--memory-budget', self.budget(),
                                     '--flash-bandwidth', '15MB/s', *sampling)
                self.wait_for_letters(running, 10)
                server.kill()
                self.wait_for_failover(running)
                with Server(*PACED, port=server.port):
                    answer = running.wait()
            self.assert_same(answer, sampling)
            self.assertGreaterEqual(answer.json['failbacks_total'], 1, answer.err)
            self.assertRegex(answer.err, r'failback: the link has been good for \d+\.\d s; going on online')

    def budget(self):
        refused = edge('run', '--target', self.packs['auto'], *COMMON, '--memory-budget', '1MiB')
        return re.search(r'at least (\d+ MiB)', refused.err)[1].replace(' ', '')

    def test_without_any_network_it_answers_alone(self):
        for flags, mode in ((('--mode', 'auto'), 'auto'), (('--mode', 'offline'), 'offline'), (('--offline',), 'offline')):
            answer = self.start(free_address(), *flags, *SAMPLINGS[0]).wait()
            self.assertEqual(answer.code, 0, answer.err)
            self.assertEqual(answer.json['ids'], self.whole[SAMPLINGS[0]])
            self.assertEqual(answer.json['mode'], mode)
            self.assertGreater(answer.json['offline_seconds_total'], 0)

    def test_offline_is_a_mode_and_excludes_the_others(self):
        answer = self.start(free_address(), '--offline', '--mode', 'online').wait()
        self.assertEqual(answer.code, 2, answer.err)
        self.assertIn('--offline', answer.err)
        self.assertIn('--mode', answer.err)

    def test_an_answer_that_begins_alone_is_speculated_with_by_trees(self):
        answer = Edge('run', '--server', free_address(), '--target', self.packs['auto'], *QUICK, *DRAFTED, *SAMPLINGS[0]).wait()
        self.assert_same(answer, SAMPLINGS[0])
        self.assertGreater(answer.json['spec_decode_num_draft_tokens'], 0)
        self.assertEqual(answer.json['predraft']['reports'], 0, 'mirror asks for exits, trees only with --tree-exits')

    def test_a_standby_reads_along(self):
        with Server(*PACED) as server:
            running = self.start(server.address, '--standby-lag', '8', *SAMPLINGS[0])
            self.wait_for_letters(running, 60)
            server.kill()
            answer = running.wait()
        self.assert_same(answer, SAMPLINGS[0])
        self.assertGreater(answer.json['cached_tokens'], answer.json['prompt_tokens'])

    def test_a_standby_that_cannot_keep_up_says_so_once(self):
        with Server('--pace-pass-ms', '20') as server:
            answer = self.start(server.address, '--standby-lag', '4', '--memory-budget', self.budget(),
                                '--flash-bandwidth', '150MB/s', *SAMPLINGS[0]).wait()
        self.assert_same(answer, SAMPLINGS[0])
        self.assertEqual(answer.err.count('standby: this device reads more slowly than the server writes'), 1,
                         answer.err)

    def test_other_arithmetic_is_said_or_refused(self):
        with Server(*SHARED) as server:
            running = self.start(server.address, pack='int8')
            strict = self.start(server.address, '--strict-target', pack='int8')
            self.wait_for_letters(running, 10)
            self.wait_for_letters(strict, 10)
            server.kill()
            answer, refused = running.wait(), strict.wait()
        self.assertEqual(answer.code, 0, answer.err)
        self.assertIn('the text may differ from here on', answer.err)
        self.assertEqual(refused.code, 1, refused.err)
        self.assertIn('failover: OFF because', refused.err)
        self.assertIn('--strict-target', refused.err)
        self.assertEqual(refused.json['stop_reason'], 'link_lost')

    def test_another_model_takes_over_only_if_it_is_named_so(self):
        pack = Path(self.folder.name) / 'draft.pack'
        self.assertEqual(edge('pack', '--model', DRAFT, '--out', pack).code, 0)
        for other in (DRAFT, pack):
            with Server(*SHARED) as server:
                flags = ('--server', server.address, *QUICK, *COMMON)
                refused = Edge('run', *flags, '--target', other)
                named = Edge('run', *flags, '--offline-target', other)
                self.wait_for_letters(refused, 10)
                self.wait_for_letters(named, 10)
                server.kill()
                refused, named = refused.wait(), named.wait()
            self.assertEqual(refused.code, 1, refused.err)
            self.assertIn('is another model', refused.err)
            self.assertEqual(named.code, 0, named.err)
            self.assertIn('the text may differ from here on', named.err)

    def test_a_flash_that_fails_hands_back_to_the_server(self):
        pack = Path(self.folder.name) / 'failing.pack'
        shutil.copyfile(self.packs['auto'], pack)
        with Server(*PACED, port=free_port()) as server:
            running = Edge('run', '--server', server.address, '--target', pack, *COMMON,
                           '--memory-budget', self.budget(), '--flash-bandwidth', '15MB/s',
                           '--failover-after', '1', '--failback-after', '60', '--temp', '0')
            self.wait_for_letters(running, 10)
            server.kill()
            self.wait_for_failover(running)
            os.truncate(pack, pack.stat().st_size // 2)
            with Server(*PACED, port=server.port):
                answer = running.wait()
        self.assert_same(answer, SAMPLINGS[0])
        self.assertRegex(answer.err, r'failback: .*failing\.pack(, (layer \d+|the output matrix|the embedding).*|: was .*); going on '
                                     r'online at token \d+')
        self.assertEqual(answer.json['failbacks_total'], 1, answer.err)

    def test_a_metered_link_is_left_when_it_is_spent(self):
        with Server(*PACED) as server:
            answer = self.start(server.address, '--metered-limit', '0.001', *SAMPLINGS[0]).wait()
        self.assert_same(answer, SAMPLINGS[0])
        self.assertIn('--metered-limit allows', answer.err)
        self.assertEqual(answer.json['failovers_total'], 1)

    def test_asking_for_the_chat_template_counts_against_the_limit(self):
        """More than the few bytes that this limit allows, before the first message of an answer."""
        with Server(*PACED) as server:
            answer = self.start(server.address, '--metered-limit', '0.0001', *SAMPLINGS[0]).wait()
        carried = int(re.search(r'the link has carried (\d+) bytes', answer.err)[1])
        self.assertGreater(carried, sum(answer.json['bytes'][way] for way in ('framed_up', 'framed_down')), answer.err)

    def test_a_damaged_pack_leaves_the_server_alone(self):
        damaged = Path(self.folder.name) / 'damaged.pack'
        damaged.write_bytes(self.packs['auto'].read_bytes()[:-100])
        with Server() as server:
            flags = ('run', '--server', server.address, '--target', damaged, *COMMON)
            answer = edge(*flags, *SAMPLINGS[0])
            self.assertEqual(answer.code, 0, answer.err)
            self.assertEqual(answer.json['ids'], self.whole[SAMPLINGS[0]])
            self.assertIn('failover: OFF because', answer.err)
            self.assertEqual(answer.json['mode'], 'online')
            self.assertNotEqual(edge(*flags, '--metered-limit', '1').code, 0)

    def test_a_mode_needs_its_target(self):
        for mode in ('auto', 'offline'):
            refused = edge('run', '--mode', mode, *COMMON)
            self.assertEqual(refused.code, 2)
            self.assertIn('--target', refused.err)


if __name__ == '__main__':
    run_tests(verbosity=2)
