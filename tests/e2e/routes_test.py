#!/usr/bin/env python3
"""A server with keys, requested without one: every path in its sources, on each of its ports, by each method, and
whatever its protocol names as a call. Only health, version, the chat page and, to the loopback, metrics answer, so a new
route cannot be forgotten here.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/routes_test.py

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import importlib.util
import json
import re
import tempfile
import unittest
from pathlib import Path

from programs import ROOT, Server, new_key
from runner import run_tests

# The page at / holds nothing of the server's: it asks for a key.
OPEN = {'health': {'/', '/health', '/health/live', '/health/ready', '/version'}, 'metrics': {'/metrics'}}
METHODS = ('GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS')
REFUSED, NOT_THERE = 401, (404, 405)
# The status of a route with a key.
BODIES = {'/v1/completions': {'prompt': 'Go', 'max_tokens': 1}, '/v1/responses': {'input': 'Go', 'max_output_tokens': 1},
          '/v1/messages': {'messages': [{'role': 'user', 'content': 'Go'}], 'max_tokens': 1}, '/tokenize': {'content': 'Go'}, '/detokenize': {'tokens': [1]},
          '/v1/chat/completions': {'messages': [{'role': 'user', 'content': 'Go'}], 'max_tokens': 1}, '/v1/models': None}
# Third-party services that a gRPC server may have.
STANDARD = ('grpc.health.v1.Health/List', 'grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
            'grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo', 'grpc.channelz.v1.Channelz/GetServers',
            'envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus')


def paths():
    """Every text of the server's sources that begins with a slash, and one below each that begins alike."""
    found = set()
    for folder in ('cloud_server', 'common', 'proto'):
        for source in (ROOT / folder).rglob('*'):
            if source.suffix in ('.cc', '.h'):
                found |= set(re.findall(r'"(/[\w./-]*)"', source.read_text(encoding='utf-8')))
    return sorted(found | {path.rstrip('/') + '/x' for path in found})


def calls():
    """(service/method) of the protocol's services."""
    found = []
    for source in (ROOT / 'proto').rglob('*.proto'):
        text = source.read_text(encoding='utf-8')
        package = re.search(r'^package ([\w.]+);', text, re.M)[1]
        for service, body in re.findall(r'^service (\w+) \{(.*?)^\}', text, re.M | re.S):
            found += [f'{package}.{service}/{method}' for method in re.findall(r'^\s*rpc (\w+)', body, re.M)]
    return found


class WithoutAKey(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.tokens = Path(cls.folder.name) / 'tokens'
        cls.key = new_key(cls.tokens)
        cls.server = Server('--token-file', cls.tokens, '--http-port', '0', '--metrics-port', '0')
        log = ''.join(cls.server.log)
        cls.ports = {name: int(re.search(rf'^ *{name} +http://[\d.]+:(\d+)', log, re.M)[1]) for name in ('health', 'metrics')}

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        cls.folder.cleanup()

    def ask(self, port, method, path, key=None):
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=30)
        try:
            connection.request(method, path, None if method == 'GET' else json.dumps(BODIES.get(path)),
                               {'Content-Type': 'application/json', **({'Authorization': f'Bearer {key}'} if key else {})})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def test_no_path_answers_but_health_version_and_the_page(self):
        refused = set()
        for name, port in self.ports.items():
            for path in paths():
                for method in METHODS:
                    status, body = self.ask(port, method, path)
                    answers = path in OPEN[name] and method in ('GET', 'HEAD')
                    if path not in OPEN[name] or answers:  # open routes are open for every accepted method
                        silent = (204,) if method == 'OPTIONS' and not body else ()  # the methods of a path are no secret
                        self.assertIn(status, (200,) if answers else (REFUSED, *NOT_THERE, *silent),
                                      f'{name}: {method} {path}: {body[:300]}')
                    if status == REFUSED:
                        refused.add((name, path))
        self.assertLessEqual({('health', path) for path in BODIES}, refused)

    def test_with_a_key_the_same_paths_answer(self):
        for path, body in BODIES.items():
            self.assertEqual(self.ask(self.ports['health'], 'POST' if body else 'GET', path, self.key)[0], 200, path)

    @unittest.skipUnless(importlib.util.find_spec('grpc'), 'needs the package grpcio')
    def test_no_call_answers_but_health(self):
        import grpc
        named = calls()
        self.assertIn('outrider.v1.Outrider/Generate', named)
        with grpc.insecure_channel(self.server.address) as channel:
            def code(call, streams):
                kind = channel.stream_stream if streams else channel.unary_unary
                try:
                    ask = kind(f'/{call}', lambda message: message, lambda message: message)
                    if not streams:
                        return ask(b'', timeout=30) and grpc.StatusCode.OK
                    for _ in ask(iter([b'']), timeout=30):
                        return grpc.StatusCode.OK
                    return grpc.StatusCode.OK
                except grpc.RpcError as error:
                    return error.code()
            for call in named:
                for streams in (False, True):
                    self.assertEqual(code(call, streams), grpc.StatusCode.UNAUTHENTICATED, call)
            for call in STANDARD:
                self.assertIn(code(call, True), (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED), call)
            self.assertEqual(code('grpc.health.v1.Health/Check', False), grpc.StatusCode.OK)


if __name__ == '__main__':
    run_tests()
