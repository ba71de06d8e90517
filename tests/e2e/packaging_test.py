#!/usr/bin/env python3
"""The units by systemd's own judgement, and what programs and images are made from. The first part skips without Debian's systemd.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/packaging_test.py

SPDX-License-Identifier: Apache-2.0
"""
import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import BIN, ROOT
from runner import run_tests

sys.path.insert(0, str(ROOT / 'deploy/package'))
import contents  # noqa: E402  pylint: disable=wrong-import-position

UNITS = sorted((ROOT / 'deploy/systemd').glob('*.service'))
GPU = ROOT / 'deploy/systemd/gpu.conf'  # a drop-in of both units
MOST_EXPOSED = 40  # tenths, as `systemd-analyze security` counts: 0 is closed, 100 open


def systemd_analyze(*words):
    return subprocess.run(['systemd-analyze', *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


@unittest.skipUnless(shutil.which('systemd-analyze'), 'needs systemd-analyze (Debian package systemd)')
class Units(unittest.TestCase):
    def verify(self, unit, change=lambda text: text, drop_in=None):
        """Findings of systemd in a unit that runs the built program."""
        with tempfile.TemporaryDirectory() as folder:
            if drop_in:
                (Path(folder) / f'{unit.name}.d').mkdir()
                shutil.copy(drop_in, Path(folder) / f'{unit.name}.d')
            copy = Path(folder) / unit.name
            copy.write_text(change(unit.read_text().replace('=/usr/bin/outrider', f'={BIN.resolve()}/outrider')))
            done = systemd_analyze('verify', '--man=no', copy)
            self.exposure = systemd_analyze('security', '--offline=true', f'--threshold={MOST_EXPOSED}', '--no-pager', copy)
        return done.returncode, done.stdout + done.stderr

    def test_systemd_finds_nothing(self):
        self.assertEqual(len(UNITS), 2)
        for unit in UNITS:
            self.assertEqual(self.verify(unit), (0, ''), unit.name)

    def test_systemd_would_find_a_misspelt_line(self):
        _, found = self.verify(UNITS[0], lambda text: text.replace('PrivateTmp', 'PrivateTemp'))
        self.assertIn('PrivateTemp', found)

    def test_a_service_with_a_gpu_sees_its_devices_and_stays_shut(self):
        for unit in UNITS:
            self.assertEqual(self.verify(unit, drop_in=GPU), (0, ''), unit.name)
            self.assertEqual(self.exposure.returncode, 0, self.exposure.stdout[-300:])
            for device in ('nvidia*', 'nvhost*', 'nvgpu*'):
                self.assertIn(f'char-{device}:rw', self.exposure.stdout)
            self.verify(unit)
            self.assertNotIn('char-nvidia', self.exposure.stdout)

    def test_services_are_shut(self):
        for unit in UNITS:
            done = systemd_analyze('security', '--offline=true', f'--threshold={MOST_EXPOSED}', '--no-pager', unit)
            self.assertEqual(done.returncode, 0, done.stdout[-300:] + done.stderr)
            self.assertIn(f'Overall exposure level for {unit.name}', done.stdout)


@unittest.skipUnless((BIN.parent / 'build.ninja').exists() and shutil.which('ninja'), 'needs the folder of a build by ninja')
class Contents(unittest.TestCase):
    """deploy/package/contents.py about the built programs."""

    def contents(self, *flags):
        return subprocess.run([sys.executable, ROOT / 'deploy/package/contents.py', '--build', BIN.parent, '--program', 'outrider-edge', '--file',
                               BIN / 'outrider-edge', '--version', '0.1.0', *map(str, flags)], capture_output=True, text=True, timeout=120, check=False)

    def test_the_bill_names_archives_and_headers_with_their_licences(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.contents('--out', folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            bill = json.loads((Path(folder) / 'sbom.spdx.json').read_text(encoding='utf-8'))
            licences = {path.name: path.read_text(encoding='utf-8', errors='replace') for path in (Path(folder) / 'licences').iterdir()}
        ours, *packages = bill['packages']
        self.assertEqual(ours['checksums'][0]['checksumValue'], hashlib.sha256((BIN / 'outrider-edge').read_bytes()).hexdigest())
        names = {package['name'] for package in packages}
        for linked in ('libgrpc-dev', 'libprotobuf-dev', 'libabsl-dev', 'libssl-dev', 'libicu-dev', 'libpcre2-dev', 'liburing-dev', 'libedit-dev'):
            self.assertIn(linked, names)
        for included in ('libfmt-dev', 'libspdlog-dev', 'nlohmann-json3-dev', 'libcli11-dev'):
            self.assertIn(included, names)
        self.assertFalse([name for name in names if name.startswith(('libc6', 'libstdc++'))], 'a program does not contain these')
        self.assertEqual(set(licences), names)
        self.assertIn('Apache', licences['libssl-dev'])
        contained = {relation['relatedSpdxElement'] for relation in bill['relationships'] if relation['relationshipType'] == 'CONTAINS'}
        self.assertEqual(contained, {package['SPDXID'] for package in packages})
        for package in [package for package in packages if package.get('supplier') == 'Organization: Debian']:
            self.assertTrue(package['versionInfo'])
            self.assertIn(f'@{package["versionInfo"]}'.replace('+', '%2B').replace(':', '%3A'), package['externalRefs'][0]['referenceLocator'])

    def test_cuda_is_named_with_nvidias_licence_wherever_it_lies(self):
        with tempfile.TemporaryDirectory() as folder:
            # The layout of NVIDIA's packages, and that of its wheels.
            for cuda, licence in (('cuda-13', 'cuda-13/EULA.txt'), ('nvidia/cu13', 'nvidia_cuda_crt.dist-info/licenses/License.txt')):
                root, texts = Path(folder, cuda), Path(folder, licence)
                header = root / 'include/cuda.h'
                for file, text in ((header, ''), (texts, f'the terms of {cuda}')):
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text(text, encoding='utf-8')
                self.assertEqual(contents.packages_of({str(header)}, root), ['nvidia-cuda'])
                self.assertEqual(contents.licences_of('nvidia-cuda', root), f'the terms of {cuda}')
                with self.assertRaisesRegex(SystemExit, 'cuda.h: part of the program'):
                    contents.packages_of({str(header)}, None)
                texts.unlink()
                with self.assertRaisesRegex(SystemExit, 'has no licence'):
                    contents.licences_of('nvidia-cuda', root)

    def test_a_program_that_was_not_built_there_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.contents('--out', folder, '--program', 'outrider-none')
        self.assertNotEqual(done.returncode, 0)
        self.assertIn('outrider-none', done.stderr)


class Images(unittest.TestCase):
    OURS = re.compile(r'(?:outrider-(?:server|edge|haproxy)):0\.1\.0(?:-cuda)?$')

    def test_what_others_publish_is_named_by_its_digest(self):
        named = []
        for file in sorted([*(ROOT / 'docker').glob('*Dockerfile'), *(ROOT / 'docker').glob('compose*.yaml')]):
            named += re.findall(r'^(?:ARG BASE=| *image: )(\S+)$', file.read_text(encoding='utf-8'), re.M)
        self.assertGreaterEqual(len(named), 6)
        for image in named:
            if not self.OURS.match(image):
                self.assertRegex(image, r'@sha256:[0-9a-f]{64}$')

    def test_wheels_that_run_installs_are_pinned(self):
        lists = re.findall(r'^readonly (?:\w+_WHEELS|UV_WHEEL)=\(?([^)\n]*)', (ROOT / 'run').read_text(encoding='utf-8'), re.M)
        self.assertGreater(len(lists), 3)
        for wheel in ' '.join(lists).split():
            self.assertRegex(wheel, r'^[a-z0-9-]+==\d+(?:\.\d+)+$')

    def test_a_package_that_there_is_not_is_refused_before_anything_is_installed(self):
        done = subprocess.run([ROOT / 'run', 'package', 'riscv'], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (1, ''))
        self.assertEqual(done.stderr, "./run: 'riscv' is no package. Remedy: ./run package [arm64] [cuda]\n")


if __name__ == '__main__':
    run_tests()
