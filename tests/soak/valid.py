#!/usr/bin/env python3
"""Does every answer to a JSON schema fit it? Both programs answer the schemas of bench/schemas with free choices (T 1),
and a validator of others, the Python package jsonschema, reads each answer.

  ./run soak valid [--answers 5000] [--clients 8] [--max-tokens 480]

Each request goes to outrider-server, and to outrider-edge serve in front of it, which drafts; both say the same.
Held: all complete answers are valid. Answers that --max-tokens cuts are counted apart: they must be JSON that is not
complete. Inconclusive (exit code 4) if fewer than a quarter are complete, or nothing that a draft proposed stood.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import random
import statistics
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

from edges import DRAFT, ROOT, TARGET, Edge, Server, free_port, wait_until_served
from outcome import Outcome, bootstrap

try:
    import jsonschema
except ImportError:
    sys.exit('valid.py: the Python package jsonschema is not there. Remedy: ./run soak valid, which runs it in .venv-tests')

SCENES = ('In view: red cup 20 degrees left at 2.1 m. Task: bring the red cup.', 'Battery at 12 %. Task: what now?',
          'In view: nothing. Task: find the charger.')
LEAST_COMPLETE = 0.25


def read_schemas(path):
    with open(path, encoding='utf-8') as lines:
        return [json.loads(line)['schema'] for line in lines]


def faults_of(validator, text):
    """Why a complete answer is not one of the schema's; nothing: it is."""
    try:
        value = json.loads(text)
    except ValueError as error:
        return f'no JSON: {error}'
    error = next(validator.iter_errors(value), None)
    return error and f'{error.json_path}: {error.message}'


class Asked:
    """One request to a program: how its answer ended, and the text."""

    def __init__(self, port, body):
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=600)
        connection.request('POST', '/v1/completions', json.dumps(body), {'Content-Type': 'application/json'})
        response = connection.getresponse()
        answer = response.read().decode(errors='replace')
        connection.close()
        self.end, self.text = f'{response.status} {answer}', ''
        if response.status == 200:
            choice, = json.loads(answer)['choices']
            self.end, self.text = choice['finish_reason'], choice['text']


class Answers:
    """The fate of all answers."""

    def __init__(self, schemas, options, outcome):
        self.schemas, self.options, self.outcome = schemas, options, outcome
        self.validators = [jsonschema.Draft202012Validator(schema, format_checker=jsonschema.FormatChecker())
                           for schema in schemas]
        self.ends = {'stop': 0, 'length': 0}
        self.valid = []  # of each complete answer: 1 or 0
        self.lock = threading.Lock()

    def ask(self, number, ports):
        """Asks each program the same."""
        which = number % len(self.schemas)
        body = {'prompt': random.Random(number).choice(SCENES), 'json_schema': self.schemas[which], 'temperature': 1,
                'seed': number, 'max_tokens': self.options.max_tokens}
        asked = [Asked(port, body) for port in ports]
        with self.lock:
            for one in asked:
                self.judge(which, number, one)
            if len({(one.end, one.text) for one in asked}) > 1:
                self.outcome.fail(f'schema {which}, seed {number}: {[(one.end, one.text) for one in asked]}')

    def judge(self, which, number, answer):
        where = f'schema {which}, seed {number}'
        if answer.end not in self.ends:
            return self.outcome.fail(f'{where}: {answer.end}')
        self.ends[answer.end] += 1
        fault = faults_of(self.validators[which], answer.text)
        if answer.end == 'stop':
            self.valid.append(0 if fault else 1)
            if fault:
                self.outcome.fail(f'{where}: {answer.text!r}: {fault}')
        if answer.end == 'length' and not (fault or '').startswith('no JSON'):
            self.outcome.fail(f'{where}: cut, and yet complete: {answer.text!r}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--answers', type=int, default=5000)
    parser.add_argument('--clients', type=int, default=8)
    parser.add_argument('--max-tokens', type=int, default=480)
    parser.add_argument('--schemas', default=ROOT / 'bench/schemas/schemas.jsonl')
    parser.add_argument('--target', default=TARGET)
    parser.add_argument('--draft', default=DRAFT)
    options = parser.parse_args()
    outcome = Outcome('valid')
    schemas = read_schemas(options.schemas)
    answers = Answers(schemas, options, outcome)
    ports = free_port(), free_port()
    with Server('--http-port', ports[0], '--metrics-port', '0', '--max-concurrent-sessions', options.clients + 1,
                model=options.target) as server:
        edge = Edge('serve', '--model', options.draft, '--server', server.address, '--port', ports[1])
        wait_until_served(f'http://127.0.0.1:{ports[1]}')
        with ThreadPoolExecutor(options.clients) as clients:
            list(clients.map(lambda number: answers.ask(number, ports), range(options.answers // 2)))
        drafted = server.metric('server_draft_tokens_accepted_total')
        edge.interrupt()
        edge.wait()
    count = sum(answers.ends.values())
    outcome.figures |= {'schemas': len(schemas), 'answers': count, 'cut': answers.ends['length'],
                        'drafted_tokens_accepted': drafted}
    if drafted == 0:
        outcome.mark_inconclusive('no drafted token stood')
    if len(answers.valid) < max(1, LEAST_COMPLETE * count):
        outcome.mark_inconclusive('hardly an answer was complete')
    else:
        outcome.hold('part of complete answers that is valid', bootstrap(answers.valid, statistics.fmean), 1)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
