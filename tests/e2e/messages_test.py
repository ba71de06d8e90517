#!/usr/bin/env python3
"""/v1/messages at both programs, by Anthropic's client: a message is the answer that a chat has, whole and as events,
with tools and forms, and what is not there is refused with the client's own errors.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/messages_test.py

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import json
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from programs import Server, free_port, new_key
from runner import run_tests
from serving_edge import WithBothPrograms
from tools_test import TEMPLATE, ask

QUESTION = {'role': 'user', 'content': 'Pick up the red cup.'}
TOOL = {'name': 'move', 'description': 'Moves.', 'input_schema': {
    'type': 'object', 'properties': {'x': {'type': 'integer', 'minimum': 0, 'maximum': 9}}, 'required': ['x'],
    'additionalProperties': False}}


@unittest.skipUnless(importlib.util.find_spec('anthropic'), 'needs the package anthropic')
class Messages(WithBothPrograms):
    template = TEMPLATE

    @classmethod
    def setUpClass(cls):
        import anthropic
        super().setUpClass()
        cls.clients = [anthropic.Anthropic(base_url=base, api_key='none', max_retries=0) for base in cls.bases]

    def test_a_message_is_a_chats_answer(self):
        answers = set()
        for client, base in zip(self.clients, self.bases):
            asked = {'model': 'robot', 'system': 'Be brief.', 'messages': [QUESTION], 'max_tokens': 16,
                     'extra_body': {'temperature': 0.7, 'seed': 5}}
            whole = client.messages.create(**asked, metadata={'user_id': '9'})
            _, chat = ask(base, messages=[{'role': 'system', 'content': 'Be brief.'}, QUESTION], temperature=0.7,
                          max_tokens=16, seed=5)
            text, = (block.text for block in whole.content)
            self.assertEqual(text, chat['choices'][0]['message']['content'])
            self.assertEqual((whole.type, whole.role, whole.model), ('message', 'assistant', 'robot'))
            self.assertEqual((whole.stop_reason, whole.usage.output_tokens), ('max_tokens', 16))
            self.assertEqual(whole.usage.input_tokens + whole.usage.cache_read_input_tokens, chat['usage']['prompt_tokens'])
            with client.messages.stream(**asked) as stream:
                self.assertEqual(''.join(stream.text_stream), text)
                final = stream.get_final_message()
            self.assertEqual((final.stop_reason, final.usage.output_tokens), ('max_tokens', 16))
            events = [event.type for event in client.messages.create(**asked, stream=True)]
            self.assertEqual((events[:2], events[-3:]), (['message_start', 'content_block_start'],
                                                         ['content_block_stop', 'message_delta', 'message_stop']))
            stop = text[6:9]
            stopped = client.messages.create(**asked, stop_sequences=[stop])
            self.assertEqual((stopped.stop_reason, stopped.stop_sequence), ('stop_sequence', stop))
            self.assertEqual(stopped.content[0].text, text[:text.index(stop)])
            answers.add(text)
        self.assertEqual(len(answers), 1, 'both programs answer alike')

    def test_a_tool_is_called_and_its_result_goes_back(self):
        for client in self.clients:
            asked = {'model': 'robot', 'messages': [QUESTION], 'tools': [TOOL], 'max_tokens': 200, 'extra_body': {'temperature': 0},
                     'tool_choice': {'type': 'any', 'disable_parallel_tool_use': True}}
            whole = client.messages.create(**asked)
            call, = whole.content
            self.assertEqual((whole.stop_reason, call.type, call.name), ('tool_use', 'tool_use', 'move'))
            self.assertIn(call.input['x'], range(10))
            with client.messages.stream(**asked) as stream:
                pieces = [event.partial_json for event in stream if event.type == 'input_json']
                streamed, = stream.get_final_message().content
            self.assertEqual(json.loads(''.join(pieces)), call.input)
            self.assertEqual(streamed.input, call.input)
            result = {'type': 'tool_result', 'tool_use_id': call.id, 'content': [{'type': 'text', 'text': 'done'}]}
            after = client.messages.create(
                model='robot', tools=[TOOL], tool_choice={'type': 'none'}, max_tokens=8, extra_body={'temperature': 0},
                messages=[QUESTION, {'role': 'assistant', 'content': whole.content}, {'role': 'user', 'content': [result]}])
            self.assertTrue(after.content[0].text)

    def test_a_form_holds_the_answer(self):
        for client in self.clients:
            whole = client.messages.create(model='robot', messages=[QUESTION], max_tokens=300, extra_body={
                'temperature': 0, 'output_config': {'format': {'type': 'json_schema', 'schema': TOOL['input_schema']}}})
            self.assertEqual(whole.stop_reason, 'end_turn')
            self.assertIn(json.loads(whole.content[0].text)['x'], range(10))

    def test_what_is_not_there_is_refused_with_the_clients_errors(self):
        import anthropic
        image = {'type': 'image', 'source': {'type': 'base64', 'media_type': 'image/png', 'data': ''}}
        for client in self.clients:
            for fields, param in (({'thinking': {'type': 'enabled', 'budget_tokens': 1024}}, 'thinking.budget_tokens'),
                                  ({'messages': [{'role': 'user', 'content': [image]}]}, 'messages[0].content[0].type'),
                                  ({'tools': [{'type': 'bash_20250124', 'name': 'bash'}]}, 'tools[0]'),
                                  ({'extra_body': {'mirostat': 2}}, 'mirostat'),
                                  ({'messages': [{'role': 'user', 'content': 'word ' * 3000}]}, 'messages')):
                with self.assertRaises(anthropic.BadRequestError) as refused:
                    client.messages.create(**{'model': 'robot', 'messages': [QUESTION], 'max_tokens': 9, **fields})
                error = refused.exception.body['error']
                self.assertEqual((refused.exception.body['type'], error['type'], error['param']),
                                 ('error', 'invalid_request_error', param))
            with self.assertRaises(anthropic.NotFoundError):
                client.models.retrieve('another')


class Keys(unittest.TestCase):
    """A key may come as Anthropic's clients send it, and who has none hears so in their form."""

    def test_a_key_may_stand_in_x_api_key(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Path(folder) / 'tokens'
            key = new_key(tokens)
            http = free_port()
            body = json.dumps({'messages': [QUESTION], 'max_tokens': 2}).encode()
            with Server('--http-port', http, '--token-file', tokens):
                def code_and_body(**headers):
                    request = urllib.request.Request(f'http://127.0.0.1:{http}/v1/messages', body, {
                        'Content-Type': 'application/json', 'anthropic-version': '2023-06-01', **headers})
                    try:
                        with urllib.request.urlopen(request, timeout=60) as answer:
                            return answer.status, json.load(answer)
                    except urllib.error.HTTPError as error:
                        return error.code, json.load(error)
                self.assertEqual(code_and_body(**{'x-api-key': key})[0], 200)
                self.assertEqual(code_and_body(Authorization=f'Bearer {key}')[0], 200)
                for headers in ({}, {'x-api-key': 'another'}):
                    code, refused = code_and_body(**headers)
                    self.assertEqual((code, refused['type'], refused['error']['type']), (401, 'error', 'authentication_error'))


if __name__ == '__main__':
    run_tests()
