#!/usr/bin/env python3
"""Tools in chats and several choices, at both programs: what a template writes of tools reaches the model, a choice
is the answer of its seed, and what is wrong is named.

  OUTRIDER_BIN=build/release/bin tests/e2e/tools_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import unittest
import urllib.error
import urllib.request

from programs import DRAFT, Server, edge, free_port
from runner import run_tests
from serving_edge import WithBothPrograms

# ChatML with tools in the manner of Hermes.
TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{% for t in tools %}{{ t | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>\n"
    "{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
TOOL = {'type': 'function', 'function': {'name': 'move', 'description': 'Moves.', 'parameters': {
    'type': 'object', 'properties': {'x': {'type': 'number'}}, 'required': ['x']}}}
USER = {'role': 'user', 'content': 'Pick up the red cup.'}
CALL = {'role': 'assistant', 'content': None, 'tool_calls': [
    {'id': 'c1', 'type': 'function', 'function': {'name': 'move', 'arguments': '{"x": 1}'}}]}
RESULT = {'role': 'tool', 'tool_call_id': 'c1', 'content': 'done'}


def ask(base, path='/v1/chat/completions', **fields):
    """(status, JSON of the answer)."""
    defaults = {'max_tokens': 4, 'temperature': 0} | ({'messages': [USER]} if 'chat' in path else {})
    body = fields if path == '/tokenize' else defaults | fields
    request = urllib.request.Request(base + path, json.dumps(body).encode(),
                                     {'Content-Type': 'application/json'})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def events(base, **fields):
    """The events of a streamed answer."""
    body = {'messages': [USER], 'temperature': 0, 'stream': True} | fields
    request = urllib.request.Request(f'{base}/v1/chat/completions', json.dumps(body).encode(),
                                     {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=60) as answer:
        lines = [line[6:] for line in answer.read().decode().splitlines() if line.startswith('data: {')]
    return [json.loads(line) for line in lines]


class Tools(WithBothPrograms):
    template = TEMPLATE

    def test_tools_calls_and_results_reach_the_model(self):
        for base in self.bases:
            lengths = []
            for fields in ({}, {'tools': [TOOL]}, {'tools': [TOOL], 'messages': [USER, CALL, RESULT]},
                           {'tools': [TOOL], 'tool_choice': 'none'}):
                code, answer = ask(base, **fields)
                self.assertEqual(code, 200, answer)
                self.assertTrue(answer['choices'][0]['message']['content'])
                lengths.append(answer['usage']['prompt_tokens'])
            self.assertLess(lengths[0], lengths[1])
            self.assertLess(lengths[1], lengths[2])
            self.assertEqual(lengths[0], lengths[3])

    def test_both_programs_give_the_same_answer(self):
        answers = [ask(base, tools=[TOOL], max_tokens=24)[1] for base in self.bases]
        first, second = (answer['choices'][0] for answer in answers)
        self.assertEqual(first['message'], second['message'])
        self.assertEqual(first['finish_reason'], second['finish_reason'])

    def test_each_choice_is_the_answer_of_its_seed(self):
        for base in self.bases:
            sampled = {'temperature': 0.9, 'max_tokens': 12}
            code, answer = ask(base, n=3, seed=5, **sampled)
            self.assertEqual(code, 200, answer)
            self.assertEqual([choice['index'] for choice in answer['choices']], [0, 1, 2])
            self.assertEqual(answer['choices'][0]['outrider']['seed'], 5)
            for choice in answer['choices']:
                alone = ask(base, seed=choice['outrider']['seed'], **sampled)[1]
                self.assertEqual(choice['message'], alone['choices'][0]['message'])
            self.assertEqual(answer['usage']['prompt_tokens'], alone['usage']['prompt_tokens'])
            self.assertEqual(answer['usage']['completion_tokens'], 36)

    def test_log_probabilities_are_the_targets_at_both(self):
        told = []
        for base in self.bases:
            code, answer = ask(base, logprobs=True, top_logprobs=3, max_tokens=8)
            self.assertEqual(code, 200, answer)
            choice = answer['choices'][0]
            content = choice['logprobs']['content']
            self.assertEqual(len(content), 8)
            self.assertEqual(''.join(token['token'] for token in content), choice['message']['content'])
            for token in content:
                self.assertEqual(bytes(token['bytes']).decode(), token['token'])
                self.assertEqual([token['token'], token['logprob']],
                                 [token['top_logprobs'][0]['token'], token['top_logprobs'][0]['logprob']])
                self.assertEqual(len(token['top_logprobs']), 3)
            streamed = [token for event in events(base, logprobs=True, top_logprobs=3, max_tokens=8)
                        for token in (event['choices'][0].get('logprobs') or {}).get('content', [])]
            self.assertEqual(streamed, content)
            code, plain = ask(base, '/v1/completions', prompt='The robot', logprobs=2, max_tokens=5)
            told.append((content, plain['choices'][0]['logprobs']))
            self.assertEqual(len(told[-1][1]['tokens']), 5)
            self.assertEqual(ask(base, top_logprobs=3)[1]['error']['param'], 'top_logprobs')
            self.assertEqual(ask(base, logprobs=True, top_logprobs=21)[1]['error']['param'], 'top_logprobs')
        self.assertEqual(told[0], told[1])

    def test_a_prompts_log_probabilities_are_the_targets_at_both(self):
        told = []
        for base in self.bases:
            def complete(**fields):
                code, answer = ask(base, '/v1/completions', logprobs=3, **fields)
                self.assertEqual(code, 200, answer)
                return answer['choices'][0]['logprobs'], answer
            said, answer = complete(prompt='The robot', max_tokens=8)
            text = 'The robot' + answer['choices'][0]['text']
            scored, echoed = complete(prompt=text, max_tokens=0, echo=True)
            self.assertEqual(echoed['choices'][0]['text'], text)
            self.assertEqual(echoed['choices'][0]['finish_reason'], 'length')
            self.assertEqual((echoed['usage']['prompt_tokens'], echoed['usage']['completion_tokens']), (len(scored['tokens']), 0))
            self.assertEqual(''.join(scored['tokens']), text)
            self.assertEqual([text[at:at + len(token)] for at, token in zip(scored['text_offset'], scored['tokens'])], scored['tokens'])
            self.assertIsNone(scored['token_logprobs'][0])
            # A token has the same numbers as an answer's and as a prompt's.
            for field in ('tokens', 'token_logprobs', 'top_logprobs'):
                self.assertEqual(scored[field][-8:], said[field])
            # This is how lm-eval asks: ids, and one token that it leaves out.
            ids = ask(base, '/tokenize', content=text)[1]['tokens']
            more, _ = complete(prompt=[ids, ids[:3]], max_tokens=1, echo=True, seed=1234)
            self.assertEqual([each[:-1] for each in more.values()], list(scored.values()))
            long, _ = complete(prompt=ids * 20, max_tokens=1, echo=True)
            self.assertEqual(len(long['token_logprobs']), len(ids) * 20 + 1)
            self.assertEqual(long['token_logprobs'][:len(ids)], scored['token_logprobs'])
            told.append((scored, more, long))
            code, refused = ask(base, '/v1/completions', prompt=[ids * 20] * 100, logprobs=20, echo=True)
            self.assertEqual((code, refused['error']['param']), (400, 'logprobs'))
        self.assertEqual(told[0], told[1])

    def test_settings_of_the_choice_hold_at_both(self):
        plain = ask(self.bases[0], max_tokens=16)[1]['choices'][0]['message']['content']
        word = plain.split()[1]
        ids = ask(self.bases[0], '/tokenize', content=plain)[1]['tokens']
        texts = set()
        for base in self.bases:
            def say(**fields):
                code, answer = ask(base, max_tokens=16, **fields)
                self.assertEqual(code, 200, answer)
                return answer['choices'][0]['message']['content']
            self.assertEqual(say(presence_penalty=0, logit_bias={}, min_tokens=0), plain)
            self.assertNotIn(word, say(bad_words=[word]))
            self.assertNotEqual(say(logit_bias={str(ids[0]): -100}), plain)
            self.assertLess(len(say(stop_token_ids=[ids[4]])), len(plain))
            texts.add(say(frequency_penalty=2, presence_penalty=2, repetition_penalty=1.5))
        self.assertEqual(len(texts), 1, texts)
        self.assertNotEqual(texts, {plain})

    def test_several_prompts_and_ids_of_tokens(self):
        for base in self.bases:
            def complete(prompt, **fields):
                code, answer = ask(base, '/v1/completions', prompt=prompt, **fields)
                self.assertEqual(code, 200, answer)
                return [choice['text'] for choice in answer['choices']]
            one, two = complete('The robot'), complete('Pick up')
            self.assertEqual(complete(['The robot', 'Pick up']), one + two)
            ids = ask(base, '/tokenize', content='The robot', add_special=True)[1]['tokens']
            self.assertEqual(complete(ids), one)
            self.assertEqual(complete([ids, 'Pick up']), one + two)
            self.assertEqual(complete('The robot', echo=True), ['The robot' + one[0]])
            self.assertEqual(complete('The robot', suffix=''), one)
            code, refused = ask(base, '/v1/completions', prompt='The robot', suffix='.')
            self.assertEqual((code, refused['error']['param']), (400, 'suffix'), 'the demo pair has no marks for it')

    def test_what_is_wrong_is_named(self):
        for base in self.bases:
            for fields, param in (({'tools': [TOOL, TOOL]}, 'tools[1].function.name'),
                                  ({'tools': [{'type': 'function', 'function': {}}]}, 'tools[0].function.name'),
                                  ({'tools': [TOOL], 'tool_choice': {'type': 'function', 'function': {'name': 'jump'}}},
                                   'tool_choice'),
                                  ({'messages': [USER, RESULT]}, 'messages[].tool_call_id'),
                                  ({'n': 0}, 'n'), ({'n': 129}, 'n'),
                                  ({'logit_bias': {'99999': 1}}, 'logit_bias'), ({'presence_penalty': 3}, 'presence_penalty')):
                code, answer = ask(base, **fields)
                self.assertEqual((code, answer['error']['param']), (400, param))

    def test_an_unknown_form_of_calls_is_refused_at_the_start(self):
        ended = edge('serve', '--model', DRAFT, '--server', self.server.address, '--tool-call-parser', 'hermse')
        self.assertEqual(ended.code, 2)
        self.assertIn('hermes', ended.err)


class WithoutTools(unittest.TestCase):
    def test_a_template_that_writes_no_tools_refuses_them(self):
        http = free_port()
        with Server('--http-port', http):
            code, answer = ask(f'http://127.0.0.1:{http}', tools=[TOOL])
            self.assertEqual((code, answer['error']['param']), (400, 'tools'))
            self.assertIn('--chat-template', answer['error']['message'])


if __name__ == '__main__':
    run_tests()
