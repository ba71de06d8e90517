#!/usr/bin/env python3
"""Sends broken requests to every port of two servers, one of which uses TLS and keys, and of `outrider-edge serve`,
all built with the address sanitizer. The requests are recorded from clients, with bytes changed, dropped, repeated,
cut off or inserted from elsewhere; to the server with TLS they go inside of TLS with a valid key, and as broken TLS.

  ./run build asan outrider-server outrider-edge
  OUTRIDER_BIN=build/asan/bin tests/soak/fuzz.py --minutes 10 [--seed 0]

All three programs must stay healthy, answer a valid request as before, and end with exit code 0. Inconclusive (exit
code 4) for programs without the sanitizer, or after fewer than a thousand requests, a hundred of them inside of TLS.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import random
import socket
import ssl
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from authority import Authority
from edges import BIN, DRAFT, Edge, Server, edge, free_port, is_sanitized, new_key, wait_until_served
from outcome import Outcome

PROMPT = 'In view: silver bottle ahead at 1.0 m. Task: find the silver bottle.'
ANSWER = ('run', '--model', DRAFT, '-p', PROMPT, '-n', '20', '--temp', '1', '--seed', '3', '--json', '--threads', '1')
WORKERS = 4
REPLY_SECONDS = 0.02  # to wait for an answer to a broken request
MIN_REQUESTS = 1000
REPORTS = ('Sanitizer', 'runtime error:')
WORDS = (b'\0', b'\xff' * 8, b'\r\n\r\n', b'Content-Length: 99999999999\r\n', b'Transfer-Encoding: chunked\r\n\r\nffffffff\r\n',
         b'[' * 2000, b'{"a":' * 500, b'1e999', b'-1', b'"\\ud800"', b'\xf0\x9f\x98\x80', b'null', b'%00', b'../' * 20)


def http_requests(key):
    bodies = {
        '/v1/completions': {'prompt': PROMPT, 'max_tokens': 3, 'temperature': 0.5, 'seed': 1, 'stop': ['x'], 'stream': True},
        '/v1/chat/completions': {'messages': [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Hello'}],
                                 'max_tokens': 3, 'top_p': 0.9, 'stream_options': {'include_usage': True}},
        '/tokenize': {'content': PROMPT}}
    for path, fields in bodies.items():
        body = json.dumps(fields).encode()
        yield (f'POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer {key}\r\n'
               f'Content-Length: {len(body)}\r\n\r\n').encode() + body
    for path in ('/', '/health', '/health/live', '/health/ready', '/version', '/metrics', '/v1/models'):
        yield (f'GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n'
               f'Authorization: Bearer {key}\r\n\r\n').encode()


class Recorder:
    """Carries connections to a port; `said` has the bytes that each client sent."""

    def __init__(self, port):
        self.port, self.said = port, []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.address = f'127.0.0.1:{self.listener.getsockname()[1]}'
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(('127.0.0.1', self.port))
            said = bytearray()
            self.said.append(said)
            threading.Thread(target=self._carry, args=(client, server, said), daemon=True).start()
            threading.Thread(target=self._carry, args=(server, client, bytearray()), daemon=True).start()

    @staticmethod
    def _carry(source, sink, copy):
        try:
            while data := source.recv(1 << 16):
                copy += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def broken(source, seeds):
    """One of the seeds, with one to eight changes."""
    data = bytearray(source.choice(seeds))
    for _ in range(source.randint(1, 8)):
        at = source.randrange(len(data) + 1)
        end = min(len(data), at + source.choice((1, 1, 4, 16, 200)))
        change = source.randrange(6)
        if change == 0 and at < len(data):
            data[at] ^= 1 << source.randrange(8)
        elif change == 1:
            data[at:end] = source.randbytes(end - at)
        elif change == 2:
            del data[at:end]
        elif change == 3:
            data[at:at] = data[at:end] * source.randint(1, 20)
        elif change == 4:
            data[at:at] = source.choice(WORDS)
        else:
            other = source.choice(seeds)
            data[at:end] = other[source.randrange(len(other)):][:source.randint(1, 300)]
    return bytes(data[:source.randrange(len(data) + 1)] if source.random() < 0.2 else data)


class Target:
    """A port, what clients send to it, and whether they send it inside of TLS."""

    def __init__(self, port, seeds, tls=False):
        self.port, self.seeds, self.context = port, seeds, None
        if tls:
            self.context = ssl.create_default_context()
            self.context.check_hostname, self.context.verify_mode = False, ssl.CERT_NONE
            self.context.set_alpn_protocols(['h2'])

    def connect(self):
        peer = socket.create_connection(('127.0.0.1', self.port), timeout=5)
        return self.context.wrap_socket(peer) if self.context else peer


class Attack(threading.Thread):
    """Sends to one target after the other until it is stopped."""

    def __init__(self, targets, seed, stopping):
        super().__init__(daemon=True)
        self.targets, self.source, self.stopping, self.sent = targets, random.Random(seed), stopping, 0
        self.inside = 0  # of TLS

    def run(self):
        while not self.stopping.is_set():
            target = self.source.choice(self.targets)
            data = broken(self.source, target.seeds)
            cut = self.source.randrange(len(data) + 1)
            try:
                with target.connect() as peer:
                    self.inside += target.context is not None
                    peer.sendall(data[:cut])
                    peer.sendall(data[cut:])
                    peer.settimeout(REPLY_SECONDS)
                    while peer.recv(1 << 16):
                        pass
            except OSError:  # refused, cut off, or kept waiting: all are right
                pass
            self.sent += 1


class Programs:
    """A server with plaintext and a serving edge, and a server with TLS, whose HTTP gets requests too."""

    def __init__(self, folder, said):
        self.authority = Authority(folder)
        self.http, self.metrics, self.serving_port = free_port(), free_port(), free_port()
        self.key = new_key(folder / 'tokens')
        (folder / 'key').touch(0o600)
        (folder / 'key').write_text(self.key, encoding='ascii')
        self.keyed = ('--token-file', folder / 'key')
        self.plain = Server('--max-concurrent-sessions', '64')
        self.shielded = Server(*self.authority.server_flags(), '--token-file', folder / 'tokens', '--http-port', self.http,
                               '--metrics-port', self.metrics, '--max-concurrent-sessions', '64',
                               '--max-calls-per-peer', '0')  # all keys, wrong and right, come from one address
        self.serving = Edge('serve', '--model', DRAFT, '--server', self.plain.address, '--port', self.serving_port,
                            '--threads', '1', stdout=said, stderr=said)
        wait_until_served(f'http://127.0.0.1:{self.serving_port}')

    def answers(self):
        """Tokens of valid requests to each server, or the message of an edge that got none."""
        asked = (edge(*ANSWER, '--server', self.plain.address),
                 edge(*ANSWER, '--server', self.shielded.address, '--tls-ca', self.authority.ca, *self.keyed))
        return [got.json['ids'] if got.code == 0 else got.err[-300:] for got in asked]

    def targets(self):
        calls = self._record(self.plain.port, *self.keyed)
        shielded = self._record(self.shielded.port, '--tls-ca', self.authority.ca, *self.keyed)
        requests = list(http_requests(self.key))
        return [Target(self.plain.port, calls), Target(self.shielded.port, calls, tls=True), Target(self.shielded.port, shielded),
                *(Target(port, requests) for port in (self.serving_port, self.http, self.metrics))]

    @staticmethod
    def _record(port, *flags):
        recorder = Recorder(port)
        for strategy in ('ar', 'sd', 'mirror'):
            edge(*ANSWER, '--strategy', strategy, '--server', recorder.address, *flags)
        time.sleep(0.5)
        return [bytes(said) for said in recorder.said if said]

    def look(self):
        """OSError if one is not alive; a server without HTTP by its port. A flooded server may be silent for a while, which
        the edge's /health shows."""
        for port, path in ((self.serving_port, '/health/live'), (self.http, '/health/live')):
            urllib.request.urlopen(f'http://127.0.0.1:{port}{path}', timeout=60).read()
        socket.create_connection(('127.0.0.1', self.plain.port), timeout=60).close()

    def end(self):
        """The exit code of each."""
        self.serving.process.terminate()
        return {'outrider-edge': self.serving.process.wait(60), 'outrider-server': self.plain.stop(),
                'the shielded outrider-server': self.shielded.stop()}


def attack(options, outcome, programs):
    targets, stopping = programs.targets(), threading.Event()
    attacks = [Attack(targets, options.seed * WORKERS + i, stopping) for i in range(WORKERS)]
    for one in attacks:
        one.start()
    begin = time.monotonic()
    try:
        while time.monotonic() < begin + options.minutes * 60:
            time.sleep(5)
            programs.look()
            print(f'{sum(one.sent for one in attacks)} requests in {time.monotonic() - begin:.0f} s', file=sys.stderr, end='\r')
    except OSError as error:
        outcome.fail(f'a program is no longer alive: {error}')
    stopping.set()
    for one in attacks:
        one.join(30)
    print(file=sys.stderr)
    return sum(one.sent for one in attacks), sum(one.inside for one in attacks)


def run(options, outcome):
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile('w+') as said:
        programs = Programs(Path(folder), said)
        before = programs.answers()
        requests, inside = attack(options, outcome, programs)
        after = programs.answers()
        if after != before or before[0] != before[1]:
            outcome.fail(f'valid requests get other answers: {before}, then {after}')
        codes = programs.end()
        said.seek(0)
        lines = [*programs.plain.log, *programs.shielded.log, *said]
    for name, code in codes.items():
        if code != 0:
            outcome.fail(f'{name} ended with exit code {code}')
    for name in ('outrider-edge', 'outrider-server'):
        if not is_sanitized(BIN / name):
            outcome.mark_inconclusive(f'{name} was built without the address sanitizer. Remedy: see --help')
    if requests < MIN_REQUESTS or inside < MIN_REQUESTS / 10:
        outcome.mark_inconclusive(f'{requests} requests only, {inside} of them inside of TLS')
    reports = [line for line in lines if any(word in line for word in REPORTS)]
    for line in reports or (lines[-20:] if outcome.failures else ()):
        print(line.rstrip(), file=sys.stderr)
    outcome.figures.update({'requests': requests, 'inside_tls': inside, 'minutes': options.minutes, 'seed': options.seed})
    outcome.hold('reports of the sanitizers', (len(reports), len(reports), len(reports)), 0, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--minutes', type=float, default=10)
    parser.add_argument('--seed', type=int, default=0)
    outcome = Outcome('fuzz')
    run(parser.parse_args(), outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
