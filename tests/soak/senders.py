#!/usr/bin/env python3
"""How long a short answer takes while eight clients send requests of a megabyte each without a pause, to be tokenised, to
be rendered as a conversation, or to be answered, to either program.

  tests/soak/senders.py [--program server|edge] [--answers 300]

Its 99th percentile: three times that of an idle program at most. The senders have addresses and a process of their own, at
a low priority, so that what they take of this machine's cores is not the program's.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import threading
import time

from edges import DRAFT, TARGET, Edge, Server, ending_with_us, free_port, wait_until_served
from outcome import Outcome, bootstrap

SENDERS = 8
MOST_TIMES = 3
TEXT = 'ab ' * 340000
BODIES = (('/tokenize', {'content': TEXT}), ('/v1/completions', {'prompt': TEXT, 'max_tokens': 1}),
          ('/v1/chat/completions', {'messages': [{'role': 'user', 'content': TEXT}], 'max_tokens': 1}))


def ask(port, path, body, source='127.0.0.1'):
    """(status, milliseconds)."""
    begin = time.monotonic()
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=120, source_address=(source, 0))
    connection.request('POST', path, body, {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status, 1000 * (time.monotonic() - begin)


def send(port):
    """Until this process is ended; each status once on stdout."""
    os.nice(10)
    bodies = [(path, json.dumps(body)) for path, body in BODIES]
    seen = set()

    def one(number):
        turn = number
        while True:
            path, body = bodies[turn % len(bodies)]
            turn += 1
            try:
                status = (path, ask(port, path, body, f'127.0.0.{2 + number}')[0])
            except OSError:
                continue
            if status not in seen:
                seen.add(status)
                print(*status, flush=True)

    for number in range(SENDERS):
        threading.Thread(target=one, args=(number,), daemon=True).start()
    threading.Event().wait()


def p99(samples):
    return statistics.quantiles(samples, n=100, method='inclusive')[98]


def short_answers(port, count, outcome):
    """Milliseconds of each."""
    took = []
    for _ in range(count):
        status, ms = ask(port, '/v1/completions', json.dumps({'prompt': 'hi', 'max_tokens': 1}))
        if status != 200:
            outcome.fail(f'a short answer had the status {status}')
        took.append(ms)
        time.sleep(0.01)
    return took


def measure(port, answers, outcome):
    short_answers(port, 20, outcome)
    alone = short_answers(port, answers, outcome)
    with subprocess.Popen(ending_with_us(sys.executable, __file__, '--send-to', port), text=True, stdout=subprocess.PIPE) as senders:
        seen = [senders.stdout.readline().strip()]  # they have begun
        beside = short_answers(port, answers, outcome)
        senders.kill()
        seen += senders.stdout.read().split('\n')
    if not any(line.startswith('/tokenize 200') for line in seen):
        outcome.mark_inconclusive(f'no megabyte was tokenised beside the short answers; the senders got {seen}')
    outcome.figures |= {'senders_got': sorted(filter(None, seen)), 'alone_p99_ms': p99(alone), 'beside_p50_ms': statistics.median(beside)}
    outcome.hold('p99 of a short answer in ms beside eight senders of megabytes', bootstrap(beside, p99), MOST_TIMES * p99(alone), at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--program', choices=('server', 'edge'), default='server')
    parser.add_argument('--answers', type=int, default=300)
    parser.add_argument('--send-to', type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.send_to:
        return send(options.send_to)
    outcome = Outcome('senders')
    outcome.figures['program'] = options.program
    if options.program == 'server':
        with Server('--http-port', '0', '--draft-source', 'none') as server:
            line = next(line.split() for line in server.log if line.split()[:1] == ['openai'])
            measure(int(line[1].rsplit(':', 1)[1]), options.answers, outcome)
    else:
        port = free_port()
        edge = Edge('serve', '--model', DRAFT, '--target', TARGET, '--offline', '--port', str(port))
        try:
            wait_until_served(f'http://127.0.0.1:{port}')
            measure(port, options.answers, outcome)
        finally:
            edge.process.terminate()
            edge.wait()
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
