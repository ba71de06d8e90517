#!/usr/bin/env python3
"""/v1/responses at both programs, by the official client: a response is the answer that a chat has, whole and as
events, with functions and forms, and what is not there is refused.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python3 tests/e2e/responses_test.py

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import json
import unittest

from runner import run_tests
from serving_edge import WithBothPrograms
from tools_test import TEMPLATE

QUESTION = 'Pick up the red cup.'
MOVE = {'type': 'object', 'properties': {'x': {'type': 'integer', 'minimum': 0, 'maximum': 9}}, 'required': ['x'],
        'additionalProperties': False}
FUNCTION = {'type': 'function', 'name': 'move', 'description': 'Moves.', 'parameters': MOVE, 'strict': True}


@unittest.skipUnless(importlib.util.find_spec('openai'), 'needs the package openai')
class Responses(WithBothPrograms):
    template = TEMPLATE

    @classmethod
    def setUpClass(cls):
        import openai
        super().setUpClass()
        cls.clients = [openai.OpenAI(base_url=base + '/v1', api_key='none', max_retries=0, _strict_response_validation=True)
                       for base in cls.bases]

    def test_a_response_is_a_chats_answer(self):
        answers = set()
        for client in self.clients:
            asked = {'model': 'robot', 'instructions': 'Be brief.', 'input': QUESTION, 'temperature': 0.7, 'max_output_tokens': 16,
                     'extra_body': {'seed': 5}}
            whole = client.responses.create(**asked, metadata={'robot': '9'}, store=True)
            chat = client.chat.completions.create(
                model='robot', messages=[{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': QUESTION}],
                temperature=0.7, max_tokens=16, seed=5)
            self.assertEqual(whole.output_text, chat.choices[0].message.content)
            self.assertEqual((whole.usage.input_tokens, whole.usage.output_tokens),
                             (chat.usage.prompt_tokens, chat.usage.completion_tokens))
            self.assertEqual(whole.metadata, {'robot': '9'})
            self.assertEqual((whole.status, whole.incomplete_details.reason), ('incomplete', 'max_output_tokens'))
            events = list(client.responses.create(**asked, stream=True))
            self.assertEqual([event.sequence_number for event in events], list(range(len(events))))
            self.assertEqual([events[0].type, events[-1].type], ['response.created', 'response.incomplete'])
            text = ''.join(event.delta for event in events if event.type == 'response.output_text.delta')
            self.assertEqual(text, whole.output_text)
            self.assertEqual(events[-1].response.output_text, text)
            answers.add(text)
        self.assertEqual(len(answers), 1, 'both programs answer alike')

    def test_a_form_is_parsed_whole_and_streamed(self):
        import pydantic

        class Place(pydantic.BaseModel):
            x: int = pydantic.Field(ge=0, le=9)
            near: bool

        for client in self.clients:
            asked = {'model': 'robot', 'input': QUESTION, 'text_format': Place, 'temperature': 0}
            whole = client.responses.parse(**asked)
            self.assertIsInstance(whole.output_parsed, Place)
            self.assertEqual(whole.status, 'completed')
            with client.responses.stream(**asked) as stream:
                for _ in stream:
                    pass
                self.assertEqual(stream.get_final_response().output_parsed, whole.output_parsed)

    def test_a_function_is_called_and_its_result_goes_back(self):
        for client in self.clients:
            question = {'role': 'user', 'content': [{'type': 'input_text', 'text': QUESTION}]}
            asked = {'model': 'robot', 'input': [question], 'tools': [FUNCTION], 'tool_choice': 'required', 'temperature': 0}
            whole = client.responses.create(**asked, parallel_tool_calls=False)
            call, = whole.output
            self.assertEqual((call.type, call.name), ('function_call', 'move'))
            self.assertIn(json.loads(call.arguments)['x'], range(10))
            with client.responses.stream(**asked, parallel_tool_calls=False) as stream:
                deltas = [event.delta for event in stream if event.type == 'response.function_call_arguments.delta']
                streamed, = stream.get_final_response().output
            self.assertEqual(''.join(deltas), call.arguments)
            self.assertEqual(streamed.arguments, call.arguments)
            after = client.responses.create(
                model='robot', tools=[FUNCTION], tool_choice='none', max_output_tokens=8, temperature=0,
                input=[question, *whole.output, {'type': 'function_call_output', 'call_id': call.call_id, 'output': 'done'}])
            self.assertTrue(after.output_text)

    def test_log_probabilities_stand_beside_the_text(self):
        for client in self.clients:
            asked = {'model': 'robot', 'input': QUESTION, 'include': ['message.output_text.logprobs'], 'top_logprobs': 2,
                     'max_output_tokens': 6, 'temperature': 0}
            logprobs = client.responses.create(**asked).output[0].content[0].logprobs
            self.assertEqual([len(token.top_logprobs) for token in logprobs], [2] * 6)
            streamed = [token.logprob for event in client.responses.create(**asked, stream=True)
                        if event.type == 'response.output_text.delta' for token in event.logprobs]
            self.assertEqual(streamed, [token.logprob for token in logprobs])

    def test_what_is_not_there_is_refused_by_name(self):
        import openai
        for client in self.clients:
            for fields, param in (({'previous_response_id': 'resp_1'}, 'previous_response_id'),
                                  ({'background': True}, 'background'), ({'truncation': 'auto'}, 'truncation'),
                                  ({'tools': [{'type': 'web_search'}]}, 'tools[0]'),
                                  ({'extra_body': {'mirostat': 2}}, 'mirostat'),
                                  ({'input': [{'role': 'user', 'content': [{'type': 'input_image', 'detail': 'auto', 'image_url': 'a'}]}]},
                                   'input[0].content[].type')):
                with self.assertRaises(openai.BadRequestError) as refused:
                    client.responses.create(**{'model': 'robot', 'input': QUESTION, **fields})
                self.assertEqual(refused.exception.param, param)
            with self.assertRaises(openai.NotFoundError):
                client.responses.retrieve('resp_1')


if __name__ == '__main__':
    run_tests()
