#!/usr/bin/env python3
"""An edge trusts the authorities of --tls-ca only, even if the file disappears.

  OUTRIDER_BIN=build/release/bin tests/e2e/tls_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from programs import DRAFT, Edge, Server, edge, free_port, make_certificate, wait_until_served
from runner import run_tests

ANSWER = ('--tokenizer', DRAFT, '-p', 'Find the cup.', '-n', '3', '--json', '--reconnect-timeout', '2')
SYSTEM = Path('/etc/ssl/certs/ca-certificates.crt')
MOUNTS = ('unshare', '--mount', 'sh', '-c')


def can_mount():
    return subprocess.run([*MOUNTS, f'mount --bind /dev/null {SYSTEM}'], capture_output=True, check=False).returncode == 0


class Trust(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / 'ours').mkdir()
        (self.folder / 'theirs').mkdir()
        self.cert, self.key = make_certificate(self.folder / 'ours')
        self.other_cert, self.other_key = make_certificate(self.folder / 'theirs')
        self.authority = self.folder / 'ca.pem'
        self.authority.write_bytes(self.cert.read_bytes())
        # gRPC's fallback: here the device trusts the other server, like a public one.
        self.environment = {'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH': str(self.other_cert)}

    def server(self, cert, key, port=0):
        server = Server('--tls-cert', cert, '--tls-key', key, port=port)
        self.addCleanup(server.stop)
        return server

    def ask(self, server, *flags):
        authority = () if '--tls-ca' in flags else ('--tls-ca', self.authority)
        return edge('run', '--server', server.address, *authority, *flags, *ANSWER,
                    environment=self.environment)

    def test_a_file_that_names_nobody_trusts_nobody(self):
        server = self.server(self.other_cert, self.other_key)
        whole = self.cert.read_bytes()
        for content, word in ((b'', 'holds no certificate'), (b'\n', 'holds no certificate'),
                              (b'no certificate', 'holds no certificate'),
                              (whole[:len(whole) // 2], 'damaged'),
                              (whole + whole[:len(whole) // 2], 'certificate 2')):
            self.authority.write_bytes(content)
            for command in (('run', *ANSWER), ('doctor', '--model', DRAFT), ('serve', '--model', DRAFT, '--port', 0)):
                answer = edge(*command, '--server', server.address, '--tls-ca', self.authority,
                              environment=self.environment)
                self.assertEqual(answer.code, 2, answer.err)
                self.assertIn(word, answer.err)
                self.assertIn(str(self.authority), answer.err)

    def test_another_authoritys_server_is_not_believed_and_ours_is(self):
        self.assertEqual(self.ask(self.server(self.cert, self.key)).code, 0)
        answer = self.ask(self.server(self.other_cert, self.other_key))
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn('certificate verify failed', answer.err)

    def test_where_one_side_alone_has_tls_its_flag_is_named(self):
        for command in (('run', *ANSWER), ('doctor', '--model', DRAFT, '--reconnect-timeout', '1')):
            answer = edge(*command, '--server', self.server(self.cert, self.key).address)
            self.assertEqual(answer.code, 1, answer.err)
            self.assertIn('if the server has TLS, --tls-ca names', answer.err)
        with Server() as plain:
            answer = edge('run', '--server', plain.address, '--tls-ca', self.authority, *ANSWER)
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn('if the server has no TLS, leave --tls-ca out', answer.err)

    @unittest.skipUnless(SYSTEM.exists(), f'{SYSTEM} is not there (Debian package ca-certificates)')
    def test_the_systems_authorities_are_those_of_its_file(self):
        """And not what gRPC falls back on."""
        server = self.server(self.other_cert, self.other_key)
        answer = self.ask(server, '--tls-ca', 'system')
        self.assertEqual(answer.code, 1, answer.err)
        self.assertIn('certificate verify failed', answer.err)

    @unittest.skipUnless(SYSTEM.exists() and can_mount(), 'needs ca-certificates, and mounts of our own')
    def test_a_server_of_the_systems_authorities_is_believed(self):
        for content, code in ((self.cert.read_bytes(), 0), (b'', 2)):
            self.authority.write_bytes(content)
            there = (*MOUNTS, f'mount --bind "{self.authority}" "{SYSTEM}" && exec "$@"', 'sh')
            answer = Edge('run', '--server', self.server(self.cert, self.key).address, '--tls-ca', 'system', *ANSWER,
                          environment=self.environment, under=there).wait()
            self.assertEqual(answer.code, code, answer.err)
        self.assertIn('--tls-ca system: ', answer.err)
        self.assertIn('Remedy: install the package ca-certificates', answer.err)

    def test_an_edges_own_certificate_is_checked_before_it_is_shown(self):
        server = self.server(self.cert, self.key)
        for flags, word in (((self.cert, self.other_key), 'is not the key of the certificate'),
                            ((self.key, self.key), 'holds no certificate'),
                            ((self.folder / 'none', self.key), 'none')):
            answer = self.ask(server, '--tls-cert', flags[0], '--tls-key', flags[1])
            self.assertNotEqual(answer.code, 0)
            self.assertIn(word, answer.err)
        self.key.chmod(0o644)
        self.assertIn('chmod o-r', self.ask(server, '--tls-cert', self.cert, '--tls-key', self.key).err)

    def test_a_file_that_goes_while_the_edge_serves_opens_no_door(self):
        ours = self.server(self.cert, self.key, port=free_port())
        port = free_port()
        serving = Edge('serve', '--model', DRAFT, '--server', ours.address, '--port', port, '--tls-ca',
                       self.authority, '--reconnect-timeout', '2', environment=self.environment)
        self.addCleanup(serving.wait)
        self.addCleanup(serving.interrupt)
        base = f'http://127.0.0.1:{port}'
        wait_until_served(base)
        self.assertTrue(self.complete(base))
        ours.stop()
        self.authority.write_bytes(b'')
        theirs = self.server(self.other_cert, self.other_key, port=ours.port)
        self.assertFalse(self.complete(base), 'the system believes this server, the file never named it')
        theirs.stop()
        self.server(self.cert, self.key, port=ours.port)
        self.assertTrue(self.complete(base), 'whom the file named before is still believed')

    def complete(self, base):
        request = urllib.request.Request(f'{base}/v1/completions', method='POST', data=json.dumps(
            {'prompt': 'Find the cup.', 'max_tokens': 3}).encode(), headers={'Content-Type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)['usage']['completion_tokens'] == 3
        except urllib.error.HTTPError:
            return False


if __name__ == '__main__':
    run_tests(verbosity=2)
