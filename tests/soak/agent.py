#!/usr/bin/env python3
"""Agents that act by tools: robot tasks in a simulated scene, and BFCL's questions by its own judges, asked by the openai
client in several ways of answering, in turn.

  ./run soak agent [--ways plain,drafts] [--tasks 40] [--bfcl WHEEL --questions 10] [--target FILE --draft FILE]

Ways: server is outrider-server's own routes behind the link; plain and drafts are outrider-edge serve behind the link,
without any draft and with all; device and device-plain have the target on the device, and no link; peer, peer-draft and peer-ngram are llama-server,
which `./run peers serving` builds, on the same files, without drafts, with the draft and with n-grams. BFCL's data is in the
wheel that `pip download --no-deps bfcl-eval==2026.3.23` fetches; categories: simple_python, multiple, parallel,
parallel_multiple, irrelevance, and multi_turn_base if named (long; its tasks on MathAPI need the package mpmath).
Held: every way of ours makes the same calls, each call is of a tool and fits its parameters, and drafts make a robot task
1.3 times as fast as plain; beside peers, success is at most 3 points below each, and a task 1.1 times as fast as the best. An answer that --max-tokens cut is no call, and counted apart.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import copy
import json
import math
import os
import random
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from bfcl import CATEGORIES, TURNS, Bfcl
from edges import DRAFT, ROOT, TARGET, Edge, Server, free_port, new_key, wait_until_served
from outcome import Outcome, bootstrap
from robot_scene import INSTRUCTIONS, TOOLS, tasks
from tcp_link import TcpLink

sys.path.insert(0, str(ROOT / 'bench/peers'))
from serving import StartedServer  # noqa: E402

try:
    import jsonschema
    import openai
except ImportError as missing:
    sys.exit(f'agent.py: {missing}. Remedy: ./run soak agent, which runs it in .venv-tests')

LEAST_GAIN, LEAST_OVER_PEER = 1.3, 1.1
LEAST_SUCCESS = -0.03  # beside a peer's
NAME = 'robot'   # of the model
STEPS = 8        # calls of a robot task
TURN_STEPS = 12  # of a turn of BFCL's
PEER_CONTEXT = 8192
PEERS = {'peer': (), 'peer-draft': ('--spec-type', 'draft-simple', '--spec-draft-n-max', '3'), 'peer-ngram': ('--spec-type', 'ngram-simple')}
SHOWN_CALL = '{}\\"name\\": <function-name>, \\"arguments\\": <args-json-object>{}'
WAYS = {**PEERS, 'server': None, 'plain': ('--strategy', 'ar', '--draft-at', 'edge'), 'drafts': (), 'device-plain': ('--strategy', 'ar', '--draft-at', 'edge'), 'device': ()}


class Programs:
    """The programs of the ways of answering: each is a tenant of its own, so none drafts from another's answers."""

    def __init__(self, options, folder):
        self.folder, self.options, self.edges, self.bases, self.peers = Path(folder), options, [], {}, []
        if not options.chat_template and any(way in PEERS for way in options.ways):
            options.chat_template = self.with_single_braces()
        self.flags = ('--served-model-name', NAME, *(('--chat-template', options.chat_template) if options.chat_template else ()))
        self.tokens, http = self.folder / 'tokens', free_port()
        self.keys = {way: new_key(self.tokens, way) for way in options.ways}
        self.server = Server('--http-port', http, '--token-file', self.tokens, *self.flags, model=options.target)
        self.links = [TcpLink(self.server.port), TcpLink(http)]
        for link in self.links:
            link.become(options.link)
        for way in options.ways:
            self.bases[way] = f'http://{self.links[1].address}' if way == 'server' else self.peer(way) if way in PEERS else self.edge(way)

    def edge(self, way):
        port, key = free_port(), self.folder / way
        key.touch(0o600)
        key.write_text(self.keys[way], encoding='utf-8')
        decides = ('--target', self.options.target) if way.startswith('device') else ('--server', self.links[0].address, '--token-file', key)
        self.edges.append(Edge('serve', '--model', self.options.draft, *decides, *WAYS[way], '-c', self.options.context, '--port', port, *self.flags))
        try:
            wait_until_served(f'http://127.0.0.1:{port}')
        except AssertionError as error:
            self.edges[-1].interrupt()
            sys.exit(f'{error}: {self.edges[-1].wait().err}')
        return f'http://127.0.0.1:{port}'

    def with_single_braces(self):
        """A file with the target's template, or None where it is right: Qwen2.5-Coder's shows a call in double braces, and a model
        that copies them writes calls that no program reads."""
        with self.start_peer() as peer, urllib.request.urlopen(peer.url + '/props', timeout=30) as answer:
            template = json.loads(answer.read())['chat_template']
        if SHOWN_CALL.format('{{', '}}') not in template:
            return None
        file = self.folder / 'template.jinja'
        file.write_text(template.replace(SHOWN_CALL.format('{{', '}}'), SHOWN_CALL.format('{', '}')), encoding='utf-8')
        return file

    def start_peer(self, *flags):
        port = free_port()
        command = (self.options.llama_server, '--model', self.options.target, '--jinja', '--host', '127.0.0.1', '--port', port, '--parallel', 1,
                   '--ctx-size', self.options.context or PEER_CONTEXT, '--threads', self.options.threads,
                   '--threads-batch', self.options.threads, *flags)
        return StartedServer([str(word) for word in command], port)

    def peer(self, way):
        draft = ('--model-draft', self.options.draft, '--threads-draft', self.options.threads) if 'draft' in way else ()
        template = ('--chat-template-file', self.options.chat_template) if self.options.chat_template else ()
        self.peers.append(self.start_peer(*template, *draft, *PEERS[way]).__enter__())
        return self.peers[-1].url

    def client(self, way):
        return openai.OpenAI(base_url=self.bases[way] + '/v1', api_key=self.keys[way], max_retries=0, timeout=1800)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for edge in self.edges:
            edge.interrupt()
            edge.wait()
        for peer in self.peers:
            peer.__exit__()
        for link in self.links:
            link.close()
        self.server.stop()


class Agent:
    """One way of answering: asks, and keeps what came."""

    def __init__(self, way, client, options):
        self.way, self.client, self.options = way, client, options
        self.seconds_to_call, self.valid, self.cut = [], [], 0

    def ask(self, messages, tools, number, tool_choice, parallel_tool_calls=True):
        """The calls of an answer, [(name, arguments)], none if one is not valid; the answer itself is appended to the messages."""
        forced = self.way in PEERS and tool_choice == 'required'
        asked = (as_json_schema(tools, parallel_tool_calls) if forced else
                 {'tool_choice': tool_choice, 'parallel_tool_calls': parallel_tool_calls})
        began = time.monotonic()
        answer = self.client.chat.completions.create(model=NAME, messages=messages, tools=tools, temperature=0, seed=number,
                                                     max_tokens=self.options.max_tokens, **asked).choices[0]
        took = time.monotonic() - began
        message = answer.message.model_dump(exclude_none=True, include={'role', 'content', 'tool_calls'})
        if answer.finish_reason == 'length':
            self.cut += 1
            messages.append(message)
            return []
        messages.append(from_json(message) if forced else message)
        calls = [read_call(call['function'], tools) for call in messages[-1].get('tool_calls', ())]
        self.valid += [call is not None for call in calls]
        if calls:
            self.seconds_to_call.append(took)
        return calls if None not in calls else []

    def robot(self, task, number):
        """(success, the calls) of a task in its scene."""
        _, words, scene, success = task
        scene = copy.deepcopy(scene)
        messages = [{'role': 'system', 'content': INSTRUCTIONS}, {'role': 'user', 'content': words}]
        made = []
        while scene.said is None and len(made) < STEPS:
            calls = self.ask(messages, list(TOOLS), number, tool_choice='required', parallel_tool_calls=False)
            if not calls:
                break
            made += calls
            results = [scene.call(*call) for call in calls]
            messages += results_of(messages[-1], results)
        return success(scene), made

    def question(self, bfcl, task, number):
        """(whether BFCL takes it for right, the calls)."""
        tools = bfcl.tools(task)
        if task['category'] not in TURNS:
            choice = 'auto' if task['category'] == 'irrelevance' else 'required'
            calls = self.ask(list(task['question'][0]), tools, number, choice, parallel_tool_calls='parallel' in task['category'])
            return bfcl.right(task, calls), calls
        messages, turns = [], []
        for said in task['question']:
            messages += said
            turns.append([])
            while len(turns[-1]) < TURN_STEPS and (calls := self.ask(messages, tools, number, tool_choice='auto')):
                turns[-1].append(calls)
                messages += results_of(messages[-1], bfcl.act(task, calls, self.way))
        return bfcl.right_turns(task, turns, self.way), turns


def as_json_schema(tools, several):
    """The fields that ask llama-server for calls instead of tool_choice 'required', under which Qwen2.5-Coder writes a call's JSON
    without its tags, which that server takes for text, and ends by length. The prompt with its tools is the same."""
    call = {'anyOf': [{'type': 'object', 'additionalProperties': False, 'required': ['name', 'arguments'],
                       'properties': {'name': {'const': tool['function']['name']}, 'arguments': tool['function']['parameters']}}
                      for tool in tools]}
    schema = {'type': 'array', 'minItems': 1, 'items': call} if several else call
    return {'tool_choice': 'none', 'response_format': {'type': 'json_schema', 'json_schema': {'name': 'call', 'schema': schema}}}


def from_json(message):
    """The message with its text's calls, as a program writes them that reads calls."""
    calls = json.loads(message['content'])
    return {'role': 'assistant', 'tool_calls': [
        {'id': f'call_{number}', 'type': 'function', 'function': {'name': call['name'], 'arguments': json.dumps(call['arguments'])}}
        for number, call in enumerate(calls if isinstance(calls, list) else [calls])]}


def read_call(function, tools):
    """(name, arguments) of a call; nothing where it is of no tool, or does not fit its parameters."""
    schema = next((tool['function']['parameters'] for tool in tools if tool['function']['name'] == function['name']), None)
    try:
        arguments = json.loads(function['arguments'])
    except ValueError:
        return None
    return (function['name'], arguments) if schema and jsonschema.Draft202012Validator(schema).is_valid(arguments) else None


def results_of(answer, results):
    return [{'role': 'tool', 'tool_call_id': call['id'], 'content': result} for call, result in zip(answer['tool_calls'], results)]


class Check:
    """All tasks, by each way in turn."""

    def __init__(self, agents, outcome):
        self.agents, self.outcome, self.random = agents, outcome, random.Random(1)
        self.seconds = {agent.way: [] for agent in agents}  # of robot tasks
        self.right = {agent.way: {} for agent in agents}  # by kind of task: of each 1 or 0

    def compare(self, kind, name, act):
        """act(agent): (success, calls)."""
        outcomes, took = {}, {}
        for agent in self.random.sample(self.agents, len(self.agents)):
            began = time.monotonic()
            try:
                outcomes[agent.way] = act(agent)
            except openai.APIError as error:
                outcomes[agent.way] = False, []
                self.outcome.fail(f'{name}, {agent.way}: {error}')
            took[agent.way] = time.monotonic() - began
        ours = [found for way, found in outcomes.items() if way not in PEERS]
        if any(found != ours[0] for found in ours):
            self.outcome.fail(f'{name}: {outcomes}')
        for way, (right, _) in outcomes.items():
            self.right[way].setdefault(kind, []).append(int(right))
        print(f'{name}: ' + ', '.join(f'{way} {"right" if right else "wrong"} by {len(calls)} calls in {took[way]:.1f} s'
                                      for way, (right, calls) in outcomes.items()), file=sys.stderr, flush=True)
        return took

    def all_right(self, way):
        """1 or 0 for each task of any kind."""
        return [right for kind in self.right[way].values() for right in kind]

    def run(self, options):
        for number, task in enumerate(tasks(options.tasks, options.seed)):
            took = self.compare('robot', task[0], lambda agent, task=task, number=number: agent.robot(task, number))
            for way, seconds in took.items():
                self.seconds[way].append(seconds)
        for category in options.categories if options.bfcl else ():
            for number, task in enumerate(options.bfcl.tasks(category, options.questions)):
                self.compare(category, task['id'], lambda agent, task=task, number=number: agent.question(options.bfcl, task, number))

    def judge(self):
        self.outcome.figures |= {
            'success': {way: {kind: {'of': len(right), 'part': statistics.fmean(right)} for kind, right in kinds.items()}
                        for way, kinds in self.right.items()},
            'ways': {agent.way: {'calls': len(agent.valid), 'valid': sum(agent.valid), 'cut': agent.cut,
                                 'median_s_to_call': agent.seconds_to_call and statistics.median(agent.seconds_to_call),
                                 'robot_task_s': self.seconds[agent.way] and statistics.fmean(self.seconds[agent.way])}
                     for agent in self.agents}}
        for agent in self.agents:
            if agent.valid and agent.way not in PEERS:
                self.outcome.hold(f'part of calls that is valid, {agent.way}', bootstrap(agent.valid, statistics.fmean), 1)
        for ours, other, least in (('drafts', 'plain', LEAST_GAIN), ('device', 'device-plain', LEAST_GAIN),
                                   *(('device', peer, LEAST_OVER_PEER) for peer in PEERS)):
            if self.seconds.get(other) and self.seconds.get(ours):
                gains = [slow / fast for slow, fast in zip(self.seconds[other], self.seconds[ours])]
                self.outcome.hold(f'times as fast a robot task, {ours} beside {other}',
                                  bootstrap(gains, lambda ratios: math.exp(statistics.fmean(map(math.log, ratios)))), least)
        for peer in PEERS:
            if peer in self.right and 'device' in self.right:
                more = [one - other for one, other in zip(self.all_right('device'), self.all_right(peer))]
                self.outcome.hold(f'success, device less {peer}', bootstrap(more, statistics.fmean), LEAST_SUCCESS)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--ways', default='plain,drafts', type=lambda text: text.split(','))
    parser.add_argument('--tasks', type=int, default=40)
    parser.add_argument('--seed', type=int, default=1, help='of the robot tasks')
    parser.add_argument('--bfcl', type=Bfcl, metavar='WHEEL')
    parser.add_argument('--categories', default='simple_python,multiple,parallel,irrelevance', type=lambda text: text.split(','))
    parser.add_argument('--questions', type=int, default=10, help='of each category')
    parser.add_argument('--target', default=TARGET)
    parser.add_argument('--draft', default=DRAFT)
    parser.add_argument('--chat-template', help='file, of all programs; else the target\'s')
    parser.add_argument('--context', type=int, default=0, help='of the edges, in tokens; 0: the target\'s')
    parser.add_argument('--max-tokens', type=int, default=256, help='of an answer')
    parser.add_argument('--llama-server', default=ROOT / '.venv-peers/llama.cpp/build/bin/llama-server', help='of the ways peer and peer-draft')
    parser.add_argument('--threads', type=int, default=len(os.sched_getaffinity(0)), help='of a peer')
    parser.add_argument('--link', default='lte', help='profile of outrider-link')
    options = parser.parse_args()
    for name, known, said in (('--ways', WAYS, options.ways), ('--categories', CATEGORIES, options.categories)):
        if unknown := set(said) - set(known):
            parser.error(f'{name}: {", ".join(unknown)} is not known; known are {", ".join(known)}')
    outcome = Outcome('agent')
    with tempfile.TemporaryDirectory() as folder, Programs(options, folder) as programs:
        check = Check([Agent(way, programs.client(way), options) for way in options.ways], outcome)
        check.run(options)
        check.judge()
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
