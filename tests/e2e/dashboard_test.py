#!/usr/bin/env python3
"""Every panel's query of the Grafana dashboard, answered by Debian's Prometheus that watches a
server and an edge.

  OUTRIDER_BIN=build/release/bin tests/e2e/dashboard_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import math
import re
import shutil
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, START_SECONDS, Server, ending_with_us, free_port, new_key
from runner import run_tests

DASHBOARD = ROOT / 'docker/grafana/dashboards/outrider.json'
SCRAPE_SECONDS = 1
# Rates need two samples or more; Grafana takes four times the interval between them.
WINDOW = '10s'
# A share of zero is not a number, so answers continue until each figure has been seen.
FIGURE_SECONDS = 40


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()


def wait_for(condition, what):
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        try:
            if condition():
                return
        except OSError:
            pass
        time.sleep(0.2)
    raise RuntimeError(f'{what}: not within {START_SECONDS} s')


class Running:
    """A program that ends with the block."""

    def __init__(self, *command):
        self.process = subprocess.Popen(ending_with_us(*command), env=CLEAN_ENVIRONMENT,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(timeout=START_SECONDS)


def write_configuration(folder, server, edge):
    path = Path(folder) / 'prometheus.yml'
    path.write_text(f'global: {{scrape_interval: {SCRAPE_SECONDS}s}}\n'
                    'scrape_configs:\n'
                    f'  - {{job_name: outrider-server, static_configs: [{{targets: ["127.0.0.1:{server}"]}}]}}\n'
                    f'  - {{job_name: outrider-edge, static_configs: [{{targets: ["127.0.0.1:{edge}"]}}]}}\n')
    return path


def key_of_robots(folder):
    """The server's file with the tenant's key, which is in the file `key` beside it."""
    tokens, key = Path(folder, 'tokens'), Path(folder, 'key')
    key.touch(0o600)
    key.write_text(new_key(tokens, 'robots'), encoding='utf-8')
    return tokens


def ask_edge(port):
    """One answer, so that every histogram has a value."""
    question = (ROOT / 'deploy/demo-prompt.txt').read_text()
    body = json.dumps({'messages': [{'role': 'user', 'content': question}]}).encode()
    request = urllib.request.Request(f'http://127.0.0.1:{port}/v1/chat/completions', data=body,
                                     headers={'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=60) as answer:
        json.load(answer)


class Prometheus:
    def __init__(self, port):
        self.base = f'http://127.0.0.1:{port}'

    def query(self, expression):
        """The values of an instant query: [float]."""
        question = urllib.parse.urlencode({'query': expression})
        answer = json.loads(get(f'{self.base}/api/v1/query?{question}'))
        return [float(series['value'][1]) for series in answer['data']['result']]

    def label_values(self, variable, chosen):
        """Returns the values that Grafana offers for one of the dashboard's variables, if the others are chosen so."""
        selector, label = re.fullmatch(r'label_values\((.*), (\w+)\)', variable['query']['query']).groups()
        question = urllib.parse.urlencode({'match[]': with_variables(selector, chosen)})
        return json.loads(get(f'{self.base}/api/v1/label/{label}/values?{question}'))['data']


def variables():
    return json.loads(DASHBOARD.read_text())['templating']['list']


def with_variables(expression, chosen):
    """chosen: the value of each that is not All."""
    for variable in variables():
        expression = expression.replace('$' + variable['name'], chosen.get(variable['name'], variable['allValue']))
    return expression


def queries(**chosen):
    """(panel, expression) of every target of the dashboard."""
    for panel in json.loads(DASHBOARD.read_text())['panels']:
        for target in panel['targets']:
            yield panel['title'], with_variables(target['expr'].replace('$__rate_interval', WINDOW), chosen)


def has_figures(values):
    return bool(values) and not any(math.isnan(value) for value in values)


@unittest.skipUnless(shutil.which('prometheus'), 'needs prometheus (Debian package prometheus)')
class DashboardTest(unittest.TestCase):
    def test_names_each_panel_and_its_source_once(self):
        panels = json.loads(DASHBOARD.read_text())['panels']
        self.assertEqual(len({panel['id'] for panel in panels}), len(panels))
        self.assertEqual(len({panel['title'] for panel in panels}), len(panels))
        for panel in panels:
            self.assertEqual(panel['datasource']['uid'], 'prometheus', panel['title'])

    def test_prometheus_answers_every_query(self):
        metrics, edge, watch = free_port(), free_port(), free_port()
        with tempfile.TemporaryDirectory() as folder, Server('--metrics-port', metrics, '--token-file', key_of_robots(folder)) as server, \
                Running(BIN / 'outrider-edge', 'serve', '--model', DRAFT, '--token-file', Path(folder, 'key'), '--server',
                        server.address, '--port', edge), \
                Running('prometheus', f'--config.file={write_configuration(folder, metrics, edge)}',
                        f'--storage.tsdb.path={folder}/data',
                        f'--web.listen-address=127.0.0.1:{watch}'):
            prometheus = Prometheus(watch)
            wait_for(lambda: get(f'http://127.0.0.1:{edge}/health'), 'the edge')
            ask_edge(edge)  # families with labels are there from the first answer on
            wait_for(lambda: prometheus.query('sum(up)') == [2.0], 'both scraped')
            missing, give_up = list(queries()), time.monotonic() + FIGURE_SECONDS
            while missing and time.monotonic() < give_up:
                ask_edge(edge)
                time.sleep(SCRAPE_SECONDS)
                missing = [(panel, query) for panel, query in missing
                           if not has_figures(prometheus.query(query))]
            self.assertEqual(missing, [])
            offered = {variable['name']: prometheus.label_values(variable, {}) for variable in variables()}
            self.assertEqual(offered, {'model': ['demo-target'], 'instance': sorted([f'127.0.0.1:{metrics}', f'127.0.0.1:{edge}']),
                                       'tenant': ['robots']})
            for name in ('model', 'instance'):  # each panel heeds them
                for panel, query in queries(**{name: 'another'}):
                    self.assertEqual(prometheus.query(query), [], panel)
            self.assertTrue(any(prometheus.query(query) == [] for _, query in queries(tenant='another')))


if __name__ == '__main__':
    run_tests()
