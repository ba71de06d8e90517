#!/usr/bin/env python3
"""A target streamed from flash, and disks that fail it: the demo pair, real files, real devices.

  OUTRIDER_BIN=build/release/bin tests/e2e/flash_test.py

What needs a device or a cgroup of its own runs as root only. SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

from devices import Cgroup, LoopDisk, MountedTmpfs, cannot
from deadlines import robot_action_by, robot_prompts
from programs import DRAFT, TARGET, Edge, Server, edge, free_port, wait_until_served
from runner import run_tests

PROMPT = (DRAFT.parents[1] / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()


class FromFlash(unittest.TestCase):
    """A packed target that is streamed with as little memory as possible."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.folder = tempfile.TemporaryDirectory()
        cls.pack = Path(cls.folder.name) / 'target.pack'
        packed = edge('pack', '--model', TARGET, '--out', cls.pack)
        assert packed.code == 0, packed.err

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()
        cls.server.stop()

    def run_edge(self, *flags):
        return edge('run', '--server', self.server.address, *flags)

    def budget(self):
        """The budget that the error for a smaller one names; it is enough."""
        refused = edge('run', '--model', DRAFT, '--target', self.pack, '-c', '256', '-p', PROMPT,
                       '--memory-budget', '1MiB')
        self.assertEqual(refused.code, 2, refused.err)
        self.assertIn('keys and values of 256 positions', refused.err)
        return re.search(r'at least (\d+ MiB)', refused.err)[1].replace(' ', '')

    def test_it_gives_the_server_s_text(self):
        budget = self.budget()
        for sampling in (('--temp', '0'), ('--temp', '0.7', '--seed', '3'), ('--temp', '1', '--seed', '0')):
            common = ('--model', DRAFT, '-p', PROMPT, '-n', '40', '--json', *sampling)
            cloud = self.run_edge(*common)
            flash = edge('run', '--target', self.pack, '-c', '256', '--memory-budget', budget, *common)
            self.assertEqual(flash.code, 0, flash.err)
            self.assertEqual(flash.json['ids'], cloud.json['ids'])
            self.assertIn('streamed a pass', flash.err)

    def test_the_kernels_of_a_gpu_compute_what_is_streamed(self):
        """By fibers, which is slow, so answers are short."""
        common = ('run', '--target', self.pack, '-c', '64', '-p', 'Ann has 5 apples.', '-n', '6', '--json', '--temp', '0.7',
                  '--seed', '3', '--model', DRAFT)
        device = ('--device', 'host-cuda', '--draft-device', 'cpu')
        refused = edge(*common, *device, '--memory-budget', '1MiB')
        self.assertEqual(refused.code, 2, refused.err)
        self.assertIn('activations on device host-cuda', refused.err)
        budget = re.search(r'at least (\d+ MiB)', refused.err)[1].replace(' ', '')
        answer = edge(*common, *device, '--memory-budget', budget)
        self.assertEqual(answer.code, 0, answer.err)
        self.assertRegex(answer.err, 'target: on device host-cuda: .* streamed a pass')
        self.assertGreater(answer.json['streamed']['passes'], 0)
        self.assertEqual(answer.json['ids'], edge(*common).json['ids'])

    def test_rounds_are_trees_unless_something_else_is_asked_for(self):
        common = ('run', '--target', self.pack, '--model', DRAFT, '-p', PROMPT, '-n', '30', '--json')
        ids = set()
        for flags, trees in (((), True), (('--tree', 'chain'), False), (('--strategy', 'sd'), False)):
            answer = edge(*common, *flags)
            self.assertEqual(answer.code, 0, answer.err)
            self.assertEqual('trees: outrider' in answer.json['speculation'], trees, flags)
            ids.add(tuple(answer.json['ids']))
        self.assertEqual(len(ids), 1)

    def test_it_carries_the_target_s_exits(self):
        common = ('--model', DRAFT, '-p', PROMPT, '-n', '40', '--strategy', 'fsd', '--json')
        flash = edge('run', '--target', self.pack, *common)
        self.assertEqual(flash.code, 0, flash.err)
        self.assertNotIn('no early exits', flash.err)
        self.assertEqual(flash.json['ids'], self.run_edge(*common).json['ids'])

    def test_it_carries_a_predictor(self):
        """The target's exits stand for one; a second copy of their matrices takes memory."""
        bare, pack = Path(self.folder.name) / 'bare', Path(self.folder.name) / 'predictor.pack'
        bare.mkdir()
        for file in TARGET.iterdir():
            if not file.name.startswith('adapters'):
                (bare / file.name).symlink_to(file)
        self.assertEqual(edge('pack', '--model', bare, '--out', pack, '--predictor', TARGET).code, 0)
        common = ('run', '--target', pack, '--model', DRAFT, '-p', PROMPT, '-n', '40', '--tree', 'top-n',
                  '--temp', '0', '-c', '256', '--json')
        plain, pruned = edge(*common), edge(*common, '--prune', '0.2')
        self.assertEqual(pruned.code, 0, pruned.err)
        self.assertNotIn('prune: OFF', pruned.err)
        self.assertGreater(pruned.json['target_rows_pruned'], 0)
        self.assertEqual(pruned.json['ids'], plain.json['ids'])
        needed = [int(re.search(r'draft and early exits (\d+) MiB',
                                edge(*common, '--memory-budget', '1MiB', *flags).err)[1])
                  for flags in ((), ('--prune', '0.2'))]
        self.assertGreater(needed[1], needed[0])
        other = edge('pack', '--model', DRAFT, '--out', pack, '--predictor', TARGET)
        self.assertNotEqual(other.code, 0)
        self.assertIn('fingerprint', other.err)

    def test_a_long_prompt_is_streamed_through_once(self):
        common = ('--target', self.pack, '--tokenizer', DRAFT, '--strategy', 'ar', '-c', '900', '--raw', '-p',
                  'go left then right ' * 150, '-n', '1', '--json')
        refused = edge('run', *common, '--memory-budget', '1MiB')
        budget = re.search(r'at least (\d+ MiB)', refused.err)[1].replace(' ', '')
        answer = edge('run', *common, '--memory-budget', budget)
        self.assertEqual(answer.code, 0, answer.err)
        self.assertGreater(answer.json['prompt_tokens'], 512)
        self.assertEqual(answer.json['streamed']['passes'], 1)

    def test_a_long_prompt_tells_how_far_it_is(self):
        terminal, errors = pty.openpty()
        running = Edge('run', '--target', self.pack, '--tokenizer', DRAFT, '--strategy', 'ar', '-c', '900', '--raw',
                       '-p', 'go left then right ' * 150, '-n', '1', stdout=subprocess.DEVNULL, stderr=errors)
        os.close(errors)
        told = b''
        with contextlib.suppress(OSError):  # the terminal ends with the program
            while piece := os.read(terminal, 4096):
                told += piece
        os.close(terminal)
        self.assertEqual(running.wait().code, 0)
        done = [int(count) for count in re.findall(rb'reading the prompt: (\d+) of \d+ tokens', told)]
        self.assertGreaterEqual(len(done), 5, told)
        self.assertEqual(done, sorted(set(done)))

    def test_a_full_disk_leaves_no_pack(self):
        out = Path('/dev/full/target.pack')
        refused = edge('pack', '--model', TARGET, '--out', out)
        self.assertNotEqual(refused.code, 0)
        self.assertFalse(out.exists())

    def test_two_edges_share_a_pack(self):
        flags = ('run', '--model', DRAFT, '--target', self.pack, '-p', PROMPT, '-n', '30', '--json',
                 '-c', '256', '--memory-budget', self.budget())
        first, second = Edge(*flags), Edge(*flags)
        first, second = first.wait(), second.wait()
        self.assertEqual((first.code, second.code), (0, 0), first.err + second.err)
        self.assertEqual(first.json['ids'], second.json['ids'])

    def test_a_file_that_shrinks_ends_the_answer_with_the_layer_s_name(self):
        pack = Path(self.folder.name) / 'shrinking.pack'
        shutil.copyfile(self.pack, pack)
        running = Edge('run', '--model', DRAFT, '--strategy', 'sd', '--target', pack, '-p', PROMPT,
                       '-c', '256', '--memory-budget', self.budget(), '--flash-bandwidth', '30MB/s')
        letters = running.process.stdout.read(10)
        self.assertEqual(len(letters), 10)
        os.truncate(pack, pack.stat().st_size // 2)
        answer = running.wait()
        self.assertEqual(answer.code, 1, answer.err)
        self.assertRegex(answer.err, r'shrinking\.pack, (layer \d+|the output matrix|the embedding)')

    def test_what_is_unverified_by_a_deadline_is_confirmed_or_corrected(self):
        flags = ('run', '--model', DRAFT, '--target', self.pack, '-c', '256', '-p', PROMPT, '-n', '24', '--json',
                 '--memory-budget', self.budget())
        plain = edge(*flags)
        late = edge(*flags, '--flash-bandwidth', '40MB/s', '--slo', 'time_ms=300', '--slo-unverified')
        self.assertEqual(late.code, 0, late.err)
        self.assertEqual(late.json['ids'], plain.json['ids'])
        given = late.json['unverified']
        self.assertGreaterEqual(given['after_ms'], 290)
        confirmed = late.json['text'].startswith(given['text'])
        self.assertEqual(given['outcome'], 'confirmed' if confirmed else 'corrected')
        self.assertIn('deadline: unverified', late.err)
        self.assertIsNone(plain.json['unverified'])

    def test_a_trace_and_the_figures_tell_what_each_pass_did(self):
        trace = Path(self.folder.name) / 'trace.json'
        answer = edge('run', '--model', DRAFT, '--strategy', 'sd', '--target', self.pack, '-c', '256',
                      '--memory-budget', self.budget(), '--flash-bandwidth', '100MB/s', '-p', PROMPT,
                      '-n', '24', '--json', '--explain', '--trace', trace)
        self.assertEqual(answer.code, 0, answer.err)
        streamed = answer.json['streamed']
        self.assertEqual(streamed['passes'], answer.json['target_passes'])
        length = streamed['length_ms']
        self.assertAlmostEqual(streamed['computing_ms'] + streamed['waiting_ms'], length, delta=0.1)
        self.assertAlmostEqual(streamed['reading_ms'] + streamed['disk_idle_ms'], length, delta=0.1)
        self.assertGreater(streamed['bytes_read'], 0)
        self.assertRegex(answer.err, r'a streamed pass .* ms: reading .* %, computing .* %, waiting')
        events = json.loads(trace.read_text(encoding='utf-8'))['traceEvents']
        tracks = {e['tid']: e['args']['name'] for e in events if e['name'] == 'thread_name'}
        lengths = {}
        for event in events:
            if event['ph'] == 'X':
                lengths.setdefault(tracks[event['tid']], []).append(event['dur'])
        self.assertEqual(len(lengths['streamed target']), streamed['passes'])
        self.assertAlmostEqual(sum(lengths['streamed target']) / 1e3, length, delta=0.1)
        self.assertAlmostEqual(sum(lengths['streamed target: cores']) / 1e3, length,
                               delta=0.05 * length)
        self.assertIn('streamed target: disk', lengths)

    def test_too_small_a_budget_is_refused_before_anything_is_loaded(self):
        """The target as its own draft, in f32, takes 40 MB; less than half of that was touched."""
        peaks = []
        for draft in (('--model', TARGET), ('--tokenizer', TARGET)):
            with Edge('run', *draft, '--dtype', 'f32', '--target', self.pack, '-c', '256', '-p', PROMPT,
                      '--memory-budget', '1MiB').process as refused:
                self.assertIn('are needed', refused.stderr.read())
                _, status, usage = os.wait4(refused.pid, 0)
                refused.returncode = os.waitstatus_to_exitcode(status)
            self.assertEqual(refused.returncode, 2)
            peaks.append(usage.ru_maxrss)
        self.assertLess(peaks[0], peaks[1] + 20_000, peaks)

    def test_damage_beside_the_layers_is_refused_by_name(self):
        content = bytearray(self.pack.read_bytes())
        header = struct.unpack_from('<8sQQQQQ', content)
        index = json.loads(content[header[2]:header[2] + header[3]])
        places = {'config, tokenizer': next(f for f in index['files'] if f['name'] == 'tokenizer.json'),
                  'the embedding': max(index['tensors'], key=lambda tensor: tensor['bytes'])}
        for name, part in places.items():
            damaged = bytearray(content)
            damaged[part['offset'] + part['bytes'] // 2] ^= 1
            path = Path(self.folder.name) / 'damaged.pack'
            path.write_bytes(damaged)
            refused = edge('run', '--model', DRAFT, '--target', path, '-p', PROMPT)
            self.assertNotEqual(refused.code, 0, name)
            self.assertIn(f'{path}, {name}', refused.err)
            self.assertEqual(refused.out, '')

    def test_a_budget_needs_a_pack(self):
        refused = edge('run', '--model', DRAFT, '--target', TARGET, '-p', PROMPT,
                       '--memory-budget', '600MiB')
        self.assertEqual(refused.code, 2)
        self.assertIn('outrider-edge pack --model', refused.err)

    def test_what_is_no_whole_pack_is_refused_by_name(self):
        content = self.pack.read_bytes()
        for name, damaged in (('cut', content[:-100]), ('index', content[:-5] + b'xxxxx'),
                              ('version', content[:8] + b'\xff' + content[9:])):
            path = Path(self.folder.name) / name
            path.write_bytes(damaged)
            refused = edge('run', '--model', DRAFT, '--target', path, '-p', PROMPT)
            self.assertNotEqual(refused.code, 0, name)
            self.assertIn(str(path), refused.err)
            self.assertEqual(refused.out, '')



class LevelsOfAPack(unittest.TestCase):
    """An elastic target, packed level by level."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pack = Path(cls.folder.name) / 'levels.pack'
        packed = edge('pack', '--model', TARGET, '--elastic', '--out', cls.pack)
        assert packed.code == 0, packed.err
        cls.here = ('--target', cls.pack, '-c', '256')

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def budget(self, *flags):
        refused = edge('run', *self.here, *flags, '-p', PROMPT, '--memory-budget', '1MiB')
        self.assertEqual(refused.code, 2, refused.err)
        return re.search(r'at least (\d+ MiB)', refused.err)[1].replace(' ', '')

    def test_a_level_gives_the_text_that_it_gives_in_memory(self):
        common = ('--draft-source', 'none', '-p', PROMPT, '-n', '24', '--json', '--temp', '0')
        for level in ('100', '60', '100,9:40'):
            memory = edge('run', '--target', TARGET, '--elastic', TARGET / 'elastic.json', '-c', '256', '--level', level, *common)
            for budget in ((), ('--memory-budget', self.budget())):
                packed = edge('run', *self.here, '--level', level, *budget, *common)
                self.assertEqual(packed.code, 0, packed.err)
                self.assertEqual(packed.json['ids'], memory.json['ids'], level)
                self.assertEqual(packed.json['level']['course'], level)

    def test_a_gpu_refuses_it_by_name(self):
        refused = edge('run', *self.here, '-p', PROMPT, '--device', 'host-cuda')
        self.assertNotEqual(refused.code, 0)
        self.assertRegex(refused.err, 'device cuda: .* level by level. Remedy: --device cpu')

    def test_a_named_level_takes_its_own_memory_and_reads_no_more(self):
        sizes = {}
        for level in ('100', '40'):
            answer = edge('run', *self.here, '--draft-source', 'none', '--level', level, '-p', PROMPT, '-n', '4')
            sizes[level] = int(re.search(r'in memory \((\d+) MiB\)', answer.err)[1])
        table = {level['name']: level['bytes']['bf16'] for level in json.loads((TARGET / 'elastic.json').read_text())['levels']}
        for level, mib in sizes.items():
            self.assertAlmostEqual(mib, table[level] / (1 << 20), delta=2)
        refused = edge('run', *self.here, '--level', '61', '-p', PROMPT)
        self.assertIn('100, 90, 80, 70, 60, 50, 40', refused.err)

    def test_by_a_deadline_the_level_in_memory_says_what_it_expects(self):
        """Tests a flash so slow that the answer takes several seconds more than its deadline, on a busy machine too.
        tests/soak/deadline.py measures at a robot's pace."""
        drafting = ('--draft-level', '60')
        port = free_port()
        serving = Edge('serve', *self.here, *drafting, '--memory-budget', self.budget(*drafting), '--port', port, '-n', '80',
                       '--temp', '0', '--flash-bandwidth', '3MB/s')
        try:
            wait_until_served(f'http://127.0.0.1:{port}')
            answer = robot_action_by(port, robot_prompts(DRAFT.parents[1] / 'bench/prompts/robot.jsonl')[0], time_ms=4000)
        finally:
            serving.interrupt()
            serving.wait()
        self.assertIsNotNone(answer.final)
        self.assertIsNotNone(answer.expected, 'no action by the deadline')
        self.assertLess(answer.said_s, answer.took_s - 1)


class OnABadDisk(unittest.TestCase):
    """The disk of the pack is a device of the test's own, which can be made to fail."""

    FLAGS = ('-p', PROMPT, '-n', '40', '-c', '256', '--json')

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.pack = Path(cls.folder.name) / 'target.pack'
        packed = edge('pack', '--model', TARGET, '--out', cls.pack)
        assert packed.code == 0, packed.err
        refused = edge('run', '--model', DRAFT, '--target', cls.pack, *cls.FLAGS,
                       '--memory-budget', '1MiB')
        cls.budget = re.search(r'at least (\d+ MiB)', refused.err)[1].replace(' ', '')

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def begin(self, pack, rate):
        """An answer of which ten letters are there."""
        running = Edge('run', '--model', DRAFT, '--strategy', 'sd', '--target', pack, *self.FLAGS,
                       '--memory-budget', self.budget, '--flash-bandwidth', rate)
        letters = running.process.stdout.read(10)
        self.assertEqual(len(letters), 10, running.process.poll())
        return running, letters

    def expected(self):
        return edge('run', '--model', DRAFT, '--target', TARGET, *self.FLAGS).json

    @unittest.skipIf(cannot(LoopDisk), cannot(LoopDisk))
    def test_an_error_of_the_disk_ends_the_answer_with_the_layer_s_name(self):
        with LoopDisk(Path(self.folder.name) / 'disk.img', 64 << 20) as disk:
            pack = disk.path / 'target.pack'
            shutil.copyfile(self.pack, pack)
            disk.mount_again()  # the page cache is dropped
            running, letters = self.begin(pack, '30MB/s')
            disk.lose_the_end()
            answer = running.wait()
            self.assertEqual(answer.code, 1, answer.err)
            self.assertRegex(answer.err, r'target\.pack, (layer \d+|the output matrix|the embedding)')
            self.assertIn('Input/output error', answer.err)
            so_far = json.loads(answer.out.strip().splitlines()[-1])['text']
            self.assertTrue(so_far.startswith(letters))
            self.assertTrue(self.expected()['text'].startswith(so_far), so_far)

    @unittest.skipIf(cannot(LoopDisk) or cannot(Cgroup), cannot(LoopDisk) or cannot(Cgroup))
    def test_a_disk_ten_times_as_slow_costs_time_and_no_letter(self):
        with LoopDisk(Path(self.folder.name) / 'disk.img', 64 << 20) as disk, Cgroup('io') as group:
            pack = disk.path / 'target.pack'
            shutil.copyfile(self.pack, pack)
            disk.mount_again()
            running, letters = self.begin(pack, '100MB/s')
            group.take(running.process.pid)
            group.limit_reads(disk.device, 10_000_000)
            answer = running.wait()
            self.assertEqual(answer.code, 0, answer.err)
            record = json.loads(answer.out.strip().splitlines()[-1])
            expected = self.expected()
            self.assertEqual(record['ids'], expected['ids'])
            self.assertTrue(record['text'].startswith(letters))
            seconds = record['streamed']['bytes_read'] / 100e6
            self.assertGreater(record['streamed']['length_ms'], 2e3 * seconds, 'it was not slow')

    @unittest.skipIf(cannot(Cgroup), cannot(Cgroup))
    def test_a_cgroup_that_is_smaller_than_the_budget_is_named_at_the_start(self):
        with Cgroup('memory') as group:
            group.limit_memory(150 << 20)
            answer = group.run('run', '--model', DRAFT, '--target', self.pack, *self.FLAGS,
                               '--memory-budget', '200MiB')
            self.assertEqual(answer.code, 0, answer.err)
            self.assertIn('holds 150 MiB, less than --memory-budget 200 MiB',
                          answer.err.splitlines()[0])
            group.limit_memory(20 << 20)  # it ends before it loads the draft
            answer = group.run('run', '--model', DRAFT, '--target', self.pack, *self.FLAGS,
                               '--memory-budget', '200MiB')
            self.assertNotEqual(answer.code, 0)
            self.assertIn('holds 20 MiB, less than', answer.err)

    @unittest.skipIf(cannot(MountedTmpfs), cannot(MountedTmpfs))
    def test_a_disk_that_fills_up_while_packing_leaves_nothing_behind(self):
        with MountedTmpfs(Path(self.folder.name) / 'small', 4 << 20) as small:
            refused = edge('pack', '--model', TARGET, '--out', small / 'target.pack')
            self.assertNotEqual(refused.code, 0)
            self.assertIn('No space left on device', refused.err)
            self.assertEqual(list(small.iterdir()), [])
            kept = small / 'kept.pack'
            kept.write_bytes(b'the one before')
            edge('pack', '--model', TARGET, '--out', kept)
            self.assertEqual(kept.read_bytes(), b'the one before')


if __name__ == '__main__':
    run_tests()
