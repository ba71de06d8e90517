#!/usr/bin/env python3
"""Four servers behind HAProxy with deploy/haproxy.cfg, compared with one: sixty-four clients of sixteen tenants ask the
same of both, and while four answer, one is killed, one is drained and one stands still.

  tests/soak/cluster.py [--clients 64] [--answers 32] [--pace-ms 40] [--seed 1]
  tests/soak/cluster.py --short     # twelve clients with few answers: in CI

Three of four clients ask an edge of their own, which streams; the others are OpenAI clients that take whole answers from
the servers. All connections to HAProxy use TLS, and each tenant has a key and a beginning of its prompts of several pages.
The servers are paced, as their processes share this machine. It holds: no answer is another than the one server's, or
lost; page hits of four servers over those of one (tokens of prompts that were found among kept pages); the 99th
percentile of the time between two tokens of the edges, over that with one server. With --short only the first.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import concurrent.futures
import http.client
import json
import random
import signal
import ssl
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from edges import DRAFT, ROOT, StampedEdge, free_port, make_certificate, new_key, wait_until_served
from outcome import RESAMPLES, Outcome, bootstrap

from balancer import MISSING, NAMES, Balancer, Proxied

TENANTS = 16
PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
THINGS = ('cup', 'box', 'key', 'ball', 'bowl', 'plate', 'fork', 'lamp')
LEAST_HITS = 0.9
MOST_OF_P99 = 1.5
ANSWER_SECONDS = 300


class Client(threading.Thread):
    """Asks one question after the other. `answers`: for each its text, its times between tokens and its tokens found among
    kept pages and in all; or why there is none."""

    def __init__(self, questions, key):
        super().__init__(daemon=True)
        self.questions, self.key = questions, key
        self.answers = []

    def connect(self):
        raise NotImplementedError

    def close(self):
        pass

    def ask(self, question):
        connection = self.connect()
        try:
            connection.request('POST', '/v1/completions', json.dumps(question),
                               {'Content-Type': 'application/json', 'Authorization': f'Bearer {self.key}'})
            response = connection.getresponse()
            if response.status != 200:
                return {'lost': f'{response.status} {response.read().decode(errors="replace")[:300]}'}
            return self.read(response)
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            return {'lost': repr(error)}
        finally:
            connection.close()

    def run(self):
        for question in self.questions:
            self.answers.append(self.ask(question))


def found(usage):
    return {'cached': usage['prompt_tokens_details']['cached_tokens'], 'prompt': usage['prompt_tokens']}


class WholeClient(Client):
    """An OpenAI client of the servers."""

    def __init__(self, questions, key, balancer):
        super().__init__(questions, key)
        self.port, self.context = balancer.port, ssl.create_default_context(cafile=balancer.cert)

    def connect(self):
        return http.client.HTTPSConnection('127.0.0.1', self.port, timeout=ANSWER_SECONDS, context=self.context)

    def read(self, response):
        answer = json.loads(response.read())
        return {'text': answer['choices'][0]['text'], 'gaps': [], **found(answer['usage'])}


class EdgeClient(Client):
    """A client of an edge, which has the tenant's key."""

    def __init__(self, questions, key_file, balancer, strategy):
        super().__init__([{**question, 'stream': True, 'stream_options': {'include_usage': True}} for question in questions], 'none')
        self.port = free_port()
        self.edge = StampedEdge('serve', '--model', DRAFT, '--strategy', strategy, '--port', self.port, '--threads', '1', '--token-file', key_file,
                                '--reconnect-timeout', '120', *balancer.edge_flags)

    def connect(self):
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=ANSWER_SECONDS)

    def read(self, response):
        text, times, usage, done = '', [], None, False
        for line in response:
            if line.startswith(b'data: {'):
                event = json.loads(line[6:])
                if 'error' in event:
                    return {'lost': event['error']['message']}
                piece = ''.join(choice.get('text') or '' for choice in event.get('choices', ()))
                if piece:
                    times.append(time.monotonic())
                text += piece
                usage = event.get('usage') or usage
            done = done or line.startswith(b'data: [DONE]')
        if not done or usage is None:
            return {'lost': f'the stream ends after {len(text)} characters'}
        return {'text': text, 'gaps': [later - earlier for earlier, later in zip(times, times[1:])], **found(usage)}

    def close(self):
        self.edge.process.terminate()
        self.edge.process.wait()


def draw_questions(options):
    """For each client its questions: each is asked once by each."""
    draws = random.Random(options.seed)
    return [[{'prompt': f'Tenant {client % options.tenants}. {PROMPT} ' * 3 + f'Find {draws.choice(THINGS)} {client}-{number}.',
              'max_tokens': draws.randrange(options.tokens // 2, options.tokens), 'temperature': draws.choice((0, 0.8)), 'seed': number,
              'ignore_eos': True} for number in range(options.answers)] for client in range(options.clients)]


class Faults:
    """The faults of three of the servers while they answer."""

    def __init__(self, servers, hold_seconds):
        self.servers, self.hold_seconds = servers, hold_seconds
        self.met = {}   # by fault, the server that it met
        self.idle = []  # those of them that had no session

    def kill(self, one):
        one.server.kill()
        time.sleep(self.hold_seconds)
        one.start()

    def drain(self, one):
        if one.server.stop() != 0:
            raise RuntimeError(''.join(one.server.log[-20:]))
        one.start()

    def slow(self, one):
        one.server.process.send_signal(signal.SIGSTOP)
        time.sleep(2 * self.hold_seconds)
        one.server.process.send_signal(signal.SIGCONT)

    def run(self, progress):
        """progress(): the part of the answers that has come. The faults are spread over the run, each with the busiest server
        that had none. One after the other, as three at once leave nobody who answers."""
        for number, fault in enumerate((self.kill, self.drain, self.slow)):
            while (part := progress()) < 0.1 + 0.2 * number:
                time.sleep(0.05)
            sessions, name = max((one.server.metric('num_requests_running'), name) for one, name in zip(self.servers, NAMES)
                                 if name not in self.met.values())
            self.met[fault.__name__] = name
            if sessions == 0:
                self.idle.append(name)
            print(f'{fault.__name__}: server {name} with {sessions:.0f} sessions, {100 * part:.0f} % of the answers', file=sys.stderr)
            fault(self.servers[NAMES.index(name)])


class Scene:
    """Servers, HAProxy before them, and clients."""

    def __init__(self, options, folder, count, keys, questions):
        self.servers = [Proxied('--token-file', keys.file, '--pace-pass-ms', options.pace_ms, '--draft-source', 'none', '--threads', '1',
                                '--max-concurrent-sessions', options.clients, '--max-queued-requests', options.clients) for _ in range(count)]
        self.balancer = Balancer(folder, self.servers, certificate=keys.certificate)
        self.clients = []
        for number, asked in enumerate(questions):
            tenant = number % options.tenants
            if number % 4 == 3:
                self.clients.append(WholeClient(asked, keys.keys[tenant], self.balancer))
            else:
                self.clients.append(EdgeClient(asked, keys.files[tenant], self.balancer, 'mirror' if number % 8 == 0 else 'ar'))

    def progress(self):
        return sum(len(client.answers) for client in self.clients) / sum(len(client.questions) for client in self.clients)

    def run(self, faults=None):
        for client in self.clients:
            if isinstance(client, EdgeClient):
                wait_until_served(f'http://127.0.0.1:{client.port}')
        for client in self.clients:
            client.start()
        if faults:
            faults.run(self.progress)
        for client in self.clients:
            client.join()

    def close(self):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda client: client.close(), self.clients))
        self.balancer.close()
        for one in self.servers:
            one.server.kill()


class Keys:
    """A key of each tenant, each in a file of its own, and the server's file of all."""

    def __init__(self, folder, tenants):
        self.certificate = make_certificate(folder)
        self.file = Path(folder, 'tokens')
        self.keys = [new_key(self.file, f'tenant-{number}') for number in range(tenants)]
        self.files = [Path(folder, f'key-{number}') for number in range(tenants)]
        for file, key in zip(self.files, self.keys):
            file.touch(0o600)
            file.write_text(key, encoding='utf-8')


def run_scene(options, folder, count, keys, questions, outcome):
    """The answers of each client."""
    scene = Scene(options, folder, count, keys, questions)
    try:
        faults = Faults(scene.servers, options.hold_seconds) if count > 1 else None
        begin = time.monotonic()
        scene.run(faults)
        used = Counter(scene.balancer.served_by() + scene.balancer.served_by('openai'))
        outcome.figures[f'servers_{count}'] = {'seconds': round(time.monotonic() - begin, 1), 'streams': dict(used),
                                               'faults': faults.met if faults else {}}
        if len(used) < min(count, 3):
            outcome.mark_inconclusive(f'of {count} servers {len(used)} were used')
        if faults and faults.idle:
            outcome.mark_inconclusive(f'a fault met {faults.idle[0]}, which had no session')
    finally:
        scene.close()
    return [client.answers for client in scene.clients]


def compare(questions, alone, together, outcome):
    wrong = Counter()
    for client, (one, four) in enumerate(zip(alone, together)):
        for number, (expected, got) in enumerate(zip(one, four)):
            if 'lost' in expected:
                wrong[f'one server: {expected["lost"]}'] += 1
            elif 'lost' in got:
                wrong[f'four servers, client {client}: lost: {got["lost"]}'] += 1
            elif got['text'] != expected['text']:
                wrong[f'client {client}, answer {number}: {got["text"]!r}, of one server {expected["text"]!r}'] += 1
    for why, times in wrong.items():
        outcome.fail(f'{times} x {why}')
    lost = sum(wrong.values())
    outcome.figures['answers'] = sum(map(len, questions))
    outcome.hold('answers that are wrong or lost', (lost, lost, lost), 0, at_least=False)


def hits_of(clients):
    answers = [answer for client in clients for answer in client if 'lost' not in answer]
    return sum(answer['cached'] for answer in answers) / sum(answer['prompt'] for answer in answers)


def p99_over(alone, together):
    """The ratio of the percentiles over all gaps, with its interval by drawing clients."""
    def tails(clients):
        """How many gaps each client has, and the longest tenth of all with their clients, longest first."""
        gaps = sorted(((gap, number) for number, answers in enumerate(clients) for answer in answers for gap in answer.get('gaps', ())), reverse=True)
        counts = Counter(number for _, number in gaps)
        return counts, gaps[:max(1, len(gaps) // 10)]

    def p99(counts, tail, drawn):
        above = sum(counts[number] * times for number, times in drawn.items()) / 100
        for gap, number in tail:
            above -= drawn[number]
            if above < 0:
                return gap
        return tail[-1][0]

    sides = [tails(alone), tails(together)]
    clients = [number for number, answers in enumerate(alone) if any(answer.get('gaps') for answer in answers)]
    values = [p99(*side, Counter(clients)) for side in sides]
    draws = random.Random(1)
    ratios = []
    for _ in range(RESAMPLES):
        drawn = Counter(draws.choices(clients, k=len(clients)))
        ratios.append(p99(*sides[1], drawn) / p99(*sides[0], drawn))
    ratios.sort()
    return values, (values[1] / values[0], ratios[round(0.025 * (RESAMPLES - 1))], ratios[round(0.975 * (RESAMPLES - 1))])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--clients', type=int, default=64)
    parser.add_argument('--tenants', type=int, default=TENANTS)
    parser.add_argument('--answers', type=int, default=32, help='of each client, from one server and from four')
    parser.add_argument('--tokens', type=int, default=80, help='an answer has half as many to as many')
    parser.add_argument('--pace-ms', type=int, default=40)
    parser.add_argument('--hold-seconds', type=float, default=3, help='how long a killed server is away')
    parser.add_argument('--seed', type=int, default=1)
    parser.add_argument('--short', action='store_true', help='twelve clients of four tenants with eight answers each, and only what is wrong or lost')
    options = parser.parse_args()
    if options.short:
        options.clients, options.tenants, options.answers, options.pace_ms, options.hold_seconds = 12, 4, 8, 20, 1
    outcome = Outcome('cluster')
    if MISSING:
        outcome.mark_inconclusive(MISSING)
        return outcome.finish()
    questions = draw_questions(options)
    with tempfile.TemporaryDirectory() as folder:
        keys = Keys(folder, options.tenants)
        alone = run_scene(options, folder, 1, keys, questions, outcome)
        together = run_scene(options, folder, len(NAMES), keys, questions, outcome)
    compare(questions, alone, together, outcome)
    hits = [hits_of(alone), hits_of(together)]
    p99s, ratio = p99_over(alone, together)
    outcome.figures |= {'page_hits': [round(one, 4) for one in hits], 'p99_ms': [round(1000 * one, 2) for one in p99s]}
    if not options.short:
        pairs = list(zip(alone, together))
        outcome.hold('page hits of four servers, over one server\'s',
                     bootstrap(pairs, lambda drawn: hits_of([four for _, four in drawn]) / hits_of([one for one, _ in drawn])), LEAST_HITS)
        outcome.hold('p99 between tokens with four servers, over one server\'s', ratio, MOST_OF_P99, at_least=False)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
