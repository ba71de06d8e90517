#!/usr/bin/env python3
"""outrider-bench run with failures: servers that die, full disks, reports that differ.

  OUTRIDER_BIN=build/release/bin tests/e2e/bench_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, TARGET, ending_with_us, eventually, free_port
from runner import run_tests

PROMPTS = ['Go to the door.', 'Find the cup.', 'Turn left.', 'Stop at the lift.']
# Free space on the full disk: too little for report.json, enough for report.md.
FULL_DISK = r'''
mount -t tmpfs -o size=2m none "$1" && shift
"$@" > "$KEPT/first"
[ -s "$OUT/report.json" ] || exit 90
rm -f "$OUT"/report.* "$OUT"/page.html
head -c 2m /dev/zero > "$OUT/ballast" 2>/dev/null
truncate -s -16k "$OUT/ballast"
"$@"
code=$?
ls "$OUT" > "$KEPT/names"
cp "$OUT"/requests.jsonl "$OUT"/report.* "$KEPT"
exit $code
'''


def children_of(pid, name):
    """The processes of that name that it started."""
    found = []
    for status in Path('/proc').glob('[0-9]*/status'):
        try:
            fields = dict(line.split(':\t', 1) for line in status.read_text().splitlines() if ':\t' in line)
            words = (status.parent / 'cmdline').read_bytes().split(b'\0')
        except OSError:
            continue
        if fields.get('PPid') == str(pid) and words[0].decode().endswith(name):
            found.append((int(status.parent.name), words))
    return found


class Run(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.out = self.folder / 'out'
        self.prompts = self.folder / 'prompts.jsonl'
        self.prompts.write_text(''.join(json.dumps({'prompt': text}) + '\n' for text in PROMPTS),
                                encoding='utf-8')

    def command(self, *flags):
        return [f'{BIN}/outrider-bench', 'run', f'--target={TARGET}', f'--draft={DRAFT}',
                f'--prompts={self.prompts}', f'--num-prompts={len(PROMPTS)}', '--max-tokens=32',
                '--exit-cost=1.15', f'--out={self.out}', '--json', *flags]

    def virtual(self, *flags):
        return self.command('--clock=virtual', '--network=ethernet', '--strategy=ar,mirror', *flags)

    def bench(self, command, **options):
        return subprocess.run(ending_with_us(*command), capture_output=True, text=True, timeout=200, check=False,
                              env=CLEAN_ENVIRONMENT, **options)

    def compare(self, *paths):
        return self.bench([f'{BIN}/outrider-bench', 'compare', *map(str, paths)])

    def requests(self):
        """The complete lines, without the first."""
        path = self.out / 'requests.jsonl'
        text = path.read_text(encoding='utf-8') if path.exists() else ''
        return [json.loads(line) for line in text.split('\n')[1:-1]]

    def wait_for_requests(self, count):
        eventually(lambda: len(self.requests()) >= count, seconds=100)

    def test_a_server_that_is_killed_costs_its_request_and_no_other(self):
        process = subprocess.Popen(
            ending_with_us(*self.command('--clock=real', '--link=modelled', '--network=ethernet', '--strategy=ar')),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=CLEAN_ENVIRONMENT)
        self.addCleanup(process.kill)
        self.wait_for_requests(1)
        eventually(lambda: children_of(process.pid, 'outrider-lab-edge'))
        # The setting's server has an emulated pace, the references' server has none.
        paced = [pid for pid, words in children_of(process.pid, 'outrider-lab-server')
                 if b'--pace-pass-ms' in words]
        self.assertEqual(len(paced), 1)
        os.kill(paced[0], signal.SIGKILL)
        out, err = process.communicate(timeout=150)
        figures = json.loads(out.splitlines()[-1])
        self.assertEqual(figures['failed'], 1, err)
        self.assertIn('1 of 4 requests failed', err)
        report = json.loads((self.out / 'report.json').read_text(encoding='utf-8'))
        self.assertEqual(report['cells'][0]['requests'], 4)
        self.assertEqual(report['cells'][0]['failed'], 1)
        failed = [request['error'] for request in self.requests() if request['error']]
        self.assertEqual(len(failed), 1)
        self.assertEqual(len(self.requests()), 4)

    def test_a_server_that_cannot_be_reached_is_named(self):
        address = f'127.0.0.1:{free_port()}'
        done = self.bench(self.command(f'--server={address}', '--strategy=ar'))
        self.assertEqual(done.returncode, 1)
        self.assertIn(address, done.stderr)

    def test_first_figures_come_soon(self):
        """The machine has other work too, so within twice the promised 10 s."""
        began = time.monotonic()
        process = subprocess.Popen(
            ending_with_us(*self.command('--clock=real', '--network=lte', '--strategy=ar,sd,mirror',
                                         '--pace=table9')), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            text=True, env=CLEAN_ENVIRONMENT)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        self.addCleanup(process.stderr.close)
        self.assertTrue(any('tokens/s' in line for line in process.stderr))
        self.assertLess(time.monotonic() - began, 20)

    @unittest.skipIf(os.geteuid() != 0, 'a full disk needs root')
    def test_a_full_disk_costs_the_reports_that_do_not_fit(self):
        disk, kept = self.folder / 'disk', self.folder / 'kept'
        disk.mkdir()
        kept.mkdir()
        self.out = disk / 'out'
        command = self.virtual('--network=3g,3g-slow,satellite', f'--html={self.out}/page.html')
        done = subprocess.run(
            ['unshare', '--mount', 'bash', '-c', FULL_DISK, 'full_disk', disk, *command],
            capture_output=True, text=True, timeout=200, check=False,
            env={**CLEAN_ENVIRONMENT, 'OUT': str(self.out), 'KEPT': str(kept)})
        if 'unshare: ' in done.stderr or 'mount: ' in done.stderr:
            self.skipTest('no mounts of our own here: ' + done.stderr.strip())
        self.assertEqual(done.returncode, 1, done.stderr)
        figures = json.loads(done.stdout.splitlines()[-1])
        self.assertEqual(figures['not_written'], [f'{self.out}/page.html', f'{self.out}/report.json'])
        self.assertIn('report.json: cannot be written: No space left on device', done.stderr)
        names = (kept / 'names').read_text(encoding='utf-8').split()
        self.assertEqual(sorted(names), ['ballast', 'report.csv', 'report.md', 'requests.jsonl'],
                         'no half of a report')
        lines = (kept / 'requests.jsonl').read_text(encoding='utf-8').splitlines()
        self.assertEqual(len([json.loads(line) for line in lines]), 1 + 4 * 2 * len(PROMPTS))
        self.assertIn('| mirror |', (kept / 'report.md').read_text(encoding='utf-8'))

    def test_compare_finds_what_became_slower_and_refuses_what_differs(self):
        self.bench(self.virtual())
        path, changed = self.out / 'report.json', self.folder / 'changed.json'
        report = json.loads(path.read_text(encoding='utf-8'))

        def against(change):
            other = json.loads(path.read_text(encoding='utf-8'))
            change(other)
            changed.write_text(json.dumps(other), encoding='utf-8')
            return self.compare(path, changed)

        def slow_down(other):
            for sample in other['cells'][1]['samples']:
                sample['decode_ms'] *= 1.2

        slower = against(slow_down)
        self.assertEqual(slower.returncode, 3, slower.stderr)
        self.assertIn('REGRESSION', slower.stdout)
        self.assertTrue(json.loads(slower.stdout.splitlines()[-1])['regressed'])
        self.assertEqual(self.compare(changed, path).returncode, 0, 'faster')
        refusals = {
            'models/target/fingerprint': lambda other: other['models']['target'].update(fingerprint='x'),
            'seed': lambda other: other.update(seed=report['seed'] + 1),
            'setup/threads': lambda other: other['setup'].update(threads=7),
            'exit_cost': lambda other: other['cells'][1].update(exit_cost=2),
            'link': lambda other: other['cells'][1].update(link='emulated')}
        for field, change in refusals.items():
            refused = against(change)
            self.assertEqual(refused.returncode, 2, field)
            self.assertIn(f'{field} differs', refused.stderr)
        missing = self.compare(path, self.folder / 'nowhere.json')
        self.assertNotEqual(missing.returncode, 0)
        self.assertIn('nowhere.json', missing.stderr)


if __name__ == '__main__':
    run_tests(verbosity=2)
