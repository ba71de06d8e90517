#!/usr/bin/env python3
"""Sixty-four sessions that join, leave, share beginnings of their prompts and give their memory to each other: each
answer is the one that it is alone.

  tests/soak/company.py [--answers 200] [--dtypes f32 bf16 int8 int4] [--clients 64] [--kv-cache-memory 6M]

For each dtype one server answers every request by itself, without shared pages; another answers them all at once, with
so little memory for keys and values that sessions are preempted and requests wait. A fifth of its clients leaves in
the middle. Half of the clients are plain ones over HTTP, half are edges with a draft.
Inconclusive (exit code 4) if nobody was preempted or no page was shared.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import random
import sys
from concurrent.futures import ThreadPoolExecutor

from edges import DRAFT, Server, edge
from outcome import Outcome, bootstrap

BEGINNINGS = (
    '',
    'You see: red cup 20 degrees left at 2.1 m. ' * 9,
    'You are in the kitchen. On the table are a blue bowl, a green plate and two forks. ' * 6,
)
QUESTIONS = ('Bring the green cup.', 'Find the red cup.', 'Why is the sky blue?', 'Go back to the charger.',
             'What do you see?', 'Open the drawer on the left.')


def draw_request(random_, number):
    """A prompt that begins like others', with settings of its own."""
    beginning = random_.choice(BEGINNINGS)
    return {'prompt': beginning[:random_.randrange(len(beginning) + 1)] + random_.choice(QUESTIONS),
            'max_tokens': random_.choice((20, 60, 400)), 'temperature': random_.choice((0, 0.7, 1)),
            'seed': number}


class Clients:
    def __init__(self, server):
        self.server = server
        self.http = next(line for line in server.log if line.split()[:1] == ['openai']).split('http://')[1].strip()

    def complete(self, request, leaves=False):
        """The text of a plain client; nothing if it leaves in the middle."""
        connection = http.client.HTTPConnection(self.http, timeout=600)
        connection.request('POST', '/v1/completions', json.dumps({**request, 'stream': leaves}),
                           {'Content-Type': 'application/json'})
        response = connection.getresponse()
        if leaves:
            response.readline()
            connection.sock.close()
            response.close()
            return None
        answer = json.loads(response.read())
        connection.close()
        return answer['choices'][0]['text'] if 'choices' in answer else answer

    def draft(self, request):
        """The text of an edge with a draft."""
        answer = edge('run', '--server', self.server.address, '--model', DRAFT, '--raw', '-p', request['prompt'], '-n', request['max_tokens'],
                      '--temp', request['temperature'], '--seed', request['seed'], '--json')
        return answer.json['text'] if answer.code == 0 else answer.err

    def ask(self, request, kind):
        return self.draft(request) if kind == 'draft' else self.complete(request, leaves=kind == 'leaves')


def compare(options, dtype, count, outcome):
    random_ = random.Random(dtype)
    requests = [draw_request(random_, number) for number in range(count)]
    kinds = [random_.choice(('plain', 'plain', 'draft', 'draft', 'leaves')) for _ in requests]
    with Server('--dtype', dtype, '--http-port', '0', '--no-enable-prefix-caching') as server:
        clients = Clients(server)
        alone = [clients.complete(request) for request in requests]
    with Server('--dtype', dtype, '--http-port', '0', '--metrics-port', '0', '--kv-cache-memory', options.kv_cache_memory,
                '--max-concurrent-sessions', options.clients, '--max-queued-requests', count,
                '--queue-timeout', 3600) as server:
        clients = Clients(server)
        with ThreadPoolExecutor(options.clients) as pool:
            together = list(pool.map(clients.ask, requests, kinds))
        for number, (request, kind, one, other) in enumerate(zip(requests, kinds, alone, together)):
            if kind != 'leaves' and one != other:
                outcome.fail(f'{dtype}, request {number} ({kind}) {request}: alone {one!r}, in company {other!r}')
        figures = {'compared': sum(kind != 'leaves' for kind in kinds),
                   'preemptions': server.metric('num_preemptions_total'),
                   'prefix_hits': server.metric('prefix_cache_hits_total')}
    outcome.figures[dtype] = figures
    print(f'{dtype}: {figures}', file=sys.stderr)
    if figures['preemptions'] == 0:
        outcome.mark_inconclusive(f'{dtype}: nobody was preempted')
    if figures['prefix_hits'] == 0:
        outcome.mark_inconclusive(f'{dtype}: no page was shared')
    return figures['compared']


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--answers', type=int, default=200)
    parser.add_argument('--dtypes', nargs='+', default=['f32', 'bf16', 'int8', 'int4'])
    parser.add_argument('--clients', type=int, default=64)
    parser.add_argument('--kv-cache-memory', default='6M')
    options = parser.parse_args()
    outcome = Outcome('company')
    count = -(-options.answers // len(options.dtypes))
    compared = sum(compare(options, dtype, count, outcome) for dtype in options.dtypes)
    outcome.hold('answers that are the same as alone', bootstrap([1.0 - len(outcome.failures) / max(compared, 1)] * 2, min), 1.0)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
