#!/usr/bin/env python3
"""The cost of the service around decoding, with the real programs in turn: `outrider-edge serve` compared with the
same answer's time inside it, TLS compared with plaintext over gRPC and over HTTP, the processor time of /metrics, and
what traces add from a verdict to the next pass (`outrider-bench loopback`, every session traced, or one in a hundred).

  ./run soak overhead [--rounds 20] [--https-model FILE | --traces [--before OUTRIDER-BENCH]]

The target decodes as fast as this machine can, because long passes would hide the costs. Times are medians
of paired differences, with their 95 % interval; a bar is compared with the pessimistic bound.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import random
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from edges import BIN, CLEAN_ENVIRONMENT, DRAFT, FORGETFUL, ROOT, TARGET, Server, StampedEdge, edge, ending_with_us, free_port, make_certificate, wait_until_served
from outcome import Outcome, median
from streamed import pieces
from traces_test import HttpCollector

PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
TOKENS = 100  # through HTTP
READINGS = 100  # of /metrics in a sample
ANSWERS = 10  # of a sample, to resolve a tenth of a millisecond
ANSWER = ('run', '--strategy', 'ar', '--tokenizer', DRAFT, '-p', PROMPT, '-n', TOKENS, '--temp', '1', '--json')
MOST_MS_TO_FIRST = 2.0
MOST_OF_TPOT = 1.03
MOST_TLS_MS = 0.2
MOST_OF_METRICS = 0.01
MOST_OF_ROUND_OFF, MOST_OF_ROUND_ON = 1.01, 1.02


def streamed(port, seed):
    """Seconds from the request to the first text and to the last, and the program's own figures."""
    begin, times, figures = time.monotonic(), [], None
    for when, text, told in pieces(port, prompt=PROMPT, max_tokens=TOKENS, temperature=1, seed=seed):
        if text:
            times.append(when - begin)
        figures = told or figures
    return times[0], times[-1], figures


def measure_serve(rounds, outcome):
    with Server() as server:
        port = free_port()
        serving = StampedEdge('serve', '--model', DRAFT, '--server', server.address, '--port', port, '--strategy', 'ar')
        wait_until_served(f'http://127.0.0.1:{port}')
        firsts, ratios = [], []
        for seed in range(rounds + 2):
            first, last, figures = streamed(port, seed)
            if seed < 2:
                continue  # warm-up
            firsts.append(first * 1e3 - figures['ttft_ms'])
            inside = figures['tpot_ms'] * (figures['completion_tokens'] - 1)
            ratios.append((last - first) * 1e3 / inside)
        serving.process.terminate()
        serving.process.wait()
    outcome.hold('ms that serve adds to the first token', median(firsts), MOST_MS_TO_FIRST, at_least=False)
    outcome.hold('time between tokens through serve, over inside it', median(ratios), MOST_OF_TPOT, at_least=False)


def tpot(server, *flags):
    """The time per output token of several answers, ms."""
    spent = tokens = 0
    for seed in range(ANSWERS):
        got = edge(*ANSWER, '--server', server, '--seed', seed, *flags)
        if got.code != 0:
            sys.exit(got.err)
        spent += got.json['tpot_ms'] * (len(got.json['ids']) - 1)
        tokens += len(got.json['ids']) - 1
    return spent / tokens


def measure_tls(rounds, outcome):
    with tempfile.TemporaryDirectory() as folder:
        cert, key = make_certificate(folder)
        with Server() as plain, Server('--tls-cert', cert, '--tls-key', key) as shielded:
            differences = []
            for number in range(rounds + 1):
                pair = [lambda: tpot(plain.address), lambda: tpot(shielded.address, '--tls-ca', cert)]
                order = (0, 1) if number % 2 else (1, 0)
                times = {which: pair[which]() for which in order}
                if number:
                    differences.append(times[1] - times[0])
    outcome.hold('ms that TLS adds to a pass', median(differences), MOST_TLS_MS, at_least=False)


def http_time(port, tls, seed):
    """The seconds from the first text of a server's HTTP answer to the last, and the tokens of that time."""
    times = [when for when, text, _ in pieces(port, tls, prompt=PROMPT, max_tokens=TOKENS, temperature=1, seed=seed, ignore_eos=True) if text]
    return times[-1] - times[0], len(times) - 1


def http_tpots(ports, seeds):
    """The time per output token of each port, s, by answers in turn."""
    spent = {port: [0, 0] for port in ports}
    for seed in seeds:
        for port in list(ports) if seed % 2 else list(ports)[::-1]:
            spent[port] = [total + one for total, one in zip(spent[port], http_time(port, ports[port], seed))]
    return [seconds / tokens for seconds, tokens in spent.values()]


def measure_https(rounds, outcome, model=TARGET):
    """Without drafts and earlier texts, so that each token is one pass and one event."""
    plain_port, port = free_port(), free_port()
    flags = ('--draft-source', 'none', *FORGETFUL)
    with tempfile.TemporaryDirectory() as folder:
        cert, key = make_certificate(folder)
        trust = ssl.create_default_context(cafile=cert)
        with (Server('--http-port', plain_port, *flags, model=model),
              Server('--http-port', port, '--tls-cert', cert, '--tls-key', key, *flags, model=model)):
            ratios, added = [], []
            for number in range(rounds + 1):
                times = http_tpots({plain_port: None, port: trust}, range(number * ANSWERS, (number + 1) * ANSWERS))
                if number:
                    ratios.append(times[1] / times[0])
                    added.append(1e6 * (times[1] - times[0]))
    outcome.figures['https_us_a_token'] = [round(one, 1) for one in median(added)]
    outcome.hold('time between tokens over HTTPS, over plaintext', median(ratios), MOST_OF_TPOT, at_least=False)


def cpu_seconds(process):
    """Processor time of the process so far, with its system calls."""
    fields = Path(f'/proc/{process.pid}/stat').read_text(encoding='ascii').rsplit(')', 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')


def measure_metrics(rounds, outcome):
    """Uses processor time: the time of one reading is far below the variation of passes."""
    port = free_port()
    with Server('--metrics-port', port) as server:
        tpot(server.address)  # all series have values
        costs = []
        for _ in range(rounds):
            before = cpu_seconds(server.process)
            for _ in range(READINGS):
                urllib.request.urlopen(f'http://127.0.0.1:{port}/metrics', timeout=10).read()
            costs.append((cpu_seconds(server.process) - before) / READINGS)
    outcome.hold('share of a core that /metrics takes, read once a second', median(costs), MOST_OF_METRICS, at_least=False)


def round_ms(environment=(), bench=BIN / 'outrider-bench'):
    """From a verdict to the next pass, in the median of two thousand rounds without work of a model."""
    done = subprocess.run(ending_with_us(bench, 'loopback'), capture_output=True, text=True, check=False, env={**CLEAN_ENVIRONMENT, **dict(environment)})
    if done.returncode != 0:
        sys.exit(done.stdout + done.stderr)
    return json.loads(done.stdout.splitlines()[-1])['p50_ms']


def measure_traces(rounds, outcome, before=None):
    """Without an endpoint, with one for one session in a hundred and for all, and by a program of before, in a new order each time."""
    collector = HttpCollector()

    def tracing(ratio):
        return {'OTEL_EXPORTER_OTLP_ENDPOINT': f'http://127.0.0.1:{collector.port}', 'OTEL_EXPORTER_OTLP_PROTOCOL': 'http/protobuf',
                'OTEL_TRACES_SAMPLER': 'traceidratio', 'OTEL_TRACES_SAMPLER_ARG': str(ratio)}.items()
    ways = {'off': round_ms, 'one in a hundred': lambda: round_ms(tracing(0.01)), 'all': lambda: round_ms(tracing(1))}
    if before:
        ways['before'] = lambda: round_ms(bench=before)
    times = {way: [] for way in ways}
    chance = random.Random(1)
    for number in range(rounds + 1):
        for way in chance.sample(list(ways), len(ways)):
            took = ways[way]()
            if number:
                times[way].append(took)
    if not collector.named('outrider-server', 'generate'):
        outcome.mark_inconclusive('no span came')
    collector.close()

    def ratio(way, other):
        return median([a / b for a, b in zip(times[way], times[other])])
    outcome.figures['every_session_traced_over_none'] = [round(one, 3) for one in ratio('all', 'off')]
    outcome.hold('from a verdict to the next pass, one session in a hundred traced, over none', ratio('one in a hundred', 'off'),
                 MOST_OF_ROUND_ON, at_least=False)
    if before:
        outcome.hold('from a verdict to the next pass, without traces, over the program before', ratio('off', 'before'),
                     MOST_OF_ROUND_OFF, at_least=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--rounds', type=int, default=20)
    parser.add_argument('--https-model', help='a target: only HTTPS, compared with plaintext, and with it')
    parser.add_argument('--traces', action='store_true', help='only what traces add')
    parser.add_argument('--before', help='with --traces: an outrider-bench without them, beside its programs')
    options = parser.parse_args()
    outcome = Outcome('overhead')
    if options.traces:
        measure_traces(options.rounds, outcome, options.before)
        return outcome.finish()
    if options.https_model:
        measure_https(options.rounds, outcome, options.https_model)
        return outcome.finish()
    measure_serve(options.rounds, outcome)
    measure_tls(options.rounds, outcome)
    measure_https(options.rounds, outcome)
    measure_metrics(options.rounds, outcome)
    measure_traces(options.rounds, outcome)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
