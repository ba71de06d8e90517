#!/usr/bin/env python3
"""Passes of both programs with the restrictions of their systemd units (under_unit.py): the answers are those of
programs that nobody restricts, and nobody is killed by a filter.

  OUTRIDER_BIN=build/release/bin tests/e2e/units_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from programs import BIN, DRAFT, ROOT, TARGET, Edge, Server, edge, free_port, wait_until_served
from runner import run_tests

DEBIAN_PYTHON = '/usr/bin/python3'
LAUNCHER = ROOT / 'tests/e2e/under_unit.py'
PROMPT = 'Go to the kitchen'
ASKED = ('-p', PROMPT, '-n', '24', '-c', '256', '--json')
STATE = {'OUTRIDER_STATE_DIR': 'auto'}  # where the unit says


def under(part, *more):
    """Words before a program."""
    return (DEBIAN_PYTHON, LAUNCHER, ROOT / f'deploy/systemd/outrider-{part}.service', *more, '--')


def can_filter():
    needs = 'import seccomp, subprocess; subprocess.run(["systemd-analyze", "--version"], check=True)'
    return os.path.exists(DEBIAN_PYTHON) and subprocess.run([DEBIAN_PYTHON, '-c', needs], capture_output=True, check=False).returncode == 0


@unittest.skipUnless(can_filter(), 'needs python3-seccomp and systemd (Debian packages)')
class UnderTheirUnits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(dir=BIN.parent)  # units hide /tmp
        cls.pack = Path(cls.folder.name) / 'target.pack'
        packed = edge('pack', '--model', TARGET, '--out', cls.pack, '--dtype', 'int8')
        assert packed.code == 0, packed.err
        cls.whole = edge('run', '--target', cls.pack, '--model', DRAFT, *ASKED).json['ids']

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def ask(self, base):
        request = urllib.request.Request(f'{base}/v1/chat/completions', headers={'Content-Type': 'application/json'},
                                         data=json.dumps({'messages': [{'role': 'user', 'content': PROMPT}], 'max_tokens': 24}).encode())
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)['choices'][0]['message']['content']

    def test_a_server_decides(self):
        with Server(under=under('server')) as server:
            answer = edge('run', '--server', server.address, '--model', DRAFT, *ASKED)
            self.assertEqual(answer.code, 0, answer.err)
            self.assertEqual(server.stop(), 0, ''.join(server.log))
        self.assertGreater(answer.json['completion_tokens'], 0)
        self.assertNotIn('threads:', ''.join(server.log), 'the unit lets threads keep to their cores')

    def test_an_edge_decides_with_its_own_target(self):
        for memory in ((), ('--memory-budget', self.least_budget())):  # in memory, and streamed
            answer = Edge('run', '--target', self.pack, '--model', DRAFT, *ASKED, *memory, under=under('edge'), environment=STATE).wait()
            self.assertEqual(answer.code, 0, answer.err)
            self.assertEqual(answer.json['ids'], self.whole, answer.err)
            self.assertNotIn('learning: OFF', answer.err, 'the unit has a place for it')
            self.assertNotIn('threads:', answer.err)

    def least_budget(self):
        refused = edge('run', '--target', self.pack, '--model', DRAFT, *ASKED, '--memory-budget', '1MiB')
        return refused.err.split('at least ')[1].split(' MiB')[0] + 'MiB'

    def test_a_serving_edge_goes_on_alone(self):
        port = free_port()
        with Server(under=under('server')) as server:
            serving = Edge('serve', '--server', server.address, '--target', self.pack, '--model', DRAFT, '-c', '256', '--port', port,
                           '--failover-after', '1', '--reconnect-timeout', '2', under=under('edge'), environment=STATE)
            self.addCleanup(serving.process.kill)
            base = f'http://127.0.0.1:{port}'
            wait_until_served(base)
            online = self.ask(base)
            server.kill()
            alone = self.ask(base)
        self.assertTrue(alone)
        serving.process.terminate()
        answer = serving.wait()
        self.assertEqual(answer.code, 0, answer.err)
        self.assertTrue(online)
        self.assertNotIn('learning: OFF', answer.err)

    def test_threads_that_may_not_keep_to_a_core_compute_all_the_same(self):
        answer = Edge('run', '--target', self.pack, '--model', DRAFT, *ASKED, under=under('edge', '--without', 'sched_setaffinity')).wait()
        self.assertEqual(answer.code, 0, answer.err)
        self.assertEqual(answer.json['ids'], self.whole)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertEqual(answer.err.count('threads: not pinned to cores'), 1, answer.err)

    def test_what_a_unit_forbids_is_refused(self):
        for part in ('server', 'edge'):
            for script in ('touch /x', 'unshare -m true', 'chmod u+s /dev/null', 'chrt -f 1 true', 'cat /root/* /home/*'):
                done = subprocess.run([*under(part), '/bin/sh', '-c', script], capture_output=True, text=True, timeout=60, check=False)
                self.assertGreater(done.returncode, 0, f'{part}: {script}: {done.stderr}')  # and no signal


if __name__ == '__main__':
    run_tests()
