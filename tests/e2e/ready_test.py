#!/usr/bin/env python3
"""A program all of whose answers would fail is not ready, and says so in one line; where only a new start helps, it ends
with an error.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/ready_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import shutil
import tempfile
import threading
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from programs import DRAFT, TARGET, Edge, Server, eventually, free_port, new_key
from runner import run_tests


def get(base, path):
    """(status, body) of a page."""
    try:
        with urllib.request.urlopen(base + path, timeout=30) as page:
            return page.status, page.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


class Serving:
    """An edge that serves; its lines as they come."""

    def __init__(self, *flags):
        self.port = free_port()
        self.base = f'http://127.0.0.1:{self.port}'
        self.edge = Edge('serve', '--port', str(self.port), *flags)
        self.out, self.err = [], []
        self.readers = [threading.Thread(target=lambda s=stream, to=lines: to.extend(iter(s.readline, '')), daemon=True)
                        for stream, lines in ((self.edge.process.stdout, self.out), (self.edge.process.stderr, self.err))]
        for reader in self.readers:
            reader.start()

    def says(self, word):
        return any(line.split()[:1] == [word] for line in self.out)

    def code(self):
        """Its exit code, once it ends by itself."""
        code = self.edge.process.wait(timeout=60)
        for reader in self.readers:
            reader.join(timeout=10)
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.edge.process.terminate()
        self.code()


class WeightsCutShort(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.model = Path(self.folder.name) / 'target'
        shutil.copytree(TARGET, self.model)

    def cut(self):
        with open(self.model / 'model.safetensors', 'r+b') as weights:
            weights.truncate(100000)

    def test_a_server_ends_with_an_error(self):
        server = Server('--http-port', '0', model=self.model)
        base = next(line.split()[1] for line in server.log if line.split()[:1] == ['health'])
        self.assertEqual(get(base, '/health/ready')[0], 200)
        self.cut()
        try:
            self.assertEqual(get(base, '/health/ready')[0], 503)
        except OSError:
            pass  # it has ended already
        self.assertEqual(server.process.wait(timeout=60), 1)
        server.stop()
        self.assertIn('model.safetensors', server.log[-1])

    def test_an_edge_with_its_own_target_ends_with_an_error(self):
        with Serving('--model', DRAFT, '--target', self.model, '--offline') as edge:
            eventually(lambda: edge.says('ready'))
            self.cut()
            self.assertEqual(edge.code(), 1)
            self.assertIn('model.safetensors', edge.err[-1])


class AnEdgeThatCannotBeAnswered(unittest.TestCase):
    def test_another_tokenizer_ends_it_with_an_error(self):
        with tempfile.TemporaryDirectory() as folder, Server() as server:
            model = Path(folder) / 'draft'
            shutil.copytree(DRAFT, model)
            tokenizer = json.loads((model / 'tokenizer.json').read_text(encoding='utf-8'))
            tokenizer['model']['merges'].pop()
            (model / 'tokenizer.json').write_text(json.dumps(tokenizer), encoding='utf-8')
            for template in ((), ('--chat-template', 'chatml')):
                with Serving('--model', model, '--server', server.address, *template) as edge:
                    self.assertEqual(edge.code(), 1)
                    self.assertFalse(edge.says('ready'))
                    self.assertRegex(edge.err[-1], 'tokenizer .*Remedy')

    def test_a_key_that_the_server_refuses_ends_it_with_an_error(self):
        with tempfile.TemporaryDirectory() as folder:
            keys, wrong = Path(folder) / 'keys', Path(folder) / 'wrong'
            key = new_key(keys)
            wrong.write_text(key[:-1] + ('A' if key[-1] != 'A' else 'B'), encoding='utf-8')
            wrong.chmod(0o600)
            with Server('--token-file', keys) as server, \
                    Serving('--model', DRAFT, '--server', server.address, '--token-file', wrong) as edge:
                self.assertEqual(edge.code(), 1)
                self.assertFalse(edge.says('ready'))

    def test_a_server_that_is_replaced_by_another_makes_it_not_ready_until_it_is_back(self):
        port = free_port()
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / 'target'
            shutil.copytree(TARGET, other)
            tokenizer = json.loads((other / 'tokenizer.json').read_text(encoding='utf-8'))
            tokenizer['model']['merges'].pop()
            (other / 'tokenizer.json').write_text(json.dumps(tokenizer), encoding='utf-8')
            first = Server(port=port)
            with Serving('--model', DRAFT, '--server', f'127.0.0.1:{port}') as edge:
                eventually(lambda: edge.says('ready'))
                first.stop()
                with Server(port=port, model=other):
                    ask(edge.base)
                    eventually(lambda: get(edge.base, '/health/ready')[0] == 503)
                    eventually(lambda: any('not ready' in line and 'tokenizer' in line for line in edge.err))
                with Server(port=port):
                    eventually(lambda: get(edge.base, '/health/ready')[0] == 200)
                    self.assertEqual(ask(edge.base), 200)

    def test_a_server_that_is_away_makes_it_not_ready_until_it_is_there(self):
        port = free_port()
        with Serving('--model', DRAFT, '--server', f'127.0.0.1:{port}') as edge:
            eventually(lambda: edge.says('listening') and any('not ready' in line for line in edge.err))
            self.assertFalse(edge.says('ready'))
            self.assertEqual(get(edge.base, '/health/ready')[0], 503)
            self.assertEqual(get(edge.base, '/v1/models')[0], 503)
            with Server(port=port):
                eventually(lambda: edge.says('ready'))
                eventually(lambda: get(edge.base, '/health/ready')[0] == 200)  # once what it knew is old
                self.assertIn('demo-target', get(edge.base, '/v1/models')[1])


def ask(base):
    request = urllib.request.Request(f'{base}/v1/completions', b'{"prompt": "Pick", "max_tokens": 2}',
                                     {'Content-Type': 'application/json'})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status
    except urllib.error.HTTPError as refused:
        return refused.code


if __name__ == '__main__':
    run_tests()
