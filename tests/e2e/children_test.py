#!/usr/bin/env python3
"""A program of ours whose parent is killed ends with it.

  OUTRIDER_BIN=build/release/bin tests/e2e/children_test.py

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, ending_with_us, eventually
from runner import run_tests

HERE = Path(__file__).resolve().parent
TESTS = HERE.parent
FORKING = ('adapters', 'bench', 'cloud_server', 'common', 'edge_client', 'emulation', 'tests/unit/cloud_server')
SECONDS = 60  # of a loaded machine
TEST = '''
import os, sys, time
os.environ['OUTRIDER_BIN'] = {bin!r}
sys.path.insert(0, {here!r})
from programs import DRAFT, Edge, Server
server = Server()
edge = Edge('run', '--server', server.address, '--model', DRAFT, '-p', 'Go', '-n', '100000', '-c', '0')
print(server.process.pid, edge.process.pid, flush=True)
time.sleep(1000)
'''


def programs_of(pid):
    """{pid: name} of the programs below that process; Linux keeps 15 letters of a name."""
    parents, names = {}, {}
    for status in Path('/proc').glob('[0-9]*/status'):
        try:
            fields = dict(line.split(':\t', 1) for line in status.read_text(encoding='utf-8').splitlines() if ':\t' in line)
        except OSError:
            continue
        number = int(status.parent.name)
        parents[number], names[number] = int(fields['PPid']), fields['Name']
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return {child: names[child] for child in below - {pid}}


def is_running(pid):
    try:
        return '\nState:\tZ' not in Path(f'/proc/{pid}/status').read_text(encoding='utf-8')
    except OSError:
        return False


class Children(unittest.TestCase):
    def wait_for(self, condition, what):
        return eventually(condition, what, SECONDS)

    def start(self, *command):
        process = subprocess.Popen(ending_with_us(*command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                   env=CLEAN_ENVIRONMENT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def assert_ends_all(self, process, children):
        process.send_signal(signal.SIGKILL)
        process.wait()
        try:
            self.wait_for(lambda: not any(map(is_running, children)), f'{children} go on')
        finally:
            for child in filter(is_running, children):
                os.kill(child, signal.SIGKILL)

    def test_a_killed_bench_leaves_no_server_and_no_edge(self):
        with tempfile.TemporaryDirectory() as folder:
            prompts = Path(folder) / 'prompts.jsonl'
            prompts.write_text('{"prompt": "Go to the kitchen"}\n', encoding='utf-8')
            bench = self.start(BIN / 'outrider-bench', 'run', '--target', TARGET, '--draft', DRAFT, '--prompts', prompts, '--num-prompts', '1',
                               '--max-tokens', '256', '--exit-cost', '1.15', '--clock=real', '--link=modelled', '--network=lte',
                               '--strategy=ar', '--out', Path(folder) / 'out')

            def both():
                names = programs_of(bench.pid)
                return names if {'outrider-lab-se', 'outrider-lab-ed'} <= set(names.values()) else None
            self.assert_ends_all(bench, self.wait_for(both, 'no server and edge were started'))

    def test_a_killed_test_leaves_no_server_and_no_edge(self):
        test = self.start(sys.executable, '-c', TEST.format(here=str(HERE), bin=str(BIN)))
        pids = [int(word) for word in test.stdout.readline().split()]
        self.assertEqual(len(pids), 2)
        self.assertTrue(all(map(is_running, pids)))
        self.assert_ends_all(test, pids)

    def test_every_program_that_a_test_lets_run_is_started_so(self):
        """Except the browser, which ends when the pipe over which it is driven does."""
        starts = 0
        for file in sorted(TESTS.rglob('*.py')):
            text = file.read_text(encoding='utf-8')
            for command in re.findall(r'subprocess\.Popen\(\s*(.*)', text):
                if file.name in ('browser.py', 'children_test.py'):
                    continue
                starts += 1
                is_named = command.startswith('command,') and 'command = ending_with_us(' in text
                self.assertTrue(is_named or command.startswith('ending_with_us('), f'{file.name}: {command}')
        self.assertGreater(starts, 8)

    def test_every_fork_of_ours_asks_for_the_end_with_its_parent(self):
        forks = 0
        for file in sorted(path for folder in FORKING for ending in ('cc', 'h') for path in (ROOT / folder).rglob(f'*.{ending}')):
            for child in file.read_text(encoding='utf-8').split(' = fork();')[1:]:
                forks += 1
                self.assertIn('prctl(PR_SET_PDEATHSIG, SIGKILL);', child[:400], file.name)
        self.assertGreaterEqual(forks, 3)

    def test_what_starts_too_late_does_not_start(self):
        """The parent ended before the signal was requested, so the shell finds another parent than expected."""
        command = ending_with_us('echo', 'started')
        command[command.index(str(os.getpid()))] = '1'
        self.assertEqual(subprocess.run(command, capture_output=True, text=True, check=False).stdout, '')
        self.assertEqual(subprocess.run(ending_with_us('echo', 'started'), capture_output=True, text=True, check=False).stdout, 'started\n')


if __name__ == '__main__':
    run_tests()
