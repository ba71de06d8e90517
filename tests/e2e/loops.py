"""Loops in an answer's tokens, and answers of an elastic target by level.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json

LONGEST = 24  # tokens of a loop that nobody minds
PERIODS = 64
# Prompts of which level 40 of the demo target loops.
LOOPING = ('In view: silver bottle 20 degrees left at 2.1 m. Task: find it.',
           'There is a staircase 55 degrees left at 1.8 m, a hallway 5 degrees left at 5.7 m and an exit 10 degrees right at 3.5 m.\nTask: walk to '
           'the staircase.')


def longest_loop(tokens):
    """The most tokens in a row that only repeat those a period before, a whole round or more; 0: there are none."""
    longest = 0
    for period in range(1, min(PERIODS, len(tokens) - 1) + 1):
        repeated = 0
        for number in range(period, len(tokens)):
            repeated = repeated + 1 if tokens[number] == tokens[number - period] else 0
            if repeated >= period:
                longest = max(longest, repeated)
    return longest


def ask_level(address, prompt, tokens, **asked):
    """Returns the tokens of the answer, as texts, and what it says of its level."""
    connection = http.client.HTTPConnection(address, timeout=60)
    body = {'model': 'demo-target', 'messages': [{'role': 'user', 'content': prompt}], 'max_tokens': tokens, 'temperature': 0, 'logprobs': True,
            **asked}
    connection.request('POST', '/v1/chat/completions', json.dumps(body), {'Content-Type': 'application/json'})
    answer = json.loads(connection.getresponse().read())
    connection.close()
    if 'choices' not in answer:
        raise AssertionError(answer)
    return [each['token'] for each in answer['choices'][0]['logprobs']['content']], answer['level']


def times_of(told):
    """The part of what an answer says of its level that no two answers share."""
    return {name: told[name] for name in told if name.startswith('predicted_') or name.endswith('_ms')}
