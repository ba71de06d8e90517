#!/usr/bin/env python3
"""Two thousand connections of strangers, half of them with a call that never says what it wants, against eight
edges that decode: their time between tokens with the strangers there, over without, in turn.

  bench/service/storm.py [--rounds 5] [--connections 2000] [--half-open 1000]

Strangers come from other addresses of the loopback than the edges. Nothing is shown (exit code 4) unless the
server turned some away.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import re
import resource
import socket
import struct
import sys
import threading
import time
import urllib.request
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / 'offline'))
from edges import DRAFT, ROOT, Server, edge  # noqa: E402
from outcome import Outcome, bootstrap  # noqa: E402

PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
SESSIONS = 8
ADDRESSES = 16  # of strangers
PACED = ('--pace-pass-ms', '5')
MOST_SLOWER = 1.5
MOST_MIB = 256  # that the strangers may take


def frame(kind, flags, stream, payload):
    return struct.pack('>I', len(payload))[1:] + bytes((kind, flags)) + struct.pack('>I', stream) + payload


def field(name, value):
    """A literal header without indexing (RFC 7541, section 6.2.2); both shorter than 127 bytes."""
    return b''.join((b'\0', bytes((len(name),)), name, bytes((len(value),)), value))


GREETING = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + frame(4, 0, 0, b'')
CALL = frame(1, 4, 1, b''.join((
    field(b':method', b'POST'), field(b':scheme', b'http'), field(b':path', b'/outrider.v1.Outrider/Generate'),
    field(b':authority', b'localhost'), field(b'te', b'trailers'), field(b'content-type', b'application/grpc'))))


class Storm:
    """Connections that are held open until the storm is over."""

    def __init__(self, port, connections, half_open):
        self.held = []
        for number in range(connections):
            stranger = socket.socket()
            stranger.settimeout(5)
            stranger.bind((f'127.0.1.{number % ADDRESSES + 1}', 0))
            try:
                stranger.connect(('127.0.0.1', port))
                if number < half_open:
                    stranger.sendall(GREETING + CALL)
            except OSError:  # it was turned away already
                stranger.close()
                continue
            self.held.append(stranger)

    def end(self):
        for stranger in self.held:
            stranger.close()


def gaps(server, seeds):
    """Times between tokens of eight answers at once, ms, and their tokens."""
    answers = [None] * SESSIONS

    def run(number):
        answers[number] = edge('run', '--strategy', 'ar', '--tokenizer', DRAFT, '-p', PROMPT, '-n', 60, '--temp', '1',
                               '--seed', seeds[number], '--json', '--server', server.address)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(SESSIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for answer in answers:
        if answer.code != 0:
            sys.exit(f'an edge ended with {answer.code}: {answer.err}')
    times = [answer.json['chunk_ms'] for answer in answers]
    return [after - before for one in times for before, after in zip(one, one[1:])], [answer.json['ids'] for answer in answers]


def p99(samples):
    return sorted(samples)[int(0.99 * (len(samples) - 1))]


def metric(url, name):
    text = urllib.request.urlopen(f'{url}/metrics', timeout=30).read().decode()
    return float(re.search(rf'^outrider_{name}{{[^}}]*}} (\S+)$', text, re.M).group(1))


def resident_mib(process, what='VmHWM'):
    status = Path(f'/proc/{process.pid}/status').read_text(encoding='ascii')
    return int(re.search(rf'^{what}:\s+(\d+)', status, re.M).group(1)) / 1024


def run(options, outcome):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < options.connections + 100:
        sys.exit(f'this machine allows {hard} descriptors a process; --connections {options.connections} needs more')
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with Server(*PACED, '--metrics-port', '0') as server:
        metrics = next(line for line in server.log if line.split()[:1] == ['metrics']).split()[1]
        quiet, stormy = [], []
        gaps(server, range(SESSIONS))  # warm-up
        before = resident_mib(server.process)
        for number in range(options.rounds):
            seeds = [SESSIONS * number + i for i in range(SESSIONS)]
            calm, expected = gaps(server, seeds)
            storm = Storm(server.port, options.connections, options.half_open)
            shaken, got = gaps(server, seeds)
            storm.end()
            quiet.append(calm)
            stormy.append(shaken)
            if got != expected:
                outcome.fail(f'round {number}: other tokens with strangers there')
            time.sleep(1)
            print(f'{number + 1}/{options.rounds}: p99 {p99(calm):.1f} ms, with strangers {p99(shaken):.1f} ms', file=sys.stderr)
        refused = metric(metrics, 'connections_refused_total')
        grown = resident_mib(server.process) - before
    if refused == 0:
        outcome.show_nothing('no connection was turned away')
    ratios = [p99(shaken) / p99(calm) for calm, shaken in zip(quiet, stormy)]
    outcome.figures.update({'connections': options.connections, 'half_open': options.half_open, 'refused': refused,
                            'peak_grew_mib': round(grown, 1)})
    outcome.hold("edges' p99 between tokens with strangers, over without", bootstrap(ratios, lambda some: sorted(some)[len(some) // 2]),
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
