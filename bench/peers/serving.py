#!/usr/bin/env python3
"""Compares outrider-server with llama-server under the same OpenAI clients, on one GGUF file, in turn within one run.

  ./run peers serving --model FILE.gguf [--clients 1,4,8,16] [--threads 2] [--rounds 7]

`outrider-bench load` is the client of both. Neither keeps prompts of earlier requests, which both would find again. A ratio
is ours over the peer's, of the medians of all rounds, with its 95 % interval: tokens a second (over 1 we are faster) and the
95th percentile of the time per output token (below 1 we are). The last line is one JSON object. Exit code: 0 if every bar
(bars.py) is met, 1 if one is missed, 4 inconclusive.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request

import bars

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
START_SECONDS = 300
CONTEXT = 2048  # of each of the peer's slots
ENDS_WITH_US = ['setpriv', '--pdeathsig', 'KILL']


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class StartedServer:
    """A server of OpenAI's routes on a port of its own, ready when __enter__ returns."""

    def __init__(self, command, port):
        self.port = port
        self.url = f'http://127.0.0.1:{port}'
        self.process = subprocess.Popen([*ENDS_WITH_US, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        give_up = time.monotonic() + START_SECONDS
        while True:
            try:
                urllib.request.urlopen(f'{self.url}/health', timeout=5).read()
                return self
            except OSError:
                time.sleep(0.2)
            if self.process.poll() is not None or time.monotonic() > give_up:
                self.process.kill()
                sys.exit(f'{os.path.basename(sys.argv[0])}: a server did not become ready. Remedy: run it by hand: {self.process.args}')

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


class LlamaServer(StartedServer):
    """A llama-server with a slot for each client."""

    def __init__(self, options, clients, flags):
        port = free_port()
        super().__init__([options.llama_server, '--model', options.model, '--host', '127.0.0.1', '--port', str(port),
                          '--parallel', str(clients), '--ctx-size', str(CONTEXT * clients), '--threads', str(options.threads),
                          '--threads-batch', str(options.threads), '--cont-batching', '--no-cache-prompt', '--cache-ram', '0',
                          *flags], port)


def measure(options, clients):
    """The ratios of a load of so many clients, and the figures of both sides."""
    with LlamaServer(options, clients, options.peer_flags.split()) as peer:
        command = [*ENDS_WITH_US, os.path.join(ROOT, 'build/release/bin/outrider-bench'), 'load', '--model', options.ours or options.model,
                   '--dtype', options.dtype, '--threads', str(options.threads), '--openai-clients', str(clients),
                   '--against-url', peer.url, '--num-prompts', str(clients * options.requests), '--ignore-eos',
                   '--max-tokens', str(options.max_tokens), '--rounds', str(options.rounds), '--prompts', options.prompts]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f'serving.py: outrider-bench load ended with exit code {done.returncode}; its messages are above')
    return json.loads(done.stdout.splitlines()[-1])


def show(cases):
    for name, row in cases.items():
        bar = {None: '', True: f'{row["side"]} {row["limit"]}: met', False: f'{row["side"]} {row["limit"]}: NOT MET'}[row['met']]
        print(f'{name:26} {row["value"]:6.3f} x [{row["low"]}, {row["high"]}] {bar}', file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', required=True, help='GGUF file')
    parser.add_argument('--ours', help='the same weights for Outrider, if in another file')
    parser.add_argument('--llama-server', required=True, help='the program; ./run peers serving builds it')
    parser.add_argument('--peer-flags', default='', help='more of its flags, in one word')
    parser.add_argument('--clients', default='1,4,8,16')
    parser.add_argument('--requests', type=int, default=2, help='of each client, in each round')
    parser.add_argument('--max-tokens', type=int, default=64)
    parser.add_argument('--prompts', default=os.path.join(ROOT, 'bench/prompts'))
    parser.add_argument('--dtype', default='auto', help='how Outrider computes')
    parser.add_argument('--threads', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=7)
    options = parser.parse_args()
    measured = {int(clients): measure(options, int(clients)) for clients in options.clients.split(',')}
    cases, code = bars.judge_serving({clients: figures['ratios'] for clients, figures in measured.items()})
    show(cases)
    print(json.dumps({'model': os.path.basename(options.model), 'passed': code == 0, 'threads': options.threads,
                      'max_tokens': options.max_tokens, 'cases': cases,
                      'loads': {clients: figures['phases'] for clients, figures in measured.items()}}))
    sys.exit(code)


if __name__ == '__main__':
    main()
