#!/usr/bin/env python3
"""Answers that have the form which was asked for: JSON by a schema, a grammar, a required call; the same text with and
without drafts, at both programs, and across a failover in the middle of a value.

  OUTRIDER_BIN=build/release/bin tests/e2e/constraints_test.py

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import json
import re
import tempfile
import unittest
from pathlib import Path

from programs import DRAFT, TARGET, Edge, Server, edge, free_port, wait_until_served
from runner import run_tests
from tools_test import TEMPLATE, USER, ask, events

SCHEMA = {'type': 'object', 'properties': {
    'action': {'enum': ['pick', 'place', 'wait']}, 'steps': {'type': 'integer', 'minimum': 0, 'maximum': 99},
    'place': {'type': 'string', 'maxLength': 12}, 'done': {'type': 'boolean'}}, 'required': ['action', 'steps', 'place', 'done']}
TOOL = {'type': 'function', 'function': {'name': 'move', 'description': 'Moves.', 'parameters': {
    'type': 'object', 'properties': {'x': {'type': 'integer', 'minimum': -20, 'maximum': 20}}, 'required': ['x']}}}
STRICT = {'type': 'function', 'function': {**TOOL['function'], 'strict': True}}
FORM = {'type': 'json_schema', 'json_schema': {'name': 'step', 'strict': True, 'schema': SCHEMA}}


def fits(test, text):
    """A plain validator of SCHEMA."""
    value = json.loads(text)
    test.assertEqual(list(value), ['action', 'steps', 'place', 'done'])
    test.assertIn(value['action'], SCHEMA['properties']['action']['enum'])
    test.assertTrue(isinstance(value['steps'], int) and 0 <= value['steps'] <= 99, text)
    test.assertTrue(isinstance(value['place'], str) and len(value['place']) <= 12, text)
    test.assertIsInstance(value['done'], bool)


class Forms(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        template = Path(cls.folder.name) / 'tools.jinja'
        template.write_text(TEMPLATE, encoding='utf-8')
        http, port = free_port(), free_port()
        cls.server = Server('--http-port', http, '--chat-template', template)
        cls.edge = Edge('serve', '--model', DRAFT, '--server', cls.server.address, '--port', port)
        cls.bases = (f'http://127.0.0.1:{http}', f'http://127.0.0.1:{port}')
        wait_until_served(cls.bases[1])

    @classmethod
    def tearDownClass(cls):
        cls.edge.interrupt()
        cls.edge.wait()
        cls.server.stop()
        cls.folder.cleanup()

    def say(self, base, **fields):
        code, answer = ask(base, **{'max_tokens': 120, **fields})
        self.assertEqual(code, 200, answer)
        choice = answer['choices'][0]
        self.assertIn(choice['finish_reason'], ('stop', 'tool_calls'), choice)
        return choice

    def test_answers_fit_their_schema_and_both_programs_say_the_same(self):
        for sampling in ({'temperature': 0}, {'temperature': 1, 'seed': 3}, {'temperature': 1, 'seed': 4}):
            texts = []
            for base in self.bases:
                texts.append(self.say(base, response_format=FORM, **sampling)['message']['content'])
                fits(self, texts[-1])
            self.assertEqual(texts[0], texts[1])
        # Drafts change nothing.
        plain = self.say(self.bases[1], response_format=FORM, speculation=False)['message']['content']
        self.assertEqual(plain, self.say(self.bases[1], response_format=FORM)['message']['content'])

    def test_every_name_of_a_form_is_known(self):
        for base in self.bases:
            fits(self, self.say(base, guided_json=SCHEMA)['message']['content'])
            fits(self, self.say(base, structured_outputs={'json': SCHEMA})['message']['content'])
            fits(self, self.say(base, json_schema=SCHEMA)['message']['content'])
            self.assertIn(self.say(base, guided_choice=['left', 'right'])['message']['content'], ('left', 'right'))
            self.assertRegex(self.say(base, regex='[0-9]{3}-[a-c]{1,4}x')['message']['content'], r'^[0-9]{3}-[a-c]{1,4}x$')
            said = self.say(base, grammar='root ::= "go " ("home" | "on") "."')['message']['content']
            self.assertIn(said, ('go home.', 'go on.'))
            streamed = ''.join(event['choices'][0]['delta'].get('content') or '' for event in
                               events(base, response_format=FORM, max_tokens=120) if event['choices'])
            self.assertEqual(streamed, self.say(base, response_format=FORM)['message']['content'])

    def test_a_required_call_is_one_that_fits(self):
        for base in self.bases:
            for choice in ('required', {'type': 'function', 'function': {'name': 'move'}}):
                said = self.say(base, tools=[STRICT], tool_choice=choice, parallel_tool_calls=False)
                self.assertEqual(said['finish_reason'], 'tool_calls')
                call, = said['message']['tool_calls']
                self.assertEqual(call['function']['name'], 'move')
                arguments = json.loads(call['function']['arguments'])
                self.assertEqual(list(arguments), ['x'])
                self.assertIn(arguments['x'], range(-20, 21))

    def test_several_calls_may_be_required(self):
        for base in self.bases:
            code, answer = ask(base, tools=[TOOL], tool_choice='required', max_tokens=200, temperature=1, seed=4)
            self.assertEqual(code, 200, answer)
            calls = answer['choices'][0]['message']['tool_calls']
            whole = calls if answer['choices'][0]['finish_reason'] == 'tool_calls' else calls[:-1]
            for call in whole:
                self.assertIn(json.loads(call['function']['arguments'])['x'], range(-20, 21))
            self.assertTrue(whole)

    def test_a_form_stands_beside_tools(self):
        for base in self.bases:
            for seed in range(4):
                said = self.say(base, tools=[STRICT], response_format=FORM, temperature=1, seed=seed, parallel_tool_calls=False)
                if said['finish_reason'] == 'stop':
                    fits(self, said['message']['content'])
                else:
                    self.assertEqual(said['message']['tool_calls'][0]['function']['name'], 'move')
            required = self.say(base, tools=[STRICT], tool_choice='required', parallel_tool_calls=False)['message']['tool_calls']
            both = self.say(base, tools=[STRICT], tool_choice='required', parallel_tool_calls=False, response_format=FORM)
            self.assertEqual(both['message']['tool_calls'][0]['function'], required[0]['function'])

    def test_text_beside_strict_tools_is_the_same_everywhere(self):
        for seed in (1, 2, 3):
            asked = {'tools': [STRICT], 'temperature': 1, 'seed': seed, 'max_tokens': 40}
            texts = [ask(base, **asked)[1]['choices'][0]['message']['content'] for base in self.bases]
            texts.append(ask(self.bases[1], **asked, speculation=False)[1]['choices'][0]['message']['content'])
            self.assertTrue(texts[0])
            self.assertEqual(len(set(texts)), 1, texts)

    def test_what_is_wrong_is_named(self):
        for base in self.bases:
            for fields, param, said in (
                    ({'response_format': {'type': 'xml'}}, 'response_format', 'json_schema'),
                    ({'json_schema': {'type': 'array', 'contains': {}}}, 'json_schema', "'contains' at #"),
                    ({'json_schema': {'$ref': '#'}}, 'json_schema', 'leads to itself'),
                    ({'regex': '((a{1,1000}){1,1000}){1,1000}'}, 'regex', 'repeats'),
                    ({'regex': '(a'}, 'regex', 'compiled'), ({'grammar': 'root ::= x'}, 'grammar', 'compiled'),
                    ({'regex': 'a', 'json_schema': {}}, 'regex', 'too'),
                    ({'regex': 'a', 'ignore_eos': True}, 'ignore_eos', 'stop token'),
                    ({'tools': [TOOL], 'regex': 'a', 'tool_choice': 'required'}, 'regex', 'tool_choice')):
                code, answer = ask(base, **fields)
                self.assertEqual(code, 400, (fields, answer))
                self.assertEqual(answer['error']['param'], param)
                self.assertIn(said, answer['error']['message'])
            self.assertEqual(ask(base)[0], 200)

    @unittest.skipUnless(importlib.util.find_spec('openai'), 'needs the package openai')
    def test_the_openai_client_parses_what_it_asked_for(self):
        import openai
        for base in self.bases:
            client = openai.OpenAI(base_url=f'{base}/v1', api_key='none', max_retries=0)
            whole = client.chat.completions.create(model='m', messages=[USER], response_format=FORM, max_tokens=120)
            fits(self, whole.choices[0].message.content)
            called = client.chat.completions.create(model='m', messages=[USER], tools=[TOOL], tool_choice='required',
                                                    parallel_tool_calls=False, max_tokens=120)
            self.assertEqual(called.choices[0].message.tool_calls[0].function.name, 'move')
            with self.assertRaises(openai.BadRequestError) as refused:
                client.chat.completions.create(model='m', messages=[USER], response_format={
                    'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': {'not': {}}}})
            self.assertEqual(refused.exception.param, 'response_format')


class OnTheCommandLine(unittest.TestCase):
    COMMON = ('--tokenizer', DRAFT, '-p', 'Pick up the red cup.', '-n', '120', '-c', '512', '--json')

    def test_a_failover_within_a_value_keeps_the_text(self):
        form = ('--json-schema', json.dumps(SCHEMA), '--temp', '0.8', '--seed', '5')
        with tempfile.TemporaryDirectory() as folder:
            pack = Path(folder) / 'target.pack'
            packed = edge('pack', '--model', TARGET, '--out', pack)
            self.assertEqual(packed.code, 0, packed.err)
            whole = edge('run', '--target', pack, '--strategy', 'ar', *self.COMMON, *form)
            self.assertEqual(whole.code, 0, whole.err)
            fits(self, whole.json['text'])
            for letters in (3, 15, 30):
                server = Server('--pace-pass-ms', '60')
                running = Edge('run', '--server', server.address, '--target', pack, '--failover-after', '1',
                               '--reconnect-timeout', '3', '--strategy', 'ar', *self.COMMON, *form)
                for _ in range(letters):
                    self.assertTrue(running.process.stdout.read(1))
                server.kill()
                ended = running.wait()
                self.assertEqual(ended.code, 0, ended.err)
                self.assertEqual(ended.json['ids'], whole.json['ids'])
                self.assertEqual(ended.json['failovers_total'], 1, ended.err)

    def test_drafts_change_no_form(self):
        with Server() as server:
            for form, pattern in ((('--grammar', 'root ::= [a-z]+ (" " [a-z]+){2,5} "."'), r'^[a-z]+( [a-z]+){2,5}\.$'),
                                  (('--json-schema', '{"type": "array", "items": {"type": "integer", "minimum": -99, "maximum": 99}, '
                                                      '"minItems": 3, "maxItems": 5}'), r'^\[-?[0-9]{1,2}(, ?-?[0-9]{1,2}){2,4}\]$')):
                texts = set()
                for strategy in ('ar', 'sd', 'fsd', 'mirror'):
                    ended = edge('run', '--server', server.address, '--model', DRAFT, '--strategy', strategy, '--temp', '0.8',
                                 '--seed', '2', *self.COMMON[2:], *form)
                    self.assertEqual(ended.code, 0, ended.err)
                    texts.add(ended.json['text'])
                text, = texts
                self.assertTrue(re.search(pattern, text), text)

    def test_a_form_that_is_wrong_is_refused(self):
        with Server() as server:
            ended = edge('run', '--server', server.address, '--model', DRAFT, *self.COMMON[2:], '--json-schema', '{"type": "x"}')
            self.assertNotEqual(ended.code, 0)
            self.assertIn('must be object, array, string', ended.err)


if __name__ == '__main__':
    run_tests()
