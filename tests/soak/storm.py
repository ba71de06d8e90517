#!/usr/bin/env python3
"""Two thousand unauthenticated connections, half of them with a call that never opens a stream, beside eight decoding
edges. It measures the time between tokens with such connections over that without, in turn. The edges keep
their connections, as `outrider-edge serve` does. While the others hold all remaining places, one more edge comes and
must be served.

  tests/soak/storm.py [--rounds 5] [--connections 2000] [--half-open 1000]

The unauthenticated connections come from other loopback addresses than the edges. Inconclusive (exit code 4) unless
the server refused some of them.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import re
import resource
import socket
import struct
import sys
import threading
import time
from pathlib import Path

from edges import DRAFT, ROOT, Server, StampedEdge, edge, free_port, wait_until_served
from outcome import Outcome, bootstrap

PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
SESSIONS = 8
ADDRESSES = 16  # of the unauthenticated connections
PACED = ('--pace-pass-ms', '5')
SPAN_SECONDS = 6  # with them, and without
MOST_SLOWER = 1.5
MOST_MIB = 256  # that they may use


def frame(kind, flags, stream, payload):
    return struct.pack('>I', len(payload))[1:] + bytes((kind, flags)) + struct.pack('>I', stream) + payload


def field(name, value):
    """A literal header without indexing (RFC 7541, section 6.2.2); both shorter than 127 bytes."""
    return b''.join((b'\0', bytes((len(name),)), name, bytes((len(value),)), value))


GREETING = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b'')
CALL = frame(1, 4, 1, b''.join((
    field(b':method', b'POST'), field(b':scheme', b'http'), field(b':path', b'/outrider.v1.Outrider/Generate'),
    field(b':authority', b'localhost'), field(b'te', b'trailers'), field(b'content-type', b'application/grpc'))))


def pieces(port, **question):
    """(time.monotonic() at reading, text) of each piece that `outrider-edge serve` answers; ValueError with the
    message if the answer ends in an error."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    try:
        connection.request('POST', '/v1/completions', json.dumps({**question, 'stream': True}),
                           {'Content-Type': 'application/json'})
        for line in connection.getresponse():
            now = time.monotonic()
            if not line.startswith(b'data: {'):
                continue
            event = json.loads(line[6:])
            if 'error' in event:
                raise ValueError(event['error']['message'])
            for choice in event.get('choices', ()):
                yield now, choice.get('text') or ''
    finally:
        connection.close()


class Storm:
    """Connections that are held open until the storm is over."""

    def __init__(self, port, connections, half_open):
        self.held = []
        for number in range(connections):
            connection = socket.socket()
            connection.settimeout(5)
            connection.bind((f'127.0.1.{number % ADDRESSES + 1}', 0))
            try:
                connection.connect(('127.0.0.1', port))
                if number < half_open:
                    connection.sendall(GREETING + CALL)
            except OSError:  # already refused
                connection.close()
                continue
            self.held.append(connection)

    def end(self):
        for connection in self.held:
            connection.close()


class Session(threading.Thread):
    """An edge that keeps its connection and answers one question after the other; records when tokens came."""

    def __init__(self, server, number):
        super().__init__(daemon=True)
        self.port, self.number = free_port(), number
        self.edge = StampedEdge('serve', '--tokenizer', DRAFT, '--strategy', 'ar', '--server', server.address, '--port', self.port,
                                '--threads', '1')
        self.stopping = threading.Event()
        self.came, self.texts, self.failure = [], [], None  # came: a list of times for each answer

    def run(self):
        while not self.stopping.is_set():
            try:
                self.answer()
            except (OSError, ValueError, http.client.HTTPException) as error:
                self.failure = str(error)
                return

    def answer(self):
        times, text = [], ''
        for when, piece in pieces(self.port, prompt=PROMPT, max_tokens=60, temperature=1, seed=self.number):
            if piece:
                times.append(when)
                text += piece
        self.came.append(times)
        self.texts.append(text)

    def gaps(self, begin, end):
        """Times between tokens of an answer, ms, that ended in this span."""
        return [(after - before) * 1e3 for times in list(self.came) for before, after in zip(times, times[1:]) if begin <= after < end]

    def end(self):
        self.stopping.set()
        self.join(30)
        self.edge.process.terminate()
        self.edge.process.wait()


def p99(samples):
    return sorted(samples)[int(0.99 * (len(samples) - 1))]


def resident_mib(process, what='VmHWM'):
    status = Path(f'/proc/{process.pid}/status').read_text(encoding='ascii')
    return int(re.search(rf'^{what}:\s+(\d+)', status, re.M).group(1)) / 1024


def run(options, outcome):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < options.connections + 100:
        sys.exit(f'this machine allows {hard} descriptors a process; --connections {options.connections} needs more')
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Server(*PACED, '--metrics-port', '0', '--max-concurrent-sessions', SESSIONS + 1) as server:
        sessions = [Session(server, number) for number in range(SESSIONS)]
        for session in sessions:
            wait_until_served(f'http://127.0.0.1:{session.port}')
        for session in sessions:
            session.start()
        time.sleep(SPAN_SECONDS)  # warm-up
        before = resident_mib(server.process)
        quiet, stormy = [], []
        for number in range(options.rounds):
            spans = [time.monotonic()]
            time.sleep(SPAN_SECONDS)
            spans.append(time.monotonic())
            storm = Storm(server.port, options.connections, options.half_open)
            time.sleep(SPAN_SECONDS)
            spans.append(time.monotonic())
            late = edge('run', '--tokenizer', DRAFT, '--strategy', 'ar', '--server', server.address, '-p', PROMPT, '-n', '5')
            if late.code != 0:
                outcome.fail(f'an edge that comes during the storm is not served: {late.err[-300:]}')
            storm.end()
            time.sleep(1)
            quiet.append([gap for session in sessions for gap in session.gaps(spans[0], spans[1])])
            stormy.append([gap for session in sessions for gap in session.gaps(spans[1], spans[2])])
            print(f'{number + 1}/{options.rounds}: p99 {p99(quiet[-1]):.1f} ms of {len(quiet[-1])}, with the others '
                  f'{p99(stormy[-1]):.1f} ms of {len(stormy[-1])}', file=sys.stderr)
        refused = server.metric('connections_refused_total')
        grown = resident_mib(server.process) - before
        for session in sessions:
            session.end()
            if session.failure or len(set(session.texts)) != 1:
                outcome.fail(f'session {session.number}: {session.failure or "its answers differ"}')
    outcome.figures['answers'] = sum(len(session.texts) for session in sessions)
    if refused == 0:
        outcome.mark_inconclusive('no connection was refused')
    ratios = [p99(shaken) / p99(calm) for calm, shaken in zip(quiet, stormy)]
    outcome.figures.update({'connections': options.connections, 'half_open': options.half_open, 'refused': refused,
                            'peak_grew_mib': round(grown, 1)})
    outcome.hold("edges' p99 between tokens with the others, over without", bootstrap(ratios, lambda some: sorted(some)[len(some) // 2]),
                 MOST_SLOWER, at_least=False)
    outcome.hold('MiB that the server grew by', (grown, grown, grown), MOST_MIB, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--connections', type=int, default=2000)
    parser.add_argument('--half-open', type=int, default=1000)
    outcome = Outcome('storm')
    run(parser.parse_args(), outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
