#!/usr/bin/env python3
"""Requests that two HTTP parsers may read differently, through the real HAProxy and nginx, to both programs: neither
program ever answers a request that the proxy did not see.

The proxy gives each request an id, which it logs; a program sends that id back with its answer. A request that was hidden
inside another one has no such id.

  OUTRIDER_BIN=build/release/bin tests/e2e/smuggling_test.py

SPDX-License-Identifier: Apache-2.0
"""
import collections
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from programs import CLEAN_ENVIRONMENT, DRAFT, Edge, Server, ending_with_us, eventually, free_port, wait_until_served
from runner import run_tests

NGINX = shutil.which('nginx') or shutil.which('nginx', path='/usr/sbin')
BODY = b'{"prompt": "Pick up", "max_tokens": 1}'
HIDDEN = b'GET /version HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: hidden\r\n\r\n'
LAST = b'GET /health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n'
ASK = b'POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n'
SIZE = b'Content-Length: %d\r\n' % len(BODY)
WHOLE = SIZE + b'\r\n' + BODY
CHUNKED = b'Transfer-Encoding: chunked\r\n'
CHUNKS = b'%x\r\n' % len(BODY) + BODY + b'\r\n0\r\n\r\n'
ANSWER_ID = re.compile(rb'HTTP/1\.1 (\d+) [^{]*?\r\nX-Request-Id: ([^\r]*)\r\n', re.I)
# The answers to bytes that were no request to the program. Their id may not have been read.
NO_REQUEST = {b'400', b'414', b'417', b'431', b'501', b'505'}


def framings():
    """Pairs of fields that each give the body another end."""
    for first, second in ((SIZE, CHUNKED), (CHUNKED, SIZE)):
        for hidden in (HIDDEN, b''):
            yield ASK + first + second + b'\r\n' + b'0\r\n\r\n' + hidden
            yield ASK + first + second + b'\r\n' + CHUNKS + hidden
    for coding in (b' xchunked', b' chunked, identity', b' identity, chunked', b' chunked;q=1', b'\x0bchunked', b' \x0cchunked',
                   b' "chunked"', b' Chunked', b'\tchunked', b' chunked\x00', b' gzip, chunked', b' cow\r\nTransfer-Encoding: chunked',
                   b'\r\n chunked', b' chunked\r\n , identity', b''):
        for with_size in (SIZE, b''):
            yield ASK + b'Transfer-Encoding:' + coding + b'\r\n' + with_size + b'\r\n' + CHUNKS + HIDDEN
    for name in (b'Transfer-Encoding ', b' Transfer-Encoding', b'Transfer_Encoding', b'Transfer-Encoding\t', b'X: y\nTransfer-Encoding',
                 b'X: y\rTransfer-Encoding', b'Transfer\x00-Encoding'):
        yield ASK + name + b': chunked\r\n' + SIZE + b'\r\n' + b'0\r\n\r\n' + HIDDEN


def lengths():
    number = b'%d' % len(BODY)
    for length in (b'+' + number, b'-1', b'0x%x' % len(BODY), number + b', 5', number + b',' + number, number + b' 5', b'0' + number, b'"5"',
                   number + b'\r\nContent-Length: 5', number + b'\r\nContent-Length: ' + number, b'99999999999999999999999', b'',
                   b'5\x00', b'\r\n ' + number, b'1_0'):
        yield ASK + b'Content-Length: ' + length + b'\r\n\r\n' + BODY + HIDDEN
    for name in (b'Content-Length ', b'Content-Length\t', b' Content-Length', b'Content_Length', b'X: y\r\n Content-Length', b'X: y\nContent-Length',
                 b'X: y\rContent-Length'):
        yield ASK + name + b': %d\r\n\r\n' % (len(BODY) + len(HIDDEN)) + BODY + HIDDEN
    yield b'GET /version HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(HIDDEN) + HIDDEN
    yield b'POST /health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(HIDDEN) + HIDDEN
    yield b'POST /nope HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n' % len(HIDDEN) + HIDDEN
    yield b'HEAD /version HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(HIDDEN) + HIDDEN
    yield b'OPTIONS /version HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n' % len(HIDDEN) + HIDDEN


def chunks():
    size = b'%x' % len(BODY)
    for line in (size + b';a=b', size + b' ', b' ' + size, b'0x' + size, b'+' + size, b'-' + size, b'0' * 20 + size, b'1' + b'0' * 16 + size,
                 size + b';a="\r\n', size + b';a\n', size + b';\n', size + b'\n', size + b';a="\n0\n\n"', b'', b'g'):
        yield ASK + CHUNKED + b'\r\n' + line + b'\r\n' + BODY + b'\r\n0\r\n\r\n' + HIDDEN
    yield ASK + CHUNKED + b'\r\n' + size + b'\r\n' + BODY + b'XX0\r\n\r\n' + HIDDEN
    yield ASK + CHUNKED + b'\r\n' + size + b'\r\n' + BODY + b'\n0\r\n\r\n' + HIDDEN
    yield ASK + CHUNKED + b'\r\n' + size + b'\n' + BODY + b'\n0\n\n' + HIDDEN
    yield ASK + CHUNKED + b'\r\n' + size + b'\r\n' + BODY + b'\r\n0\r\nHost: evil\r\nContent-Length: 4\r\n\r\n' + HIDDEN
    yield ASK + CHUNKED + b'\r\n' + size + b'\r\n' + BODY + b'\r\n0\r\nX: y\n\n' + HIDDEN
    yield ASK + CHUNKED + b'\r\nFFFFFFFFFFFFFFFFF\r\n' + BODY + HIDDEN


def heads():
    for line in (b'GET /version HTTP/1.1', b'GET /version HTTP/1.0', b'GET /version HTTP/3.9', b'GET  /version HTTP/1.1', b'GET\t/version HTTP/1.1',
                 b'GET /version\tHTTP/1.1', b'GET /version HTTP/1.1 ', b'GET /version', b'GET http://localhost/version HTTP/1.1',
                 b'GET http://evil.example/version HTTP/1.1', b'OPTIONS * HTTP/1.1', b'GET /v1/models%00x HTTP/1.1', b'PRI * HTTP/2.0'):
        for host in (b'Host: localhost\r\n', b'Host: localhost\r\nHost: evil.example\r\n', b'Host : localhost\r\n', b''):
            yield line + b'\r\n' + host + b'\r\n' + HIDDEN
    yield b'GET /version HTTP/1.1\nHost: localhost\n\n' + HIDDEN
    yield b'GET /version HTTP/1.1\r\nHost: localhost\r\nX: a\0b\r\n\r\n' + HIDDEN
    yield b'GET /version HTTP/1.1\r\nHost: localhost\r\nX: y\n\nGET /version HTTP/1.1\r\nHost: localhost\r\nX-Request-Id: hidden\r\n\r\n'
    yield b'\r\n\r\nGET /version HTTP/1.1\r\nHost: localhost\r\n\r\n' + HIDDEN
    yield b'GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQ\r\n\r\n' + HIDDEN
    yield b'GET /version HTTP/1.1\r\nHost: localhost\r\nConnection: X-Request-Id, Transfer-Encoding\r\n\r\n' + HIDDEN
    yield b'POST /v1/completions HTTP/1.0\r\n' + CHUNKED + SIZE + b'\r\n' + CHUNKS + HIDDEN
    yield ASK + WHOLE + ASK + WHOLE + HIDDEN


CORPUS = [*framings(), *lengths(), *chunks(), *heads()]


class Tap:
    """Between a proxy and a program: passes all bytes on, and keeps what the program says."""

    def __init__(self, to):
        self.to, self.sent, self.streams = to, collections.defaultdict(bytes), 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                near, _ = self.listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(('127.0.0.1', self.to))
            except OSError:
                near.close()
                continue
            self.streams += 1
            for source, sink, number in ((near, far, None), (far, near, self.streams)):
                threading.Thread(target=self.pass_on, args=(source, sink, number), daemon=True).start()

    def pass_on(self, source, sink, number):
        try:
            while piece := source.recv(65536):
                if number is not None:
                    self.sent[number] += piece
                sink.sendall(piece)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            for end in (source, sink):
                end.close()

    def answered(self):
        """The ids of all requests that were answered."""
        return [name.decode() for text in list(self.sent.values()) for code, name in ANSWER_ID.findall(text)
                if code not in NO_REQUEST or not name.startswith(b'req-')]


HAPROXY_RULES = """
global
  maxconn 64
  log stdout format raw local0
defaults
  mode http
  log global
  log-format "id=%ID %HM %HU %ST"
  option accept-invalid-http-request
  option accept-invalid-http-response
  http-reuse always
  timeout connect 5s
  timeout client 5s
  timeout server 20s
frontend all
  bind 127.0.0.1:{port}
  unique-id-format %[uuid()]
  http-request set-header X-Request-Id %[unique-id]
  default_backend program
backend program
  server one 127.0.0.1:{to}
"""
NGINX_RULES = """
daemon off;
worker_processes 1;
{user}
pid {folder}/pid;
error_log {folder}/errors;
events {{}}
http {{
  log_format ids 'id=$request_id $request_method $request_uri $status';
  access_log {folder}/log ids;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  ignore_invalid_headers off;
  underscores_in_headers on;
  upstream program {{ server 127.0.0.1:{to}; keepalive 8; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://program;
      proxy_http_version 1.1;
      proxy_request_buffering off;
      proxy_set_header Host $http_host;
      proxy_set_header Connection "";
      proxy_set_header X-Request-Id $request_id;
    }}
  }}
}}
"""


class Proxy:
    def __init__(self, name, folder, to):
        self.folder, self.port = Path(folder), free_port()
        self.log = self.folder / 'log'
        rules = self.folder / 'rules'
        words = {'port': self.port, 'to': to, 'folder': folder, 'user': 'user root;' if os.geteuid() == 0 else ''}
        rules.write_text((HAPROXY_RULES if name == 'haproxy' else NGINX_RULES).format(**words), encoding='utf-8')
        command = ('haproxy', '-f', rules, '-db') if name == 'haproxy' else (NGINX, '-c', rules, '-p', folder)
        output = open(self.log if name == 'haproxy' else self.folder / 'output', 'wb')
        self.process = subprocess.Popen(ending_with_us(*command), stdout=output, stderr=output, env=CLEAN_ENVIRONMENT)
        output.close()

    def wait_until_ready(self):
        def listens():
            with socket.create_connection(('127.0.0.1', self.port)):
                return True
        eventually(listens, lambda: 'the proxy does not listen: ' + ''.join(
            path.read_text(errors='replace') for path in self.folder.iterdir() if path.is_file()))

    def seen(self):
        """The ids of all requests that were passed on or answered by the proxy."""
        return set(re.findall(r'id=(\S+)', self.log.read_text(encoding='utf-8', errors='replace')))

    def stop(self):
        self.process.terminate()
        self.process.wait(timeout=30)


def send(port, data):
    """Sends bytes, says no more, and reads to the end."""
    with socket.create_connection(('127.0.0.1', port)) as connection:
        connection.settimeout(15)
        try:
            connection.sendall(data)
            while connection.recv(65536):
                pass
        except OSError:
            pass


@unittest.skipUnless(shutil.which('haproxy') and NGINX, 'needs haproxy and nginx (Debian packages haproxy, nginx-light)')
class NothingIsHidden(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        server_port, edge_port = free_port(), free_port()
        cls.programs = {'server': server_port, 'edge': edge_port}
        cls.server = Server('--http-port', server_port)
        cls.edge = Edge('serve', '--model', DRAFT, '--server', cls.server.address, '--port', edge_port)
        wait_until_served(f'http://127.0.0.1:{edge_port}')

    @classmethod
    def tearDownClass(cls):
        cls.edge.interrupt()
        cls.edge.wait()
        cls.server.stop()

    def check(self, proxy_name, program):
        tap = Tap(self.programs[program])
        self.addCleanup(tap.listener.close)
        with tempfile.TemporaryDirectory() as folder:
            proxy = Proxy(proxy_name, folder, tap.port)
            try:
                proxy.wait_until_ready()
                for number, request in enumerate(CORPUS):
                    before = len(tap.answered())
                    send(proxy.port, request + LAST)
                    answered = collections.Counter(tap.answered())
                    new = len(tap.answered()) - before
                    self.assertLessEqual(max(answered.values(), default=0), 1, (number, request, answered.most_common(1)))
                    self.assertLessEqual(new, request.count(b'HTTP/') + 1, (number, request))
                # It logs a request when both sides of its answer have ended.
                eventually(lambda: set(tap.answered()) <= proxy.seen(),
                           lambda: f'{program} answered requests that {proxy_name} did not see: {set(tap.answered()) - proxy.seen()}')
                self.assertGreater(len(tap.answered()), 20, 'the others were answered')
                send(tap.port, HIDDEN + LAST)
                self.assertIn('hidden', set(tap.answered()) - proxy.seen(), 'one that goes around the proxy is noticed')
            finally:
                proxy.stop()

    def test_behind_haproxy(self):
        for program in self.programs:
            with self.subTest(program=program):
                self.check('haproxy', program)

    def test_behind_nginx(self):
        for program in self.programs:
            with self.subTest(program=program):
                self.check('nginx', program)


if __name__ == '__main__':
    run_tests(verbosity=2)
