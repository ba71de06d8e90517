#!/usr/bin/env python3
"""How long does a form take that a server has not seen? It compiles each schema of bench/schemas when it is first asked,
and has it the second time; the difference of the two answers of one token is the compile.

  ./run model qwen-coder && ./run soak forms [--model MODEL]

The time grows with the model's vocabulary, here by default that of Qwen2.5 (151,936 tokens). Held: 0.1 s in the median,
0.5 s at the 95th percentile, 1 ms when it has the form. Inconclusive (exit code 4) without the model.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import statistics
import sys
import time
from pathlib import Path

from edges import ROOT, Server, free_port
from outcome import Outcome, bootstrap

MODEL = ROOT / 'models/qwen-coder/Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf'
TIMES = 5  # that a form is asked for again


def seconds(connection, **form):
    """How long an answer of one token takes."""
    began = time.monotonic()
    connection.request('POST', '/v1/completions', json.dumps({'prompt': 'Next:', 'max_tokens': 1, **form}), {'Content-Type': 'application/json'})
    answer = connection.getresponse()
    body = answer.read().decode(errors='replace')
    if answer.status != 200:
        raise ValueError(f'{form}: {answer.status} {body}')
    return time.monotonic() - began


def percentile95(samples):
    return sorted(samples)[int(0.95 * len(samples))]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--model', type=Path, default=MODEL)
    parser.add_argument('--schemas', type=Path, default=ROOT / 'bench/schemas/schemas.jsonl')
    options = parser.parse_args()
    outcome = Outcome('forms')
    if not options.model.exists():
        outcome.mark_inconclusive(f'{options.model} is not there. Remedy: ./run model qwen-coder')
        return outcome.finish()
    schemas = [json.loads(line)['schema'] for line in options.schemas.read_text(encoding='utf-8').splitlines()]
    port = free_port()
    with Server('--http-port', port, '--metrics-port', '0', model=options.model):
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=600)
        seconds(connection, regex='a')  # reads the vocabulary
        free = statistics.median(seconds(connection) for _ in range(4 * TIMES))
        first, again = [], []
        for schema in schemas:
            asked = [seconds(connection, json_schema=schema) for _ in range(1 + TIMES)]
            again.append(statistics.median(asked[1:]) - free)
            first.append(asked[0] - statistics.median(asked[1:]))
    outcome.figures |= {'forms': len(schemas), 'slowest_s': max(first)}
    outcome.hold('seconds of a compile, median', bootstrap(first, statistics.median), 0.1, at_least=False)
    outcome.hold('seconds of a compile, 95th percentile', bootstrap(first, percentile95), 0.5, at_least=False)
    outcome.hold('seconds that a known form adds to an answer, median', bootstrap(again, statistics.median), 0.001, at_least=False)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
