#!/usr/bin/env python3
"""Two servers behind the real HAProxy with deploy/haproxy.cfg, where TLS ends: nothing is lost or
changed while it leads edges from one to the other.

  OUTRIDER_BIN=build/release/bin tests/e2e/proxy_test.py
  OUTRIDER_PROXY_SWITCHES=50 ...  as many times one of the servers is killed under eight edges

SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
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

from programs import CLEAN_ENVIRONMENT, DRAFT, ROOT, Server, edge, free_port, make_certificate

PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
SWITCHES = int(os.environ.get('OUTRIDER_PROXY_SWITCHES', '6'))
SESSIONS = 8
PROMPTS = 24
ANSWER = ('run', '--strategy', 'ar', '--tokenizer', DRAFT, '-p', PROMPT, '-n', '80', '--temp', '1', '--json',
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

    def __init__(self, *flags):
        self.port, self.health, self.flags = free_port(), free_port(), flags
        self.start()

    def start(self):
        self.server = Server('--http-port', self.health, *self.flags, port=self.port)


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
        self.servers = [Proxied(*self.flags), Proxied(*self.flags)]
        for one in self.servers:
            self.addCleanup(lambda one=one: one.server.kill())
        port = free_port()
        environment = {**CLEAN_ENVIRONMENT, 'OUTRIDER_LISTEN': f'127.0.0.1:{port}',
                       'OUTRIDER_CERT': str(here / 'both.pem')}
        for number, one in enumerate(self.servers, 1):
            environment[f'OUTRIDER_{number}'] = f'127.0.0.1:{one.port}'
            environment[f'OUTRIDER_{number}_HEALTH'] = str(one.health)
        self.log = open(here / 'haproxy.log', 'w+', encoding='utf-8')
        self.addCleanup(self.log.close)
        self.proxy = subprocess.Popen(['haproxy', '-f', ROOT / 'deploy/haproxy.cfg', '-db'],
                                      env=environment, stdout=self.log, stderr=self.log)
        self.addCleanup(self.proxy.wait)
        self.addCleanup(self.proxy.terminate)
        wait_for_port(port)
        self.through = ('--server', f'127.0.0.1:{port}', '--tls-ca', cert)

    def served_by(self):
        """Which servers HAProxy led streams to, in order."""
        self.log.seek(0)
        return re.findall(r' servers/(one|two) ', self.log.read())


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


class Failover(BehindHaproxy):
    flags = ('--pace-pass-ms', '10')

    def answer_until(self, stopping, seed, expected):
        """Reconnects of one answer after the other."""
        reconnects = 0
        while not stopping.is_set():
            got = edge(*ANSWER, '--seed', seed, *self.through)
            self.assertEqual(got.code, 0, got.err)
            self.assertEqual(got.json['ids'], expected)
            reconnects += got.json['reconnects']
        return reconnects

    def test_answers_go_on_while_servers_are_killed_and_come_back(self):
        direct, stopping = ('--server', self.servers[0].server.address), threading.Event()
        expected = [edge(*ANSWER, '--seed', seed, *direct).json['ids'] for seed in range(SESSIONS)]
        with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
            sessions = [pool.submit(self.answer_until, stopping, seed, expected[seed])
                        for seed in range(SESSIONS)]
            try:
                for number in range(SWITCHES):
                    time.sleep(1.0)
                    self.servers[number % 2].server.kill()  # its streams go to the other
                    time.sleep(1.0)
                    self.servers[number % 2].start()
            finally:
                stopping.set()
            reconnects = sum(session.result() for session in sessions)
        self.assertGreaterEqual(reconnects, SWITCHES, 'a condition that never occurred is no pass')
        print(f'{SWITCHES} switches, {reconnects} reconnects')


if __name__ == '__main__':
    unittest.main()
