#!/usr/bin/env python3
"""Drafts for the real llama-cpp-python server over emulated links, and compares with that server alone, within one run.

  ./run peers stock --model TARGET.gguf --draft DRAFT [--profiles delay=0ms,wifi,lte,starlink] [--tokens 32]

The server alone: one request for the whole answer, over the same link, timed without its prompt by a request of one token before.
The edge: plain (`--strategy ar`), sd with rounds of four, and as it decides by itself (mirror). Each answers every prompt in turn. A text
counts as the same if it is the server's own. `doctor` says first whether drafting pays. The last line is one JSON object.
Exit code: 0, or 1 if a text differs, or if drafting is slower than plain where `doctor` says that it pays.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import subprocess
import sys
import time
import urllib.request

from serving import ROOT, free_port

BIN = os.path.join(ROOT, 'build/release/bin')
PROMPTS = ('The three primary colours are', 'A robot that tidies a kitchen first has to', 'Water boils at 100 degrees, and it')
WAYS = {'edge, plain': ['--strategy', 'ar'], 'edge, sd': ['--strategy', 'sd', '--spec-draft-n-max', '4'], 'edge, as it decides': []}
START_SECONDS = 120


def ending_with_us(*command):
    look = '[ "$PPID" = "$0" ] && exec "$@"'
    return ['setpriv', '--pdeathsig', 'KILL', 'sh', '-c', look, str(os.getpid()), *map(str, command)]


class StockServer:
    def __init__(self, options):
        self.port = free_port()
        self.process = subprocess.Popen(
            ending_with_us(options.python, '-m', 'llama_cpp.server', '--model', options.model, '--port', self.port, '--n_ctx', options.context,
                           '--logits_all', 'true', '--verbose', 'false', '--n_threads', options.threads),
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE if options.quiet else None)
        give_up = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f'http://127.0.0.1:{self.port}/v1/models', timeout=5).read()
                return
            except OSError:
                if time.monotonic() > give_up or self.process.poll() is not None:
                    sys.exit('stock.py: the server did not start')
                time.sleep(0.2)


class Link:
    def __init__(self, port, profile):
        self.process = subprocess.Popen(ending_with_us(os.path.join(BIN, 'outrider-link'), '--to', f'127.0.0.1:{port}', '--profile', profile),
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().split()[1]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait()


def alone(address, prompt, tokens):
    """(seconds of a request, its text, its number of tokens)."""
    # The server's own default is a penalty of 1.1.
    body = {'prompt': prompt, 'max_tokens': tokens, 'temperature': 0, 'repeat_penalty': 1.0}
    asked = urllib.request.Request(f'http://{address}/v1/completions', json.dumps(body).encode(), {'Content-Type': 'application/json'})
    begun = time.monotonic()
    reply = json.loads(urllib.request.urlopen(asked, timeout=600).read())
    return time.monotonic() - begun, reply['choices'][0]['text'], reply['usage']['completion_tokens']


def edge(options, address, *arguments):
    command = [os.path.join(BIN, 'outrider-edge'), *arguments, '--server', address, '--server-api', 'llama-cpp', '--model', options.draft,
               '--state-dir', 'none', '--threads', str(options.threads), '--json']
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'stock.py: {" ".join(command)}: {done.stderr[-2000:]}')
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure(options, server, profile):
    """The figures of one link."""
    found = {'profile': profile, 'differing': {way: 0 for way in WAYS}}
    seconds, tokens = {way: 0.0 for way in ('server alone', *WAYS)}, {way: 0 for way in ('server alone', *WAYS)}
    with Link(server.port, profile) as link:
        doctor = edge(options, link.address, 'doctor', '-p', PROMPTS[0], '--chat-template', 'none')
        found['doctor'] = {'draft': doctor['advice']['draft'], **doctor['requests']}
        for prompt in PROMPTS:
            first, _, _ = alone(link.address, prompt, 1)
            whole, text, count = alone(link.address, prompt, options.tokens)
            seconds['server alone'] += whole - first
            tokens['server alone'] += count - 1
            for way, flags in WAYS.items():
                record = edge(options, link.address, 'run', '--raw', '-p', prompt, '-n', str(options.tokens), *flags)
                seconds[way] += record['decode_ms'] / 1e3
                tokens[way] += record['completion_tokens'] - record['first_verdict']['tokens']
                found['differing'][way] += record['text'] != text
    found['tokens_per_s'] = {way: tokens[way] / seconds[way] for way in seconds}
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n', 1)[0])
    parser.add_argument('--python', default=os.path.join(ROOT, '.venv-peers/bin/python'), help='with llama-cpp-python[server]')
    parser.add_argument('--model', required=True)
    parser.add_argument('--draft', required=True)
    parser.add_argument('--profiles', default='delay=0ms,wifi,lte,starlink')
    parser.add_argument('--tokens', type=int, default=32)
    parser.add_argument('--context', type=int, default=512)
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument('--quiet', action='store_true', help='without what the server prints')
    options = parser.parse_args()
    server, missed, results = StockServer(options), False, []
    for profile in options.profiles.split(','):
        found = measure(options, server, profile)
        results.append(found)
        rates = found['tokens_per_s']
        own = rates['edge, as it decides'] / rates['server alone']
        print(f'{profile}: ' + ', '.join(f'{way} {rate:.3g} tokens/s' for way, rate in rates.items()) +
              f'; as it decides over alone {own:.2f}; doctor: {"draft" if found["doctor"]["draft"] else "do not draft"}', flush=True)
        missed |= any(found['differing'].values()) or (found['doctor']['draft'] and own < 1)
    print(json.dumps({'model': os.path.basename(options.model), 'tokens': options.tokens, 'links': results}))
    sys.exit(1 if missed else 0)


if __name__ == '__main__':
    main()
