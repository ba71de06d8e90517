#!/usr/bin/env python3
"""Sixty-four sessions that join, leave, share beginnings of their prompts and give their memory to each other: each
answer is the one that it is alone.

  tests/soak/company.py [--answers 200] [--dtypes f32 bf16 int8 int4] [--clients 64] [--kv-cache-memory 6M]

For each dtype one server answers every request by itself, without shared pages and without a draft; another answers
them all at once, drafts itself, and has so little memory for keys and values that sessions are preempted and requests
wait. A fifth of its clients leaves in the middle. Half of those that stay are plain ones over HTTP, of which a half asks
a smaller level of the target, and half are edges with a draft. A refusal is a failure, on either server.
Inconclusive (exit code 4) if nobody was preempted, no page was shared, nothing that the server drafted stood, or no
level's text differs from the full target's.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import random
import sys
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor

from edges import DRAFT, TARGET, Server, edge
from outcome import Outcome, bootstrap

BEGINNINGS = (
    '',
    'You see: red cup 20 degrees left at 2.1 m. ' * 9,
    'You are in the kitchen. On the table are a blue bowl, a green plate and two forks. ' * 6,
)
QUESTIONS = ('Bring the green cup.', 'Find the red cup.', 'Why is the sky blue?', 'Go back to the charger.',
             'What do you see?', 'Open the drawer on the left.')
KINDS = ('full', 'level', 'draft', 'draft', 'leaves')
LEVELS = ('80', '60', '40')
ELASTIC = ('--elastic', TARGET / 'elastic.json')
Answer = namedtuple('Answer', 'text refusal', defaults=(None, None))


def draw_request(random_, number, kind):
    """A prompt that begins like others', with settings of its own."""
    beginning = random_.choice(BEGINNINGS)
    return {'prompt': beginning[:random_.randrange(len(beginning) + 1)] + random_.choice(QUESTIONS),
            'max_tokens': random_.choice((20, 60, 400)), 'temperature': random_.choice((0, 0.7, 1)),
            'seed': number, 'model': f'{TARGET.name}@{random_.choice(LEVELS) if kind == "level" else "100"}'}


def faults(requests, kinds, alone, together):
    """The faults of the answers to those that stayed."""
    for number, (request, kind, one, other) in enumerate(zip(requests, kinds, alone, together)):
        if kind == 'leaves':
            continue
        for where, answer in (('alone', one), ('in company', other)):
            if answer.refusal is not None:
                yield f'request {number} ({kind}) {request}: refused {where}: {answer.refusal}'
        if one.text != other.text and one.refusal is None and other.refusal is None:
            yield f'request {number} ({kind}) {request}: alone {one.text!r}, in company {other.text!r}'


class Clients:
    def __init__(self, server):
        self.server = server
        self.http = next(line for line in server.log if line.split()[:1] == ['openai']).split('http://')[1].strip()

    def complete(self, request, leaves=False):
        """The answer that a plain client gets; an empty answer if it leaves in the middle."""
        connection = http.client.HTTPConnection(self.http, timeout=600)
        connection.request('POST', '/v1/completions', json.dumps({**request, 'stream': leaves}),
                           {'Content-Type': 'application/json'})
        response = connection.getresponse()
        if leaves:
            response.readline()
            connection.sock.close()
            response.close()
            return Answer()
        body = response.read().decode(errors='replace')
        connection.close()
        if response.status != 200:
            return Answer(refusal=f'{response.status} {body}')
        return Answer(json.loads(body)['choices'][0]['text'])

    def draft(self, request):
        """The answer that an edge with a draft shows."""
        answer = edge('run', '--server', self.server.address, '--model', DRAFT, '--raw', '-p', request['prompt'], '-n', request['max_tokens'],
                      '--temp', request['temperature'], '--seed', request['seed'], '--json')
        return Answer(answer.json['text']) if answer.code == 0 else Answer(refusal=answer.err)

    def ask(self, request, kind):
        return self.draft(request) if kind == 'draft' else self.complete(request, leaves=kind == 'leaves')


def compare(options, dtype, count, outcome):
    random_ = random.Random(dtype)
    kinds = [random_.choice(KINDS) for _ in range(count)]
    requests = [draw_request(random_, number, kind) for number, kind in enumerate(kinds)]
    with Server('--dtype', dtype, '--http-port', '0', '--no-enable-prefix-caching', '--draft-source', 'none', *ELASTIC) as server:
        clients = Clients(server)
        alone = [clients.complete(request) for request in requests]
        full = [clients.complete({**request, 'model': TARGET.name + '@100'}) if kind == 'level' else one
                for request, kind, one in zip(requests, kinds, alone)]
    with Server('--dtype', dtype, '--http-port', '0', '--metrics-port', '0', '--kv-cache-memory', options.kv_cache_memory,
                '--max-concurrent-sessions', options.clients, '--max-queued-requests', count,
                '--queue-timeout', 3600, '--draft-model', DRAFT, *ELASTIC) as server:
        clients = Clients(server)
        with ThreadPoolExecutor(options.clients) as pool:
            together = list(pool.map(clients.ask, requests, kinds))
        for fault in faults(requests, kinds, alone, together):
            outcome.fail(f'{dtype}, {fault}')
        figures = {'compared': sum(kind != 'leaves' for kind in kinds),
                   'preemptions': server.metric('num_preemptions_total'),
                   'prefix_hits': server.metric('prefix_cache_hits_total'),
                   'server_drafted': server.metric('server_draft_tokens_accepted_total'),
                   'levels_differ': sum(one.text != other.text for one, other in zip(alone, full))}
    outcome.figures[dtype] = figures
    print(f'{dtype}: {figures}', file=sys.stderr)
    for name, what in (('preemptions', 'nobody was preempted'), ('prefix_hits', 'no page was shared'),
                       ('server_drafted', 'nothing that the server drafted stood'),
                       ('levels_differ', "no level's text differs from the full target's")):
        if figures[name] == 0:
            outcome.mark_inconclusive(f'{dtype}: {what}')
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
