#!/usr/bin/env python3
"""Two servers behind the real HAProxy with deploy/haproxy.cfg, where TLS ends: nothing is lost or
changed while it leads edges from one to the other.

  OUTRIDER_BIN=build/release/bin tests/e2e/proxy_test.py
  OUTRIDER_PROXY_SWITCHES=50 ...  as many times one of the servers is killed, or drained, under eight edges
  OUTRIDER_SHORT_ANSWERS=3000 ... as many answers of one to three tokens

SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import http.client
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import unittest
from pathlib import Path

from name_server import NameServer
from programs import (CLEAN_ENVIRONMENT, DRAFT, FORGETFUL, ROOT, Edge, Server, edge, ending_with_us, free_port,
                      make_certificate, wait_until_served)
from runner import run_tests

PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
SWITCHES = int(os.environ.get('OUTRIDER_PROXY_SWITCHES', '6'))
SESSIONS = 8
PROMPTS = 24
SHORT_ANSWERS = int(os.environ.get('OUTRIDER_SHORT_ANSWERS', '300'))
ANSWER = ('run', '--strategy', 'ar', '--tokenizer', DRAFT, '-p', PROMPT, '-n', '60', '--temp', '1', '--json',
          '--threads', '1')


def wait_for_port(port, seconds=10):
    give_up = time.monotonic() + seconds
    while time.monotonic() < give_up:
        with socket.socket() as probe:
            if probe.connect_ex(('127.0.0.1', port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f'nothing listens on port {port}')


class Proxied:
    """A server on fixed ports, so that it can come back after it was killed."""

    def __init__(self, *flags, port=None, health=None):
        self.port, self.health, self.flags = port or free_port(), health or free_port(), flags
        self.start()

    def start(self):
        self.server = Server('--http-port', self.health, '--metrics-port', 0, *self.flags, port=self.port)

    def wait_for_sessions(self, number, seconds=30):
        give_up = time.monotonic() + seconds
        while self.server.metric('num_requests_running') < number:
            if time.monotonic() > give_up:
                raise RuntimeError(f'no {number} sessions at once within {seconds} s')
            time.sleep(0.02)


@unittest.skipUnless(shutil.which('haproxy') and shutil.which('openssl'),
                     'needs haproxy and openssl (Debian packages)')
class BehindHaproxy(unittest.TestCase):
    flags = ()

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        here = Path(self.folder.name)
        cert, key = make_certificate(here)
        (here / 'both.pem').write_text(cert.read_text() + key.read_text())
        self.servers = []
        where = self.start_servers(cert, key)
        port = free_port()
        self.log = open(here / 'haproxy.log', 'w+', encoding='utf-8')
        self.addCleanup(self.log.close)
        self.proxy = subprocess.Popen(
            ending_with_us('haproxy', '-f', ROOT / 'deploy/haproxy.cfg', '-db'), stdout=self.log, stderr=self.log,
            env={**CLEAN_ENVIRONMENT, 'OUTRIDER_LISTEN': f'127.0.0.1:{port}', 'OUTRIDER_CERT': str(here / 'both.pem'), **where})
        self.addCleanup(self.proxy.wait)
        self.addCleanup(self.proxy.terminate)
        wait_for_port(port)
        self.through = ('--server', f'127.0.0.1:{port}', '--tls-ca', cert)

    def add_server(self, *flags, **ports):
        one = Proxied(*self.flags, *flags, **ports)
        self.servers.append(one)
        self.addCleanup(lambda: one.server.kill())
        return one

    def start_servers(self, *_):
        """Two servers, and HAProxy's settings with their addresses."""
        where = {}
        for number in (1, 2):
            one = self.add_server()
            where[f'OUTRIDER_{number}'] = f'127.0.0.1:{one.port}'
            where[f'OUTRIDER_{number}_HEALTH'] = str(one.health)
        return where

    def served_by(self):
        """The servers to which HAProxy routed streams, in order."""
        self.log.seek(0)
        return re.findall(r' servers/(one|two|pod\d+) ', self.log.read())


class Lossless(BehindHaproxy):
    def test_no_prompt_of_24_changes(self):
        direct = ('--server', self.servers[0].server.address)
        for seed in range(PROMPTS):
            common = ('run', '--model', DRAFT, '-p', f'{PROMPT} Cup {seed} is red.', '-n', '30',
                      '--temp', '0.8', '--seed', seed, '--json')
            expected = edge(*common, *direct)
            self.assertEqual(expected.code, 0, expected.err)
            got = edge(*common, *self.through)
            self.assertEqual(got.code, 0, got.err)
            self.assertEqual(got.json['ids'], expected.json['ids'], f'prompt {seed}')
        self.assertEqual(set(self.served_by()), {'one', 'two'}, 'both were used')

    def test_no_end_of_a_short_answer_is_lost(self):
        """The server's end follows its last message at once, and HAProxy 2.6 drops what it holds of a stream that its server
        resets. A lost end is seen as a reconnect."""
        port = free_port()
        serving = Edge('serve', '--model', DRAFT, '--strategy', 'ar', '--port', port, *self.through)
        self.addCleanup(serving.wait)
        self.addCleanup(serving.interrupt)
        wait_until_served(f'http://127.0.0.1:{port}')
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        self.addCleanup(connection.close)
        for number in range(SHORT_ANSWERS):
            body = {'prompt': f'{number} cups', 'max_tokens': 1 + number % 3, 'temperature': 0, 'ignore_eos': True}
            connection.request('POST', '/v1/completions', json.dumps(body), {'Content-Type': 'application/json'})
            response = connection.getresponse()
            answer = json.loads(response.read())
            self.assertEqual((response.status, answer.get('usage', {}).get('completion_tokens')), (200, body['max_tokens']), answer)
        connection.request('GET', '/metrics')
        metrics = connection.getresponse().read().decode()
        self.assertEqual(re.findall(r'^outrider_edge_resume_total{.*"success".*} (\S+)$', metrics, re.M), ['0'])


class UnderLoad(BehindHaproxy):
    flags = ('--pace-pass-ms', '10', '--ignore-eos', *FORGETFUL)  # all answers are long enough to meet a switch

    def answer_until(self, stopping, seed, expected):
        """Reconnects of one answer after the other."""
        reconnects = 0
        while not stopping.is_set():
            got = edge(*ANSWER, '--seed', seed, *self.through)
            self.assertEqual(got.code, 0, got.err)
            self.assertEqual(got.json['ids'], expected)
            reconnects += got.json['reconnects']
        return reconnects

    def switch_under_load(self, switch):
        """Calls it with a server and its number, in turn, while edges decode; returns how often these reconnected."""
        stopping = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
            expected = list(pool.map(lambda seed: edge(*ANSWER, '--seed', seed, *self.through).json['ids'], range(SESSIONS)))
            before = len(self.served_by())
            sessions = [pool.submit(self.answer_until, stopping, seed, expected[seed])
                        for seed in range(SESSIONS)]
            try:
                for number in range(SWITCHES):
                    time.sleep(1.0)
                    switch(self.servers[number % 2], number % 2)
            finally:
                stopping.set()
            reconnects = sum(session.result() for session in sessions)
        self.assertEqual(len(set(self.served_by()[before:])), 2, 'both were used meanwhile')
        print(f'{self.id()}: {SWITCHES} switches, {reconnects} reconnects')
        return reconnects


class Failover(UnderLoad):
    def test_answers_go_on_while_servers_are_killed_and_come_back(self):
        def kill(one, _):
            one.wait_for_sessions(2)  # of which one may just end
            one.server.kill()  # its streams go to the other
            time.sleep(1.0)
            one.start()

        self.assertGreaterEqual(self.switch_under_load(kill), SWITCHES, 'a condition that never occurred is no pass')

    def test_answers_go_on_while_servers_are_upgraded_in_turn(self):
        def upgrade(one, _):
            self.assertEqual(one.server.stop(), 0, ''.join(one.server.log[-20:]))
            one.start()

        self.switch_under_load(upgrade)


class InACluster(UnderLoad):
    """HAProxy asks a name server for the servers' addresses, and speaks TLS to them."""

    def start_servers(self, cert, key):
        self.addresses = ['127.0.0.2', '127.0.0.3']
        port, health = free_port(*self.addresses), free_port(*self.addresses)
        for address in self.addresses:
            self.add_server('--host', address, '--tls-cert', cert, '--tls-key', key, port=port, health=health)
        self.names = NameServer(self.addresses)
        self.addCleanup(self.names.close)
        return {'OUTRIDER_SERVICE': 'servers.test', 'OUTRIDER_PORT': str(port), 'OUTRIDER_HEALTH': str(health),
                'OUTRIDER_CA': str(cert), 'OUTRIDER_CERT_NAME': 'localhost', 'OUTRIDER_DNS': self.names.address}

    def test_answers_go_on_while_servers_are_upgraded_in_turn(self):
        def replace(one, number):
            self.names.addresses = [self.addresses[1 - number]]  # like a pod that shall end
            self.assertEqual(one.server.stop(), 0, ''.join(one.server.log[-20:]))
            one.start()
            self.names.addresses = list(self.addresses)
            time.sleep(2.0)

        self.switch_under_load(replace)


if __name__ == '__main__':
    run_tests()
