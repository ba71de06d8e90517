#!/usr/bin/env python3
"""HTTP over TLS, of both programs: OpenAI's client in another network, certificates of clients, renewal under a stream,
plaintext where TLS is spoken and the reverse, handshakes that do not go on.

  OUTRIDER_BIN=build/release/bin tests/e2e/https_test.py

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import DRAFT, FORGETFUL, Edge, Server, edge, ending_with_us, eventually, free_port, make_certificate, new_key
from runner import run_tests

MESSAGES = [{'role': 'user', 'content': 'Pick up the red cup.'}]
SECONDS = 60
# More than one address may keep, and beyond what leaves room for others.
HANDSHAKES = 400

# Runs in the other network: argv are the address, a key and its command; SSL_CERT_FILE names the authority.
CLIENT = """
import json, openai, sys
base, key, what = sys.argv[1:]
client = openai.OpenAI(base_url=base, api_key=key, max_retries=0)
asked = dict(model=client.models.list().data[0].id if what != 'refused' else 'x', temperature=0,
             messages=[{'role': 'user', 'content': 'Pick up the red cup.'}])
if what == 'refused':
    try:
        client.chat.completions.create(**asked)
    except openai.AuthenticationError as error:
        print(json.dumps({'status': error.status_code, 'code': error.code}))
elif what == 'whole':
    print(json.dumps(client.chat.completions.create(**asked).choices[0].message.content))
else:
    text, reason = '', None
    for chunk in client.chat.completions.create(stream=True, max_tokens=200, seed=1, extra_body={'ignore_eos': True}, **asked):
        if chunk.choices:
            if not text:
                print('begun', flush=True)
            text += chunk.choices[0].delta.content or ''
            reason = chunk.choices[0].finish_reason or reason
    print(json.dumps([text, reason]))
"""


class Network:
    """A network of its own, joined to ours by a pair of interfaces. `ours`: our address there."""

    def __init__(self):
        number = random.randrange(1, 250)
        self.name, self.ours = f'outrider-{os.getpid()}', f'10.213.{number}.1'
        there, inside = f'10.213.{number}.2', ('netns', 'exec', self.name, 'ip')
        near, far = f'on{os.getpid()}', f'of{os.getpid()}'
        if not shutil.which('ip'):
            raise unittest.SkipTest('needs ip (Debian package iproute2)')
        for command in (('netns', 'add', self.name), ('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', self.name),
                        ('addr', 'add', f'{self.ours}/24', 'dev', near), ('link', 'set', near, 'up'),
                        (*inside, 'addr', 'add', f'{there}/24', 'dev', far), (*inside, 'link', 'set', far, 'up')):
            if subprocess.run(['ip', *command], capture_output=True, check=False).returncode != 0:
                self.close()
                raise unittest.SkipTest('needs a network of its own, which root may make (ip netns)')

    def close(self):
        """Its interfaces go with it."""
        subprocess.run(['ip', 'netns', 'delete', self.name], capture_output=True, check=False)

    def run(self, authority, *arguments):
        return subprocess.Popen(ending_with_us('ip', 'netns', 'exec', self.name, sys.executable, '-c', CLIENT, *arguments), text=True,
                                env={**os.environ, 'SSL_CERT_FILE': str(authority)},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def issue(folder, name, common_name='localhost', address='127.0.0.1', authority=None):
    """A certificate and its key, signed by the authority (cert, key), or by itself."""
    cert, key = Path(folder) / f'{name}.pem', Path(folder) / f'{name}.key'
    by = () if authority is None else ('-CA', authority[0], '-CAkey', authority[1])
    subprocess.run(['openssl', 'req', '-x509', *by, '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj',
                    f'/CN={common_name}', '-addext', f'subjectAltName=IP:127.0.0.1,IP:{address}', '-days', '2',
                    '-keyout', key, '-out', cert], check=True, capture_output=True)
    return cert, key


def https(port, authority, certificate=None):
    context = ssl.create_default_context(cafile=authority)
    if certificate:
        context.load_cert_chain(*certificate)
    return http.client.HTTPSConnection('127.0.0.1', port, timeout=SECONDS, context=context)


def ask(connection, method, path, body=None, key=None):
    headers = {'Content-Type': 'application/json'} | ({'Authorization': f'Bearer {key}'} if key else {})
    connection.request(method, path, json.dumps(body) if body else None, headers)
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text) if text.startswith(b'{') else text.decode()


def complete(connection, key=None, **fields):
    return ask(connection, 'POST', '/v1/completions', {'prompt': 'Pick up', 'max_tokens': 3, **fields}, key)


class Secured(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.cert, self.key = make_certificate(self.folder)
        self.port = free_port()

    def server(self, *flags):
        server = Server('--tls-cert', self.cert, '--tls-key', self.key, '--http-port', self.port, *flags)
        self.addCleanup(server.stop)
        return server


@unittest.skipUnless(importlib.util.find_spec('openai'), 'needs the package openai')
class InAnotherNetwork(Secured):
    """A server set up as docs/deploy.md says: TLS and keys, on all addresses."""

    def setUp(self):
        super().setUp()
        self.network = Network()
        self.addCleanup(self.network.close)
        self.cert, self.key = issue(self.folder, 'server', address=self.network.ours)
        tokens = self.folder / 'tokens'
        self.token = new_key(tokens)
        self.base = f'https://{self.network.ours}:{self.port}/v1'
        self.start = ('--host', '0.0.0.0', '--token-file', tokens)

    def answer(self, client):
        out, err = client.communicate(timeout=SECONDS)
        self.assertEqual(client.returncode, 0, err)
        return json.loads(out.splitlines()[-1])

    def test_openais_client_with_a_key_gets_answers_and_without_one_401(self):
        server = self.server(*self.start)
        self.assertIn(f'openai       https://0.0.0.0:{self.port}', ''.join(server.log))
        self.assertEqual(self.answer(self.network.run(self.cert, self.base, 'or-wrong', 'refused')),
                         {'status': 401, 'code': 'invalid_api_key'})
        text = self.answer(self.network.run(self.cert, self.base, self.token, 'whole'))
        self.assertTrue(text)
        streamed, reason = self.answer(self.network.run(self.cert, self.base, self.token, 'streamed'))
        self.assertTrue(streamed.startswith(text))
        self.assertEqual(reason, 'length')
        other, _ = make_certificate(self.folder)
        foreign = self.network.run(other, self.base, self.token, 'whole')
        self.assertIn('CERTIFICATE_VERIFY_FAILED', foreign.communicate(timeout=SECONDS)[1])

    def test_a_renewed_certificate_serves_the_next_connection_and_harms_no_stream(self):
        server = self.server(*self.start, '--pace-pass-ms', '100', *FORGETFUL)
        undisturbed, _ = self.answer(self.network.run(self.cert, self.base, self.token, 'streamed'))
        before = self.folder / 'before.pem'
        before.write_bytes(self.cert.read_bytes())
        stream = self.network.run(before, self.base, self.token, 'streamed')
        self.assertEqual(stream.stdout.readline(), 'begun\n')
        issue(self.folder, 'server', address=self.network.ours)

        def is_renewed():
            try:
                return ask(https(self.port, self.cert), 'GET', '/health/live')[0] == 200
            except ssl.SSLCertVerificationError:
                return False
        eventually(is_renewed)
        self.assertIsNone(stream.poll(), 'the stream ended before the renewal: no test')
        self.assertEqual(self.answer(stream), [undisturbed, 'length'])
        self.assertIn('TLS has a new certificate', ''.join(server.log))
        with self.assertRaises(ssl.SSLCertVerificationError):
            ask(https(self.port, before), 'GET', '/health/live')


class OfTheServer(Secured):
    def test_plaintext_gets_health_and_the_reason(self):
        metrics = free_port()
        self.server('--metrics-port', metrics)

        def plain(port=self.port):
            return http.client.HTTPConnection('127.0.0.1', port, timeout=SECONDS)
        for path in ('/health', '/health/live', '/health/ready', '/version'):
            self.assertEqual(ask(plain(), 'GET', path)[0], 200, path)
            self.assertEqual(ask(https(self.port, self.cert), 'GET', path)[0], 200, path)
        for path in ('/v1/models', '/metrics', '/nothing'):
            status, answer = ask(plain(), 'GET', path)
            self.assertEqual(status, 400)
            self.assertIn('https:// in place of http://', answer['error']['message'])
        self.assertEqual(complete(plain())[0], 400)
        self.assertEqual(complete(https(self.port, self.cert))[0], 200)
        for connection in (plain(metrics), https(metrics, self.cert)):
            status, text = ask(connection, 'GET', '/metrics')
            self.assertEqual(status, 200)
            self.assertIn('outrider_num_requests_running', text)

    def test_a_route_that_is_off_says_why(self):
        self.server()
        status, answer = ask(https(self.port, self.cert), 'GET', '/metrics')
        self.assertEqual(status, 404)
        self.assertIn('--metrics-port', answer['error']['message'])

    def test_tls_to_a_port_of_plaintext_is_told_and_logged(self):
        with Server('--http-port', self.port) as server:
            with self.assertRaises(ssl.SSLError):
                ask(https(self.port, self.cert), 'GET', '/health')
            with socket.create_connection(('127.0.0.1', self.port), timeout=SECONDS) as raw:
                raw.sendall(b'\x16\x03\x01\x02\x00\x01')
                heard = b''
                while piece := raw.recv(4096):
                    heard += piece
            self.assertTrue(heard.startswith(b'HTTP/1.1 400 '), heard)
            self.assertIn(b'this port speaks plaintext', heard)
            eventually(lambda: 'this port speaks plaintext' in ''.join(server.log))

    def test_other_protocols_of_tls_are_refused(self):
        server = self.server('--metrics-port', 0)
        context = ssl.create_default_context(cafile=self.cert)
        context.set_alpn_protocols(['h2'])
        with socket.create_connection(('127.0.0.1', self.port), timeout=SECONDS) as raw:
            with self.assertRaisesRegex(ssl.SSLError, 'no application protocol'):
                context.wrap_socket(raw, server_hostname='127.0.0.1')
        context.set_alpn_protocols(['h2', 'http/1.1'])
        with socket.create_connection(('127.0.0.1', self.port), timeout=SECONDS) as raw:
            with context.wrap_socket(raw, server_hostname='127.0.0.1') as secure:
                self.assertEqual(secure.selected_alpn_protocol(), 'http/1.1')
                self.assertEqual(secure.version(), 'TLSv1.3')
        old = subprocess.run(['openssl', 's_client', '-connect', f'127.0.0.1:{self.port}', '-tls1_1', '-cipher', 'ALL:@SECLEVEL=0'],
                             stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=SECONDS)
        self.assertIn('protocol version', old.stderr)
        eventually(lambda: server.metric('tls_handshakes_failed_total') == 2)

    def test_a_clients_certificate_names_its_tenant(self):
        authority = issue(self.folder, 'authority')
        alice, spaced = (issue(self.folder, name, common_name=name, authority=authority) for name in ('alice', 'two words'))
        foreign = issue(self.folder, 'foreign', common_name='alice', authority=issue(self.folder, 'other'))
        tokens = self.folder / 'tokens'
        bob = new_key(tokens, 'bob')
        with tokens.open('a', encoding='utf-8') as lines:
            lines.write('alice certificate\n')
        server = self.server('--tls-client-ca', authority[0], '--token-file', tokens)
        for certificate, key, status, word in ((None, bob, 403, 'a certificate of the authorities'), (alice, None, 200, None),
                                               (alice, bob, 403, 'different tenants'), (spaced, None, 403, "must be a tenant's")):
            got, answer = complete(https(self.port, self.cert, certificate), key)
            self.assertEqual(got, status, answer)
            if word:
                self.assertIn(word, answer['error']['message'])
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            complete(https(self.port, self.cert, foreign))
        # Probes have no certificate.
        self.assertEqual(ask(https(self.port, self.cert), 'GET', '/health/ready')[0], 200)
        eventually(lambda: any('session ended' in line and 'alice' in line for line in server.log))

    def test_handshakes_that_do_not_go_on_keep_nobody_out(self):
        self.server('--pace-pass-ms', '20', *FORGETFUL)
        stream = https(self.port, self.cert)
        stream.request('POST', '/v1/completions', json.dumps({'prompt': 'Pick up', 'max_tokens': 100, 'stream': True,
                                                              'ignore_eos': True}), {'Content-Type': 'application/json'})
        answer = stream.getresponse()
        heard = answer.read(200)
        half = []
        for number in range(HANDSHAKES):
            one = socket.create_connection(('127.0.0.1', self.port), timeout=SECONDS)
            one.sendall(b'\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'[:1 + number % 11])
            half.append(one)
        self.assertEqual(complete(https(self.port, self.cert))[0], 200)
        heard += answer.read()
        self.assertTrue(heard.endswith(b'data: [DONE]\n\n'), heard[-100:])
        for one in half:
            one.close()

    def test_a_weak_certificate_is_refused_when_the_program_starts(self):
        weak, key = self.folder / 'weak.pem', self.folder / 'weak.key'
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'rsa:1024', '-nodes', '-subj', '/CN=localhost', '-days', '2',
                        '-keyout', key, '-out', weak], check=True, capture_output=True)
        with self.assertRaisesRegex(RuntimeError, 'weak.pem: OpenSSL does not use this certificate'):
            Server('--tls-cert', weak, '--tls-key', key)

    def test_what_a_shutdown_cuts_never_looks_complete(self):
        server = self.server('--pace-pass-ms', '100', '--shutdown-timeout', '0.3', *FORGETFUL)
        asked = {}
        for name, version, stream in (('stream', '1.1', True), ('old', '1.0', True), ('whole', '1.1', False)):
            body = json.dumps({'prompt': 'Find the cup.', 'max_tokens': 300, 'ignore_eos': True, 'stream': stream}).encode()
            raw = socket.create_connection(('127.0.0.1', self.port), timeout=SECONDS)
            connection = ssl.create_default_context(cafile=self.cert).wrap_socket(raw, server_hostname='127.0.0.1',
                                                                                 suppress_ragged_eofs=False)
            connection.sendall(b'POST /v1/completions HTTP/%s\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s'
                               % (version.encode(), len(body), body))
            asked[name] = connection
        heard = asked['stream'].recv(65536)
        server.process.send_signal(signal.SIGTERM)
        while piece := asked['stream'].recv(65536):  # ends as TLS ends: nothing was cut off on the way
            heard += piece
        self.assertIn(b'data: {"error":', heard)
        self.assertFalse(heard.endswith(b'\r\n0\r\n\r\n'), heard)
        whole = asked['whole'].recv(65536)
        self.assertTrue(whole.startswith(b'HTTP/1.1 503 '), whole)
        # A body of HTTP/1.0 ends with its connection, so that must not end as TLS does.
        heard = b''
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            while piece := asked['old'].recv(65536):
                heard += piece
            if heard.startswith(b'HTTP/1.1 503 '):
                raise ConnectionError('refused, which is an answer')
        for connection in asked.values():
            connection.close()


class OfTheEdge(Secured):
    def serve(self, *flags):
        server = Server()
        self.addCleanup(server.stop)
        serving = Edge('serve', '--model', DRAFT, '--server', server.address, '--port', self.port, *flags)
        self.addCleanup(serving.wait)
        self.addCleanup(serving.interrupt)

        def is_ready():
            try:
                return ask(http.client.HTTPConnection('127.0.0.1', self.port, timeout=SECONDS), 'GET', '/health/ready')[0] == 200
            except ConnectionError:
                return False
        eventually(is_ready)

    def test_clients_speak_tls_and_show_a_certificate_where_one_is_asked_for(self):
        authority = issue(self.folder, 'authority')
        robot = issue(self.folder, 'robot', authority=authority)
        self.serve('--host', '0.0.0.0', '--http-tls-cert', self.cert, '--http-tls-key', self.key, '--http-tls-client-ca', authority[0])
        status, answer = complete(http.client.HTTPConnection('127.0.0.1', self.port, timeout=SECONDS))
        self.assertEqual((status, answer['error']['code']), (400, 'failed_precondition'))
        self.assertEqual(complete(https(self.port, self.cert))[0], 403)
        status, answer = complete(https(self.port, self.cert, robot))
        self.assertEqual(status, 200)
        self.assertEqual(answer['usage']['completion_tokens'], 3)
        # A page of its own may ask, and one of the same name in plaintext may not.
        for origin, wanted in ((f'https://127.0.0.1:{self.port}', 200), (f'http://127.0.0.1:{self.port}', 403)):
            connection = https(self.port, self.cert, robot)
            connection.request('GET', '/v1/models', headers={'Origin': origin})
            self.assertEqual(connection.getresponse().status, wanted)
            connection.close()

    def test_flags_that_do_not_fit_are_named(self):
        start = ('serve', '--target', 'null:', '--port', 0)
        for flags, words in ((('--http-tls-cert', self.cert), '--http-tls-cert and --http-tls-key belong together'),
                             (('--host', '0.0.0.0', '--http-tls-cert', self.cert, '--http-tls-key', self.key), '--http-tls-client-ca'),
                             (('--http-tls-cert', self.key, '--http-tls-key', self.key), 'holds no certificate')):
            answer = edge(*start, *flags)
            self.assertEqual(answer.code, 2, answer.err)
            self.assertIn(words, answer.err)


if __name__ == '__main__':
    run_tests(verbosity=2)
