#!/usr/bin/env python3
"""Compares a target and its draft in one process on this device with llama-server on the same two files, within one run.

  ./run peers pair --model TARGET.gguf --draft DRAFT.gguf [--prompts FILE.jsonl,..] [--count 3] [--rounds 7]

Ours: `outrider-edge serve` without a draft, with the draft as it decides by itself (model, look-up or both), by that model alone, and by it
with `--strategy sd`. The peer: plain, with the draft (`--peer-draft-max`, several) and
by n-grams. Each answers every prompt once in a round, in an order that is drawn, T = 0; a line that no prompt had before stands
in front, so that nobody finds its beginning in a cache, and ours begin anew in each round, as they look up in earlier answers. A time is that of a whole answer, the prompt included; a ratio is of
tokens a second, and a set's is that of its prompts' medians, multiplied. Text of the peer may differ, as its arithmetic does;
ours must not. The last line is one JSON object. Exit code: 0 if every bar is met, 1 if one is missed.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import math
import os
import random
import statistics
import sys
import time

import bars
from serving import ROOT, LlamaServer, StartedServer, free_port

# Tokens a second with the draft over plain decoding, and over the peer's best; the worst prompt of all; the first token.
OVER_PLAIN, OVER_PEER, NEVER_BELOW, FIRST_TOKEN = 1.15, 1.10, 0.98, 1.1
PLAIN, DRAFT, MODEL, SD = 'plain', 'with a draft', 'by the draft model', 'sd'


class OurEdge(StartedServer):
    def __init__(self, options, flags):
        port = free_port()
        super().__init__([os.path.join(ROOT, 'build/release/bin/outrider-edge'), 'serve', '--target', options.model,
                          '--threads', str(options.threads), '--port', str(port), '-c', '2048', '--state-dir', 'none', *flags], port)


def ask(server, text, max_tokens):
    """(seconds of the whole answer, seconds to its first text, tokens, the text)."""
    body = {'model': 'x', 'messages': [{'role': 'user', 'content': text}], 'max_tokens': max_tokens, 'temperature': 0, 'stream': True,
            'stream_options': {'include_usage': True}}
    link = http.client.HTTPConnection('127.0.0.1', server.port, timeout=300)
    begun = time.monotonic()
    link.request('POST', '/v1/chat/completions', json.dumps(body), {'Content-Type': 'application/json'})
    reply = link.getresponse()
    if reply.status != 200:
        sys.exit(f'pair.py: {server.process.args[0]}: HTTP {reply.status}: {reply.read()[:300]}')
    first, said, tokens = None, '', 0
    for line in reply:
        if not line.startswith(b'data: {'):
            continue
        event = json.loads(line[6:])
        for choice in event.get('choices', []):
            piece = choice.get('delta', {}).get('content') or ''
            if piece and first is None:
                first = time.monotonic() - begun
            said += piece
        tokens = (event.get('usage') or {}).get('completion_tokens', tokens)
    link.close()
    return time.monotonic() - begun, first, tokens, said


def contenders(options):
    draft = ['--model', options.draft]
    found = {('ours', PLAIN): ['--draft-source', 'none'], ('ours', DRAFT): draft, ('ours', MODEL): [*draft, '--draft-source', 'model'],
             ('ours', SD): [*draft, '--draft-source', 'model', '--strategy', 'sd'],
             ('peer', PLAIN): [], ('peer', 'n-grams'): ['--spec-type', 'ngram-simple', '--spec-ngram-simple-size-n', '3',
                                                        '--spec-ngram-simple-size-m', '8']}
    for most in options.peer_draft_max.split(','):
        found['peer', f'draft of {most}'] = ['--spec-type', 'draft-simple', '--model-draft', options.draft, '--spec-draft-n-max', most,
                                             '--threads-draft', str(options.threads)]
    return found


def measure(options, prompts):
    """{contender: {prompt: [(seconds, first token, tokens) of each round]}}."""
    flags = contenders(options)
    taken = {who: {at: [] for at in range(len(prompts))} for who in flags}
    texts, turns, servers = {}, random.Random(1), {}

    def begin(side, start):
        for who in (who for who in flags if who[0] == side):
            if who in servers:
                servers[who].__exit__()
            servers[who] = start(flags[who]).__enter__()
            ask(servers[who], 'Say hello.', 8)

    try:
        begin('peer', lambda more: LlamaServer(options, 1, more))
        for round_ in range(options.rounds):
            begin('ours', lambda more: OurEdge(options, more))
            for at, (_, text) in enumerate(prompts):
                for who in turns.sample(list(servers), len(servers)):
                    seconds, first, tokens, said = ask(servers[who], f'# {round_ + 1}.{at + 1}\n{text}', options.max_tokens)
                    taken[who][at].append((seconds, first, tokens))
                    if who[0] == 'ours' and texts.setdefault((round_, at), said) != said:
                        sys.exit(f'pair.py: prompt {at + 1} got another text {who[1]} than without a draft: a defect. Please report it')
            print(f'round {round_ + 1} of {options.rounds}', file=sys.stderr, flush=True)
    finally:
        for server in servers.values():
            server.__exit__()
    return taken


def ratio(numerator, denominator, prompts, value):
    """Returns the ratio of a value's medians over rounds, multiplied over prompts: (value, low, high)."""
    rounds = range(len(numerator[0]))
    pairs = [[(value(numerator[at][r]), value(denominator[at][r])) for at in prompts] for r in rounds]

    def of(chosen):
        logs = [math.log(statistics.median(row[i][0] for row in chosen) / statistics.median(row[i][1] for row in chosen))
                for i in range(len(prompts))]
        return math.exp(statistics.mean(logs))
    return bars.bootstrap(pairs, of)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True, help='the target, a GGUF file')
    parser.add_argument('--draft', required=True, help='its draft, a GGUF file')
    parser.add_argument('--llama-server', required=True, help='the program; ./run peers pair builds it')
    parser.add_argument('--peer-draft-max', default='4,8', help='the peer\'s lengths of a draft')
    parser.add_argument('--prompts', default='bench/prompts/humaneval.jsonl,bench/prompts/mbpp.jsonl', help='files; each is a set')
    parser.add_argument('--count', type=int, default=3, help='prompts of each file')
    parser.add_argument('--max-tokens', type=int, default=96)
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=7)
    options = parser.parse_args()
    prompts = []
    for file in options.prompts.split(','):
        with open(os.path.join(ROOT, file), encoding='utf-8') as lines:
            prompts += [(os.path.basename(file), json.loads(line)['prompt']) for _, line in zip(range(options.count), lines)]
    taken = measure(options, prompts)

    def speed(one):
        return one[2] / one[0]

    everywhere = list(range(len(prompts)))
    sets = {'all': everywhere} | {name: [at for at in everywhere if prompts[at][0] == name] for name, _ in prompts}
    plain = taken['ours', PLAIN]
    cases, held = {}, []

    def hold(name, figures, limit=None, at_most=False):
        value, low, high = figures
        met = None if limit is None or low is None else (high <= limit if at_most else low >= limit)
        held.append(met)
        cases[name] = {'value': round(value, 3), 'low': low and round(low, 3), 'high': high and round(high, 3), 'limit': limit, 'met': met}

    for name, chosen in sets.items():
        for who in contenders(options):
            if who != ('ours', PLAIN):
                limit = OVER_PLAIN if name == 'all' and who == ('ours', DRAFT) else None
                hold(f'{name}: {who[0]} {who[1]}, over ours plain', ratio(taken[who], plain, chosen, speed), limit)
    best = max((who for who in taken if who[0] == 'peer'), key=lambda who: ratio(taken[who], plain, everywhere, speed)[0])
    hold(f'ours {DRAFT}, over the peer\'s best ({best[1]})', ratio(taken['ours', DRAFT], taken[best], everywhere, speed), OVER_PEER)
    for at in everywhere:
        figures = ratio(taken['ours', DRAFT], plain, [at], speed)
        hold(f'prompt {at + 1} of {prompts[at][0]}: ours {DRAFT}, over ours plain', figures)
        held.append(figures[2] is None or figures[2] >= NEVER_BELOW)
    for who in (('ours', DRAFT), ('ours', MODEL), ('ours', SD)):
        hold(f'first text, ours {who[1]} over plain', ratio(taken[who], plain, everywhere, lambda one: one[1]), FIRST_TOKEN, True)
    for name, row in cases.items():
        bar = {None: '', True: f'{row["limit"]}: met', False: f'{row["limit"]}: NOT MET'}[row['met']]
        print(f'{name:72} {row["value"]:6.3f} x [{row["low"]}, {row["high"]}] {bar}', file=sys.stderr)
    rates = {f'{who[0]} {who[1]}': round(statistics.mean(statistics.median(speed(one) for one in taken[who][at]) for at in everywhere), 2)
             for who in taken}
    code = bars.code_of(held)
    print(json.dumps({'model': os.path.basename(options.model), 'draft': os.path.basename(options.draft), 'passed': code == 0,
                      'tokens_per_s': rates, 'cases': cases}))
    sys.exit(code)


if __name__ == '__main__':
    main()
