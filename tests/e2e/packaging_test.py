#!/usr/bin/env python3
"""The units by systemd's own judgement, the Kubernetes manifests by Kubernetes' schemas, what images are made from, and
metrics behind HAProxy. Each part skips where its tool is missing: Debian's systemd and haproxy, and kubernetes-validate
of the Python package index.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/packaging_test.py

SPDX-License-Identifier: Apache-2.0
"""
import contextlib
import http.client
import importlib.util
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, ROOT, Server, ending_with_us, free_port, make_certificate
from runner import run_tests

HAPROXY = shutil.which('haproxy') or shutil.which('haproxy', path='/usr/sbin')

UNITS = sorted((ROOT / 'deploy/systemd').glob('*.service'))
MANIFESTS = [ROOT / 'deploy/kubernetes' / name for name in ('outrider.yaml', 'haproxy.yaml')]
LOADING_SECONDS = 15 * 60  # in which a loading server counts as alive
MOST_EXPOSED = 40  # tenths, as `systemd-analyze security` counts: 0 is closed, 100 open
# The oldest version that has schemas, and the pinned one.
KUBERNETES_VERSIONS = ('1.25', '1.37')


def systemd_analyze(*words):
    return subprocess.run(['systemd-analyze', *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


@unittest.skipUnless(shutil.which('systemd-analyze'), 'needs systemd-analyze (Debian package systemd)')
class Units(unittest.TestCase):
    def verify(self, unit, change=lambda text: text):
        """Findings of systemd in a unit that runs the built program."""
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


class Images(unittest.TestCase):
    OURS = re.compile(r'(?:outrider-(?:server|edge|haproxy)):0\.1\.0$')

    def test_what_others_publish_is_named_by_its_digest(self):
        named = []
        for file in sorted([*(ROOT / 'docker').glob('*Dockerfile'), ROOT / 'docker/compose.yaml', *MANIFESTS]):
            named += re.findall(r'^(?:ARG BASE=| *image: )(\S+)$', file.read_text(encoding='utf-8'), re.M)
        self.assertGreaterEqual(len(named), 8)
        for image in named:
            if not self.OURS.match(image):
                self.assertRegex(image, r'@sha256:[0-9a-f]{64}$')

    def test_the_compiler_of_cuda_comes_as_the_wheels_that_run_pins(self):
        text = (ROOT / 'docker/cuda.Dockerfile').read_text(encoding='utf-8')
        command = re.search(r"sed -n '[^']*NVCC_WHEELS[^']*' run", text)
        wheels = subprocess.run(['sh', '-c', command[0]], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
        self.assertGreater(len(wheels), 3)
        for wheel in wheels:
            self.assertRegex(wheel, r'^nvidia-[a-z-]+==\d+\.\d+\.\d+$')


@unittest.skipUnless(HAPROXY, 'needs haproxy (Debian package haproxy)')
class MetricsBehindHaproxy(unittest.TestCase):
    """deploy/metrics-haproxy.cfg before a real server, with the PodMonitor's requests."""

    KEY = 'k' * 64

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        cert, key = make_certificate(folder.name)
        self.ca = Path(folder.name) / 'tls.crt'
        cert.rename(self.ca)
        key.rename(Path(folder.name) / 'tls.key')
        inner, self.port = free_port(), free_port()
        server = Server('--metrics-port', inner, '--metrics-host', '127.0.0.1')
        self.addCleanup(server.stop)
        self.proxy = subprocess.Popen(ending_with_us(HAPROXY, '-db', '-f', ROOT / 'deploy/metrics-haproxy.cfg'), env={
            **CLEAN_ENVIRONMENT,
            'OUTRIDER_LISTEN': f'127.0.0.1:{self.port}', 'OUTRIDER_CERT': str(self.ca),
            'OUTRIDER_METRICS': f'127.0.0.1:{inner}', 'OUTRIDER_METRICS_KEY': self.KEY}, stderr=subprocess.DEVNULL)
        self.addCleanup(self.proxy.wait)
        self.addCleanup(self.proxy.terminate)
        give_up = time.monotonic() + 30
        while time.monotonic() < give_up and self.proxy.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', self.port), 1):
                return
            time.sleep(0.05)
        self.fail('HAProxy does not listen')

    def ask(self, key=None, path='/metrics', scheme='https'):
        request = urllib.request.Request(f'{scheme}://127.0.0.1:{self.port}{path}')
        if key is not None:
            request.add_header('Authorization', f'Bearer {key}')
        context = ssl.create_default_context(cafile=self.ca) if scheme == 'https' else None
        try:
            with urllib.request.urlopen(request, timeout=30, context=context) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, ''

    def test_the_key_over_tls_reads_them_and_nothing_else_does(self):
        status, text = self.ask(self.KEY)
        self.assertEqual(status, 200)
        self.assertIn('outrider_num_requests_running', text)
        for wrong in (None, '', self.KEY[:-1], self.KEY + 'k', 'x' * 64):
            self.assertEqual(self.ask(wrong)[0], 401, wrong)
        self.assertEqual(self.ask(self.KEY, '/')[0], 404)
        with self.assertRaises((OSError, http.client.HTTPException)):
            self.ask(self.KEY, scheme='http')

    def test_the_podmonitor_comes_over_tls(self):
        text = (ROOT / 'deploy/kubernetes/podmonitor.yaml').read_text(encoding='utf-8')
        self.assertIn('scheme: https', text)


if __name__ == '__main__':
    run_tests()
