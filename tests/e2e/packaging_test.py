#!/usr/bin/env python3
"""The units by systemd's own judgement, and the Kubernetes manifests by Kubernetes' schemas. Each part
skips where its tool is missing: Debian's systemd, and kubernetes-validate of the Python package index.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/packaging_test.py

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import BIN, ROOT

UNITS = sorted((ROOT / 'deploy/systemd').glob('*.service'))
MANIFESTS = [ROOT / 'deploy/kubernetes' / name for name in ('outrider.yaml', 'haproxy.yaml')]
LOADING_SECONDS = 15 * 60  # that nobody takes a server for dead
MOST_EXPOSED = 40  # tenths, as `systemd-analyze security` counts: 0 is shut, 100 open
# The oldest version whose schemas there are, and the one that they are pinned to.
KUBERNETES_VERSIONS = ('1.25', '1.37')


def systemd_analyze(*words):
    return subprocess.run(['systemd-analyze', *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


@unittest.skipUnless(shutil.which('systemd-analyze'), 'needs systemd-analyze (Debian package systemd)')
class Units(unittest.TestCase):
    def verify(self, unit, change=lambda text: text):
        """What systemd finds in a unit whose program is the one that was built."""
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / unit.name
            copy.write_text(change(unit.read_text().replace('=/usr/bin/outrider', f'={BIN.resolve()}/outrider')))
            done = systemd_analyze('verify', '--man=no', copy)
        return done.returncode, done.stdout + done.stderr

    def test_systemd_finds_nothing(self):
        self.assertEqual(len(UNITS), 2)
        for unit in UNITS:
            self.assertEqual(self.verify(unit), (0, ''), unit.name)

    def test_systemd_would_find_a_misspelt_line(self):
        _, found = self.verify(UNITS[0], lambda text: text.replace('PrivateTmp', 'PrivateTemp'))
        self.assertIn('PrivateTemp', found)

    def test_services_are_shut(self):
        for unit in UNITS:
            done = systemd_analyze('security', '--offline=true', f'--threshold={MOST_EXPOSED}', '--no-pager', unit)
            self.assertEqual(done.returncode, 0, done.stdout[-300:] + done.stderr)
            self.assertIn(f'Overall exposure level for {unit.name}', done.stdout)


@unittest.skipUnless(importlib.util.find_spec('kubernetes_validate'), 'needs the package kubernetes-validate')
class Manifests(unittest.TestCase):
    def validate(self, manifest, version):
        return subprocess.run([sys.executable, '-m', 'kubernetes_validate', '--strict', '-k', version, manifest],
                              capture_output=True, text=True, timeout=60, check=False)

    def test_kubernetes_knows_every_field(self):
        for manifest in MANIFESTS:
            for version in KUBERNETES_VERSIONS:
                done = self.validate(manifest, version)
                said = done.stdout + done.stderr
                self.assertEqual(done.returncode, 0, said)
                self.assertNotIn('WARN', said)
                self.assertEqual(said.count(' passed '), manifest.read_text().count('\nkind:'), said)

    def test_a_model_may_take_a_quarter_of_an_hour_to_load(self):
        import yaml  # kubernetes-validate's
        documents = yaml.safe_load_all(MANIFESTS[0].read_text())
        deployment = next(document for document in documents if document['kind'] == 'Deployment')
        server = deployment['spec']['template']['spec']['containers'][0]
        probe = server['startupProbe']
        self.assertGreaterEqual(probe['periodSeconds'] * probe['failureThreshold'], LOADING_SECONDS)
        unit = (ROOT / 'deploy/systemd/outrider-server.service').read_text()
        self.assertIn(f'TimeoutStartSec={LOADING_SECONDS // 60}min', unit)

    def test_kubernetes_refuses_a_misspelt_field(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / 'outrider.yaml'
            copy.write_text(MANIFESTS[0].read_text().replace('minAvailable', 'minAvailabel'))
            self.assertNotEqual(self.validate(copy, KUBERNETES_VERSIONS[0]).returncode, 0)


if __name__ == '__main__':
    unittest.main()
