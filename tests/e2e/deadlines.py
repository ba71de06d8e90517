"""The robot's task asked with a deadline: what an edge expects by then, and what it says in the end.

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import re
import time
from pathlib import Path
from typing import NamedTuple, Optional

ACTION = re.compile(r'\nAction: (stop|(?:turn left|turn right|move forward) \((?:small|medium|large)\))$')


class RobotAnswer(NamedTuple):
    expected: Optional[str]  # the action that was there by the deadline; None: no text that parses
    said_s: float            # when it came, after the request was sent
    final: Optional[str]     # the verified action
    took_s: float            # when the whole answer had come


def robot_prompts(file):
    """Returns the prompts of a JSONL file that outrider-train data-robot wrote."""
    return [json.loads(line)['prompt'] for line in Path(file).read_text(encoding='utf-8').splitlines()]


def robot_action_by(port, prompt, time_ms):
    """Asks the edge that serves at this port; an answer that is whole by its deadline is what it expected."""
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
    began = time.monotonic()
    connection.request('POST', '/v1/chat/completions', json.dumps(
        {'messages': [{'role': 'user', 'content': prompt}], 'stream': True, 'slo': {'time_ms': time_ms, 'unverified': 'allow'}}),
        {'Content-Type': 'application/json'})
    text, expected, said_s = '', None, None
    for line in connection.getresponse():
        if not line.startswith(b'data: {'):
            continue
        event = json.loads(line[6:])
        text += ''.join(choice.get('delta', {}).get('content') or '' for choice in event['choices'])
        continuation = (event.get('unverified') or {}).get('continuation')
        if continuation is not None:
            expected, said_s = text + continuation, time.monotonic() - began
    took_s = time.monotonic() - began
    connection.close()
    if expected is None:
        expected, said_s = text, took_s
    return RobotAnswer(_action(expected), said_s, _action(text), took_s)


def _action(text):
    found = ACTION.search(text)
    return found[1] if found else None
