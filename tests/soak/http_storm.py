#!/usr/bin/env python3
"""Clients without a key that keep a program busy. At its HTTP port: 1,024 requests with half a head, then 60
unfinished bodies of 1 MiB to a path that does not exist. At the server's gRPC port: 8 connections with 64 calls of
Measure each, whose replies are not read, reopened every four seconds. They come from four addresses, and reopen at
once what the program closes. Meanwhile ten requests a second ask whether the program is alive, and edges decode.

  tests/soak/http_storm.py [--rounds 5] [--seconds 36] [--program server] [--kinds heads bodies measures] [--heads 1024] [--bodies 60] [--measures 8]

Each round is a span without such clients and one with each kind. The generator is a process limited to one core.
Inconclusive (exit code 4) if it did not have its requests open.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import errno
import http.client
import json
import os
import resource
import select
import socket
import subprocess
import sys
import threading
import time

from edges import Server, ending_with_us, free_port, wait_until_served
from outcome import Outcome, median
from storm import Session, field, frame, p99, resident_mib

ADDRESSES = ('127.0.0.1', '127.0.0.2', '127.0.0.3', '127.0.0.4')
HEAD = b'POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: appli'
BODY = b'POST /does/not/exist HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048576\r\n\r\n' + b' ' * 1048575
CALLS = 64  # of a connection
REQUEST = b'\x08\x80\x80\x10'  # a reply of 256 KiB
# With a window of 0 bytes, so that replies stay with the server.
MEASURES = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b'\0\4\0\0\0\0') + b''.join(
    frame(1, 4, stream, b''.join((
        field(b':method', b'POST'), field(b':scheme', b'http'), field(b':path', b'/outrider.v1.Outrider/Measure'),
        field(b':authority', b'localhost'), field(b'te', b'trailers'), field(b'content-type', b'application/grpc'))))
    + frame(0, 1, stream, b'\0' + len(REQUEST).to_bytes(4, 'big') + REQUEST) for stream in range(1, 2 * CALLS, 2))
REQUESTS = {'heads': HEAD, 'bodies': BODY, 'measures': MEASURES}
ANEW_SECONDS = {'measures': 4}  # after which a connection is reopened; the others stay
PACE_MS = 20  # of a pass
SESSIONS = 2
PROBES_PER_SECOND = 10
PROBE_SECONDS = 40  # longest wait for an answer
MOST_HEALTH_SECONDS = 1.0
MOST_SLOWER = 1.1
MOST_MIB = 64


class StalledClient:
    """A connection that sends as much of its request as possible, and reopens whenever it is closed."""

    def __init__(self, number, port, request, poll):
        self.address, self.port, self.request, self.poll = ADDRESSES[number % len(ADDRESSES)], port, request, poll
        self.opened = -1
        self.open()

    def open(self):
        self.opened += 1
        self.since = time.monotonic()
        self.socket = socket.socket()
        self.socket.setblocking(False)
        self.socket.bind((self.address, 0))
        self.left = memoryview(self.request)
        if self.socket.connect_ex(('127.0.0.1', self.port)) not in (0, errno.EINPROGRESS):
            raise OSError('no connection can be begun')
        self.poll.register(self.socket, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP)

    def on_event(self, events):
        try:
            if events & (select.EPOLLERR | select.EPOLLHUP | select.EPOLLRDHUP):
                raise OSError('closed')
            if events & select.EPOLLIN and not self.socket.recv(1 << 16):
                raise OSError('closed')
            if events & select.EPOLLOUT:
                self.left = self.left[self.socket.send(self.left):]
            if not self.left:
                self.poll.modify(self.socket, select.EPOLLIN | select.EPOLLRDHUP)
        except BlockingIOError:
            pass
        except OSError:
            self.reopen()

    def reopen(self):
        self.socket.close()
        self.open()


def generate(port, kind, count, seconds):
    """Runs as a process of its own; prints at the end what was open and how often it was opened."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    poll = select.epoll()
    stalled = {}
    for number in range(count):
        client = StalledClient(number, port, REQUESTS[kind], poll)
        stalled[client.socket.fileno()] = client

    def renew(descriptor, action):
        client = stalled.pop(descriptor)
        action(client)
        stalled[client.socket.fileno()] = client

    give_up, age = time.monotonic() + seconds, ANEW_SECONDS.get(kind)
    while (left := give_up - time.monotonic()) > 0:
        for descriptor, events in poll.poll(min(left, age or left)):
            renew(descriptor, lambda client, events=events: client.on_event(events))
        if age is not None:
            opened_last = time.monotonic() - age
            for descriptor in [one for one, client in stalled.items() if client.since < opened_last]:
                renew(descriptor, StalledClient.reopen)
    print(json.dumps({'open': len(stalled), 'opened': sum(1 + one.opened for one in stalled.values())}))


class Prober(threading.Thread):
    """Asks whether the program is alive, without waiting for earlier answers; `took` has the seconds of each request.
    An unanswered request counts as the longest."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.port, self.took, self.stopping, self.asking = port, [], threading.Event(), []

    def run(self):
        while not self.stopping.wait(1 / PROBES_PER_SECOND):
            self.asking.append(threading.Thread(target=self.ask, daemon=True))
            self.asking[-1].start()

    def ask(self):
        begin = time.monotonic()
        answered = self.is_answered()
        self.took.append(time.monotonic() - begin if answered else PROBE_SECONDS)

    def is_answered(self):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=PROBE_SECONDS)
        try:
            connection.request('GET', '/health/live')
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def end(self):
        self.stopping.set()
        self.join()
        for asking in self.asking:
            asking.join()
        return self.took


def span(ports, process, sessions, options, kind):
    """(p99 of health in s, p99 between tokens in ms, MiB that the process grew by, what the generator printed)."""
    before, begin = resident_mib(process, 'VmRSS'), time.monotonic()
    said, peak = None, before
    prober = Prober(ports['heads'])
    prober.start()
    generator = None
    if kind != 'calm':
        generator = subprocess.Popen(ending_with_us(sys.executable, __file__, '--generate', kind, '--port', ports[kind], '--seconds', options.seconds,
                                                    f'--{kind}', getattr(options, kind)), stdout=subprocess.PIPE, text=True)
    while time.monotonic() < begin + options.seconds:
        time.sleep(0.2)
        peak = max(peak, resident_mib(process, 'VmRSS'))
    if generator is not None:
        said = json.loads(generator.communicate(timeout=60)[0])
    took = prober.end()
    gaps = [gap for session in sessions for gap in session.gaps(begin, begin + options.seconds)]
    return p99(took), p99(gaps), peak - before, said


def run(options, outcome):
    port = free_port()
    with Server('--pace-pass-ms', PACE_MS, '--http-port', port, '--max-concurrent-sessions', SESSIONS + 1, '--threads', '1') as server:
        sessions = [Session(server, number) for number in range(SESSIONS)]
        for session in sessions:
            wait_until_served(f'http://127.0.0.1:{session.port}')
        if options.program == 'server':
            process, ports = server.process, {'heads': port, 'bodies': port, 'measures': server.port}
        else:
            process, ports = sessions[0].edge.process, {'heads': sessions[0].port, 'bodies': sessions[0].port}
        ports_of = {kind: where for kind, where in ports.items() if kind in (options.kinds or ports)}
        for session in sessions:
            session.start()
        time.sleep(options.warm_up)
        figures = {kind: {'health': [], 'slower': [], 'grown': []} for kind in ports_of}
        for number in range(options.rounds):
            _, calm, _, _ = span(ports, process, sessions, options, 'calm')
            for kind, of in figures.items():
                health, gap, grown, said = span(ports, process, sessions, options, kind)
                of['health'].append(health)
                of['slower'].append(gap / calm)
                of['grown'].append(grown)
                print(f'{number + 1}/{options.rounds} {kind}: health p99 {health * 1e3:.0f} ms, between tokens {gap:.1f} ms, calm '
                      f'{calm:.1f} ms, {grown:+.1f} MiB, opened {said["opened"]}', file=sys.stderr)
                if said['open'] < getattr(options, kind):
                    outcome.mark_inconclusive(f'{said["open"]} {kind} were open')
        for session in sessions:
            session.end()
            if session.failure or len(set(session.texts)) != 1:
                outcome.fail(f'session {session.number}: {session.failure or "its answers differ"}')
    for kind, of in figures.items():
        outcome.hold(f'{kind}: s that /health/live takes (p99)', median(of['health']), MOST_HEALTH_SECONDS, at_least=False)
        outcome.hold(f"{kind}: edges' p99 between tokens, over without", median(of['slower']), options.most_slower, at_least=False)
        outcome.hold(f'{kind}: MiB that it grew by', median(of['grown']), MOST_MIB, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--seconds', type=float, default=36)
    parser.add_argument('--warm-up', type=float, default=6)
    parser.add_argument('--program', choices=('server', 'edge'), default='server')
    parser.add_argument('--kinds', nargs='+', choices=tuple(REQUESTS), help='only these; measures: of the server alone')
    parser.add_argument('--heads', type=int, default=1024)
    parser.add_argument('--bodies', type=int, default=60)
    parser.add_argument('--measures', type=int, default=8)
    parser.add_argument('--most-slower', type=float, default=MOST_SLOWER)
    parser.add_argument('--generate', choices=tuple(REQUESTS), help=argparse.SUPPRESS)
    parser.add_argument('--port', type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.generate:
        return generate(options.port, options.generate, getattr(options, options.generate), options.seconds)
    outcome = Outcome('http_storm')
    run(options, outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
