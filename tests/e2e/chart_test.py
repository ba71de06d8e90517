#!/usr/bin/env python3
"""The Helm chart, rendered by Helm and held against Kubernetes' own schemas. Skips where one of them is missing:
helm in PATH or .venv-tests/bin, kubernetes-validate of the Python package index.

  .venv-tests/bin/python3 tests/e2e/chart_test.py

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import BIN, ROOT
from runner import run_tests

HELM = shutil.which('helm') or shutil.which('helm', path=str(Path(sys.executable).parent))
CHART = ROOT / 'deploy/helm/outrider'
EXAMPLES = sorted((ROOT / 'deploy/helm/examples').glob('*.yaml'))
ALL = {'proxy.enabled': 'true', 'autoscaling.enabled': 'true', 'serviceMonitor.enabled': 'true', 'inferencePool.enabled': 'true'}
# The oldest version that the chart allows, one between, and the newest that has schemas.
KUBERNETES_VERSIONS = ('1.25', '1.31', '1.37')
OF_OTHERS = ('ServiceMonitor', 'InferencePool')  # kinds that Kubernetes itself does not have
LOADING_SECONDS = 15 * 60  # in which a loading server counts as alive


def helm(*words):
    return subprocess.run([HELM, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)


def render(*flags, **values):
    sets = [word for name, value in values.items() for word in ('--set', f'{name}={value}')]
    return helm('template', 'demo', CHART, '--namespace', 'robots', *flags, *sets)


def rendered(*flags, **values):
    """By kind and name."""
    import yaml  # kubernetes-validate's
    done = render(*flags, **values)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return {(document['kind'], document['metadata']['name']): document for document in yaml.safe_load_all(done.stdout)}


@unittest.skipUnless(HELM, 'needs helm (./run setup puts it into .venv-tests on x86-64)')
@unittest.skipUnless(importlib.util.find_spec('kubernetes_validate'), 'needs the package kubernetes-validate')
class Chart(unittest.TestCase):
    def validate(self, text, version):
        with tempfile.NamedTemporaryFile('w', suffix='.yaml', encoding='utf-8') as file:
            file.write(text)
            file.flush()
            return subprocess.run([sys.executable, '-m', 'kubernetes_validate', '--strict', '-k', version, file.name],
                                  capture_output=True, text=True, timeout=60, check=False)

    def test_kubernetes_knows_every_field_of_every_example(self):
        self.assertGreaterEqual(len(EXAMPLES), 5)
        for example in EXAMPLES:
            done = render('-f', example)
            self.assertEqual(done.returncode, 0, done.stderr)
            kinds = re.findall(r'^kind: (\w+)$', done.stdout, re.M)
            for version in KUBERNETES_VERSIONS:
                found = self.validate(done.stdout, version)
                said = found.stdout + found.stderr
                self.assertEqual(found.returncode, 0, said)
                unknown = re.findall(r"Couldn't find schema for kind (\w+)", said)
                self.assertEqual(sorted(unknown), sorted(kind for kind in kinds if kind in OF_OTHERS), said)
                self.assertEqual(said.count(' passed ') + len(unknown), len(kinds), said)

    def test_kubernetes_refuses_a_misspelt_field(self):
        text = render().stdout.replace('minAvailable', 'minAvailabel')
        self.assertNotEqual(self.validate(text, KUBERNETES_VERSIONS[0]).returncode, 0)

    def test_helm_itself_finds_nothing(self):
        for example in EXAMPLES:
            done = helm('lint', '--strict', CHART, '-f', example)
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_no_secret_is_written(self):
        documents = rendered(**ALL)
        self.assertNotIn('Secret', {kind for kind, _ in documents})
        volumes = [volume['secret']['secretName'] for (kind, _), document in documents.items() if kind == 'Deployment'
                   for volume in document['spec']['template']['spec']['volumes'] if 'secret' in volume]
        self.assertEqual(sorted(volumes), ['outrider-ca', 'outrider-haproxy', 'outrider-tls', 'outrider-tokens'])

    def test_a_wrong_value_is_refused_by_its_name(self):
        for name, value in (('device', 'gpu'), ('gpus', '0'), ('replica', '3'), ('model.path', 'target'), ('kvCacheMemory', 'much'),
                            ('image.digest', 'sha256:1234'), ('extraArgs[0]', 'max-model-len'), ('autoscaling.kvCacheUsage', '80%'),
                            ('proxy.arithmeticId', 'two words'), ('serviceMonitor.interval', 'often')):
            done = render(**{name: value})
            self.assertNotEqual(done.returncode, 0, name)
            self.assertIn(re.split(r'[.\[]', name)[0], done.stderr)

    def test_the_server_knows_every_flag(self):
        known = subprocess.run([BIN / 'outrider-server', '--help-all'], capture_output=True, text=True, timeout=60, check=True).stdout
        for example in EXAMPLES:
            for flag in re.findall(r'^ *- "?(--[a-z-]+)=', render('-f', example).stdout, re.M):
                self.assertIn(f'{flag} ', known)

    def test_a_gpu_is_asked_for_where_one_computes(self):
        def server(*flags):
            return rendered(*flags)['Deployment', 'demo-server']['spec']['template']['spec']

        cpu, gpus = server(), server('-f', EXAMPLES[0].parent / 'two-gpus.yaml')
        self.assertNotIn('nvidia.com/gpu', cpu['containers'][0]['resources']['limits'])
        self.assertEqual(gpus['containers'][0]['resources']['limits']['nvidia.com/gpu'], 2)
        self.assertIn('--gpus=0,1', gpus['containers'][0]['args'])
        self.assertIn('--device=cuda', gpus['containers'][0]['args'])
        self.assertTrue(gpus['containers'][0]['image'].endswith('-cuda'))

    def test_a_model_may_take_a_quarter_of_an_hour_to_load(self):
        server = rendered()['Deployment', 'demo-server']['spec']['template']['spec']['containers'][0]
        probe = server['startupProbe']
        self.assertGreaterEqual(probe['periodSeconds'] * probe['failureThreshold'], LOADING_SECONDS)
        unit = (ROOT / 'deploy/systemd/outrider-server.service').read_text()
        self.assertIn(f'TimeoutStartSec={LOADING_SECONDS // 60}min', unit)

    def test_autoscaling_asks_for_what_the_adapter_offers(self):
        adapter = (ROOT / 'deploy/helm/prometheus-adapter.yaml').read_text(encoding='utf-8')
        offered = re.compile(re.search(r'__name__=~"([^"]+)"', adapter)[1])
        scaler = rendered(**ALL)['HorizontalPodAutoscaler', 'demo-server']['spec']
        metrics = [metric['pods']['metric']['name'] for metric in scaler['metrics']]
        self.assertEqual(len(metrics), 2)
        for metric in metrics:
            self.assertRegex(metric, offered)
        self.assertNotIn('replicas', rendered(**ALL)['Deployment', 'demo-server']['spec'])

    def test_what_runs_is_confined(self):
        for (kind, _), document in rendered(**ALL).items():
            if kind != 'Deployment':
                continue
            pod = document['spec']['template']['spec']
            self.assertTrue(pod['securityContext']['runAsNonRoot'])
            self.assertFalse(pod['automountServiceAccountToken'])
            for container in pod['containers']:
                self.assertEqual(container['securityContext'], {'allowPrivilegeEscalation': False, 'readOnlyRootFilesystem': True,
                                                               'capabilities': {'drop': ['ALL']}})

    def test_the_proxy_has_the_configuration_that_is_tested(self):
        config = rendered(**ALL)['ConfigMap', 'demo-proxy']['data']['haproxy.cfg']
        self.assertEqual(config.strip(), (ROOT / 'deploy/haproxy.cfg').read_text(encoding='utf-8').strip())

    def test_the_proxy_may_be_held_to_one_arithmetic(self):
        def variables(**values):
            proxy = rendered(**{'proxy.enabled': 'true'}, **values)['Deployment', 'demo-proxy']['spec']['template']['spec']
            return {one['name']: one['value'] for one in proxy['containers'][0]['env']}

        self.assertNotIn('OUTRIDER_ARITHMETIC_ID', variables())
        self.assertEqual(variables(**{'proxy.arithmeticId': 'cpu:abc-12'})['OUTRIDER_ARITHMETIC_ID'], 'cpu:abc-12')


if __name__ == '__main__':
    run_tests()
