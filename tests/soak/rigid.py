#!/usr/bin/env python3
"""Text that a form forces, drafted: how much faster are answers to schemas that leave little to choose?

  ./run model qwen-coder && ./run soak rigid [--target FILE --draft FILE] [--rounds 5]

A target on this device answers robot schemas at T 0 in four ways, in turn: plain decoding and the default with a draft
model, each without and with drafts of what the form forces (`--draft-at edge` is without). Prompts are in the cache, so
a time is that of the answer. Held: all ways say the same, plain decoding becomes 1.2 times as fast, drafts never slower
than 0.95. Inconclusive (exit code 4) without the models.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import http.client
import json
import math
import random
import statistics
import sys
import time
from pathlib import Path

from edges import ROOT, Edge, free_port, wait_until_served
from outcome import Outcome, bootstrap

QWEN = ROOT / 'models/qwen-coder'
LEAST_GAIN, LEAST_BESIDE_DRAFTS = 1.2, 0.95
PLAIN, PLAIN_FORCED, DRAFT, DRAFT_FORCED = 'plain', 'plain, forced', 'draft', 'draft, forced'
WAYS = {PLAIN: ('--strategy', 'ar', '--draft-at', 'edge'), PLAIN_FORCED: ('--strategy', 'ar'),
        DRAFT: ('--draft-at', 'edge'), DRAFT_FORCED: ()}
NUMBER, FLAG = {'type': 'integer', 'minimum': 0, 'maximum': 999}, {'type': 'boolean'}


def record(**properties):
    return {'type': 'object', 'properties': properties, 'required': list(properties), 'additionalProperties': False}


SCHEMAS = (
    record(position=record(x=NUMBER, y=NUMBER, z=NUMBER), heading_degrees=NUMBER, gripper_closed=FLAG),
    record(battery_percent=NUMBER, temperature_celsius=NUMBER, charging=FLAG, emergency_stop=FLAG, motors_enabled=FLAG),
    record(action={'enum': ['move_forward', 'turn_left', 'turn_right', 'stop']}, distance_centimetres=NUMBER, confidence_percent=NUMBER),
    record(target_object={'enum': ['red cup', 'blue box', 'charger']}, is_reachable=FLAG, approach_angle_degrees=NUMBER),
    record(joint_angles=record(shoulder=NUMBER, elbow=NUMBER, wrist=NUMBER, gripper=NUMBER), velocity_percent=NUMBER),
)
PROMPTS = ('The robot stands 2 m before the charger at 40 % battery. Report as JSON: ', 'In view: red cup 20 degrees left at 2.1 m. As JSON: ')


def answer(connection, prompt, schema):
    """(seconds, the text)."""
    began = time.monotonic()
    connection.request('POST', '/v1/completions', json.dumps({'prompt': prompt, 'json_schema': schema, 'max_tokens': 200, 'temperature': 0}),
                       {'Content-Type': 'application/json'})
    response = connection.getresponse()
    body = response.read().decode(errors='replace')
    took = time.monotonic() - began
    if response.status != 200:
        sys.exit(f'rigid.py: {response.status} {body}')
    return took, json.loads(body)['choices'][0]['text']


def gain(pairs):
    """The geometric mean of before over after."""
    return math.exp(statistics.fmean(math.log(before / after) for before, after in pairs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--target', type=Path, default=QWEN / 'Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf')
    parser.add_argument('--draft', type=Path, default=QWEN / 'Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf')
    parser.add_argument('--rounds', type=int, default=5)
    options = parser.parse_args()
    outcome = Outcome('rigid')
    if missing := [path for path in (options.target, options.draft) if not path.exists()]:
        outcome.mark_inconclusive(f'{missing[0]} is not there. Remedy: ./run model qwen-coder')
        return outcome.finish()
    edges, connections = [], {}
    for way, flags in WAYS.items():
        port = free_port()
        draft = ('--model', options.draft) if way in (DRAFT, DRAFT_FORCED) else ()
        edges.append(Edge('serve', '--target', options.target, *draft, *flags, '-c', '512', '--port', port, '--state-dir', 'none'))
        wait_until_served(f'http://127.0.0.1:{port}')
        connections[way] = http.client.HTTPConnection('127.0.0.1', port, timeout=600)
    turns, pairs = random.Random(1), {DRAFT: [], PLAIN: []}
    for round_ in range(options.rounds + 1):  # the first fills the cache
        for prompt in PROMPTS:
            for schema in SCHEMAS:
                found = {way: answer(connections[way], prompt, schema) for way in turns.sample(list(WAYS), len(WAYS))}
                if len({text for _, text in found.values()}) > 1:
                    outcome.fail(f'{schema}: {found}')
                if round_ > 0:
                    pairs[PLAIN].append((found[PLAIN][0], found[PLAIN_FORCED][0]))
                    pairs[DRAFT].append((found[DRAFT][0], found[DRAFT_FORCED][0]))
    for edge in edges:
        edge.interrupt()
        edge.wait()
    outcome.figures |= {'target': options.target.name, 'draft': options.draft.name, 'answers': len(pairs[PLAIN]),
                        'seconds': {way: statistics.fmean(pair[side] for pair in pairs[kind])
                                    for way, kind, side in ((PLAIN, PLAIN, 0), (PLAIN_FORCED, PLAIN, 1), (DRAFT, DRAFT, 0), (DRAFT_FORCED, DRAFT, 1))}}
    outcome.hold('plain decoding, times as fast with forced text drafted', bootstrap(pairs[PLAIN], gain), LEAST_GAIN)
    outcome.hold('with a draft model, times as fast with forced text drafted', bootstrap(pairs[DRAFT], gain), LEAST_BESIDE_DRAFTS)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
