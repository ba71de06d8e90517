#!/usr/bin/env python3
"""Two servers behind the real HAProxy with deploy/haproxy.cfg, where TLS ends: nothing is lost or
changed while it leads edges from one to the other.

  OUTRIDER_BIN=build/release/bin tests/e2e/proxy_test.py

SPDX-License-Identifier: Apache-2.0
"""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from programs import CLEAN_ENVIRONMENT, DRAFT, ROOT, Edge, Server, edge, free_port, make_certificate

PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
SWITCHES = int(os.environ.get('OUTRIDER_PROXY_SWITCHES', '6'))
PROMPTS = 24


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
    flags = ('--pace-pass-ms', '60')

    def test_answers_go_on_while_servers_are_killed_and_come_back(self):
        common = ('run', '--strategy', 'ar', '--tokenizer', DRAFT, '-p', PROMPT, '-n',
                  str(60 + 20 * SWITCHES), '--temp', '1', '--seed', '3', '--json')
        expected = edge(*common, '--server', self.servers[0].server.address)
        self.assertEqual(expected.code, 0, expected.err)
        runner = Edge(*common, *self.through)
        killed = 0
        while killed < SWITCHES and runner.process.poll() is None:
            time.sleep(1.0)
            victim = self.servers[killed % 2]
            victim.server.kill()
            killed += 1
            time.sleep(1.0)
            victim.start()
        got = runner.wait()
        self.assertEqual(got.code, 0, got.err)
        self.assertEqual(got.json['ids'], expected.json['ids'])
        self.assertGreater(killed, 1)
        self.assertGreater(got.json['reconnects'], 0, 'a condition that never occurred is no pass')


if __name__ == '__main__':
    unittest.main()
