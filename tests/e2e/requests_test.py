#!/usr/bin/env python3
"""Defaults where a request or a command gives no value: seeds, the target's sampling, names, and raw prompts, of both programs.

  OUTRIDER_BIN=build/release/bin tests/e2e/requests_test.py

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import math
import re
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, TARGET, Edge, Server, edge, free_port, wait_until_served
from runner import run_tests

PROMPT = 'In view: red box at 1.0 m, blue box at 2.0 m. Say what you see.'
TURN = f'<|im_start|>user\n{PROMPT}<|im_end|>\n<|im_start|>assistant\n'
SAMPLED = {'do_sample': True, 'temperature': 0.9, 'top_k': 20, 'repetition_penalty': 1.05}
TOKENS = 30


def ask(base, path, **body):
    """Status and JSON of the answer."""
    connection = http.client.HTTPConnection(base.removeprefix('http://'), timeout=60)
    connection.request('POST', path, json.dumps(body), {'Content-Type': 'application/json'})
    response = connection.getresponse()
    try:
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def text_of(answer):
    choice = answer['choices'][0]
    return choice['message']['content'] if 'message' in choice else choice['text']


def openai_of(server):
    return next(line.split()[1] for line in server.log if line.split()[:1] == ['openai'])


def page(base, path):
    with urllib.request.urlopen(base + path, timeout=30) as answer:
        return answer.read().decode()


def copy_of_target(folder, generation):
    """A folder with the demo target's files and this generation_config.json."""
    copy = Path(folder) / 'sampling-target'
    copy.mkdir()
    for file in TARGET.iterdir():
        (copy / file.name).symlink_to(file)
    config = copy / 'generation_config.json'
    stops = json.loads(config.read_text(encoding='utf-8'))['eos_token_id']
    config.unlink()
    config.write_text(json.dumps({'eos_token_id': stops, **generation}), encoding='utf-8')
    return copy


class WithBoth(unittest.TestCase):
    """A server and an edge that serves beside it."""
    server_flags = ()
    model = TARGET

    @classmethod
    def setUpClass(cls):
        cls.server = Server('--http-port', 0, '--metrics-port', 0, *cls.server_flags, model=cls.model)
        cls.port = free_port()
        cls.edge = Edge('serve', '--model', DRAFT, '--server', cls.server.address, '--port', cls.port)
        wait_until_served(f'http://127.0.0.1:{cls.port}')
        cls.bases = (openai_of(cls.server), f'http://127.0.0.1:{cls.port}')

    @classmethod
    def tearDownClass(cls):
        cls.edge.interrupt()
        cls.edge.wait()
        cls.server.stop()

    def complete(self, base, **fields):
        code, answer = ask(base, '/v1/completions', **({'prompt': PROMPT, 'max_tokens': TOKENS} | fields))
        self.assertEqual(code, 200, answer)
        return answer

    def run_edge(self, *flags, tokens=TOKENS):
        done = edge('run', '--server', self.server.address, '--model', DRAFT, '-n', tokens, '--json', *flags)
        self.assertEqual(done.code, 0, done.err)
        return done


class Seeds(WithBoth):
    def test_each_answer_draws_one_and_names_it_and_it_repeats_the_answer(self):
        for base in self.bases:
            drawn = [self.complete(base, temperature=1, **fields) for fields in ({}, {'seed': None}, {'seed': -1})]
            seeds = [answer['outrider']['seed'] for answer in drawn]
            self.assertEqual(len(set(seeds)), 3, seeds)
            self.assertGreater(len({text_of(answer) for answer in drawn}), 1, 'three answers are not one')
            again = self.complete(base, temperature=1, seed=seeds[0])
            self.assertEqual(text_of(again), text_of(drawn[0]))
            self.assertEqual(again['outrider'], {'seed': seeds[0]})
            self.assertNotIn('outrider', self.complete(base), 'at temperature 0 no seed matters')

    def test_a_stream_names_it_at_its_end(self):
        for base in self.bases:
            connection = http.client.HTTPConnection(base.removeprefix('http://'), timeout=60)
            connection.request('POST', '/v1/completions', json.dumps(
                {'prompt': PROMPT, 'max_tokens': TOKENS, 'temperature': 1, 'stream': True}))
            lines = connection.getresponse().read().decode().splitlines()
            connection.close()
            events = [json.loads(line[6:]) for line in lines if line.startswith('data: {')]
            seeds = [event['outrider']['seed'] for event in events if 'outrider' in event]
            self.assertEqual(len(seeds), 1, events)
            text = ''.join(event['choices'][0]['text'] for event in events)
            self.assertEqual(text_of(self.complete(base, temperature=1, seed=seeds[0])), text)

    def test_run_draws_one_and_says_how_to_repeat_it(self):
        first, second = (self.run_edge('-p', PROMPT, '--temp', 1) for _ in range(2))
        self.assertNotEqual(first.json['seed'], second.json['seed'])
        self.assertIn(f"--seed {first.json['seed']} repeats this answer", first.err)
        again = self.run_edge('-p', PROMPT, '--temp', 1, '--seed', first.json['seed'])
        self.assertEqual(again.json['ids'], first.json['ids'])
        self.assertNotEqual(self.run_edge('-p', PROMPT, '--temp', 1, '--seed', '-1').json['seed'], first.json['seed'])
        greedy = self.run_edge('-p', PROMPT)
        self.assertIsNone(greedy.json['seed'])
        self.assertNotIn('--seed', greedy.err)

    def test_an_edge_keeps_it_when_its_target_takes_over(self):
        own = ('--target', TARGET, '--mode', 'auto', '--failover-after', '0.3', '--temp', 1)
        running = Edge('run', '--server', self.server.address, '--model', DRAFT, '-p', PROMPT, '-n', TOKENS, '--json', *own,
                       '--metered-limit', '0.001')
        switched = running.wait()
        self.assertEqual(switched.code, 0, switched.err)
        self.assertGreater(switched.json['failovers_total'], 0, switched.err)
        alone = self.run_edge('-p', PROMPT, '--temp', 1, '--seed', switched.json['seed'])
        self.assertEqual(switched.json['ids'], alone.json['ids'])


class Choice(WithBoth):
    """Penalties, biases and forbidden tokens: the target's own text with them, for every draft and every place where it decides."""
    SETTINGS = ('--presence-penalty', 0.6, '--frequency-penalty', 0.4, '--repetition-penalty', 1.2, '--bad-word', 'blue')

    def test_no_draft_and_no_place_changes_the_text(self):
        for how in (('--temp', 0), ('--temp', 0.8, '--seed', 5)):
            plain = self.run_edge('-p', PROMPT, *how).json['ids']
            expected = self.run_edge('-p', PROMPT, '--strategy', 'ar', *how, *self.SETTINGS)
            self.assertNotEqual(expected.json['ids'], plain)
            self.assertNotIn('blue', expected.json['text'])
            others = [('--strategy', 'sd'), ('--strategy', 'mirror'), ('--draft-at', 'server'), ('--strategy', 'sd', '--tree', 'outrider'),
                      ('--mode', 'offline', '--target', TARGET)]
            for other in others:
                again = self.run_edge('-p', PROMPT, *other, *how, *self.SETTINGS)
                self.assertEqual(again.json['ids'], expected.json['ids'], (how, other))

    def test_stop_tokens_wait_for_min_tokens_and_others_stop_too(self):
        usual = self.run_edge('-p', PROMPT, tokens=200).json
        self.assertLess(len(usual['ids']), 200)
        length = len(usual['ids']) + 20
        longer = self.run_edge('-p', PROMPT, '--min-tokens', length, tokens=length + 20).json
        self.assertGreaterEqual(len(longer['ids']), length)
        shorter = self.run_edge('-p', PROMPT, '--stop-token', usual['ids'][3], tokens=200).json
        self.assertEqual(shorter['ids'], usual['ids'][:usual['ids'].index(usual['ids'][3]) + 1])

    def test_a_bias_lifts_a_token(self):
        token = self.run_edge('-p', PROMPT).json['ids'][0]
        biased = self.run_edge('-p', PROMPT, '--ignore-eos', '--logit-bias', f'{token}+100', tokens=5).json
        self.assertEqual(biased['ids'], [token] * 5)

    def test_log_probabilities_are_the_targets_with_and_without_drafts(self):
        for how in ((), ('--temp', 0.8, '--seed', 5, *self.SETTINGS)):
            first = self.run_edge('-p', PROMPT, '--strategy', 'ar', '--logprobs', 3, *how).json
            self.assertEqual([one['id'] for one in first['logprobs']], first['ids'])
            for one in first['logprobs']:
                likeliest = [other['logprob'] for other in one['top_logprobs']]
                self.assertEqual(likeliest, sorted(likeliest, reverse=True))
                self.assertEqual(len(likeliest), 3)
                self.assertLessEqual(one['logprob'], likeliest[0])
                self.assertLessEqual(sum(math.exp(value) for value in likeliest), 1.000001)
            for other in (('--strategy', 'mirror'), ('--strategy', 'sd', '--tree', 'outrider'), ('--mode', 'offline', '--target', TARGET)):
                again = self.run_edge('-p', PROMPT, *other, '--logprobs', 3, *how).json
                self.assertEqual(again['logprobs'], first['logprobs'], (how, other))
        self.assertIsNone(self.run_edge('-p', PROMPT).json['logprobs'])

    def test_wrong_values_are_refused_by_name(self):
        for flags, name in ((('--presence-penalty', 3), '--presence-penalty'), (('--logit-bias', '5'), '--logit-bias'),
                            (('--logit-bias', '99999999+1'), 'logit_bias'), (('--logit-bias', '5+101'), 'logit_bias of token 5'),
                            (('--min-tokens', 50, '-n', 10), '--min-tokens 50'), (('--bad-word', ''), 'bad_words'),
                            (('--stop-token', 99999999), 'stop_ids'), (('--logprobs', 21), '--logprobs')):
            done = edge('run', '--server', self.server.address, '--model', DRAFT, '-p', PROMPT, *flags)
            self.assertNotEqual(done.code, 0, flags)
            self.assertIn(name, done.err, flags)


class TargetsSampling(WithBoth):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.model = copy_of_target(cls.folder.name, SAMPLED)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_it_holds_where_requests_and_flags_are_silent_and_both_programs_agree(self):
        settings = {'temperature': 0.9, 'top_k': 20, 'seed': 5}
        messages = [{'role': 'user', 'content': PROMPT}]
        chats, raws = set(), set()
        for base in self.bases:
            for fields in (settings, {'seed': 5}):
                raws.add(text_of(self.complete(base, **fields)))
                code, answer = ask(base, '/v1/chat/completions', messages=messages, max_tokens=TOKENS, **fields)
                self.assertEqual(code, 200, answer)
                chats.add(text_of(answer))
            self.assertNotIn(text_of(self.complete(base, temperature=0)), raws, 'a field has priority')
        raws.add(self.run_edge('--raw', '-p', PROMPT, '--seed', 5).json['text'])
        chats.add(self.run_edge('-p', PROMPT, '--seed', 5).json['text'])
        chats.add(self.run_edge('-p', PROMPT, '--seed', 5, '--temp', 0.9, '--top-k', 20).json['text'])
        own = edge('run', '--target', self.model, '--model', DRAFT, '-p', PROMPT, '--seed', 5, '-n', TOKENS, '--json')
        chats.add(own.json['text'])
        self.assertEqual((len(chats), len(raws)), (1, 1))

    def test_it_is_said_and_so_is_what_is_left_out(self):
        self.assertIn('  sampling     temperature 0.9, top_k 20 (generation_config.json; left out: repetition_penalty 1.05)\n',
                      self.server.log)
        notice = 'sampling: temperature 0.9, top_k 20'
        self.assertIn(notice, self.run_edge('-p', PROMPT).err)
        self.assertNotIn(notice, self.run_edge('-p', PROMPT, '--temp', 0).err)
        own = edge('run', '--target', self.model, '--model', DRAFT, '-p', PROMPT, '-n', 1)
        self.assertIn('left out of its generation_config.json: repetition_penalty 1.05', own.err)

    def test_none_turns_it_off_on_either_side(self):
        greedy = self.run_edge('-p', PROMPT, '--temp', 0).json['ids']
        self.assertEqual(self.run_edge('-p', PROMPT, '--generation-config', 'none').json['ids'], greedy)
        with Server('--generation-config', 'none', model=self.model) as server:
            self.assertFalse([line for line in server.log if line.split()[:1] == ['sampling']])
            off = edge('run', '--server', server.address, '--model', DRAFT, '-p', PROMPT, '-n', TOKENS, '--json')
            self.assertEqual(off.json['ids'], greedy)

    def test_a_pack_has_it_too(self):
        pack = Path(self.folder.name) / 'target.pack'
        self.assertEqual(edge('pack', '--model', self.model, '--out', pack).code, 0)
        packed = edge('run', '--target', pack, '--model', DRAFT, '-p', PROMPT, '--seed', 5, '-n', TOKENS, '--json', '-c', 256)
        self.assertEqual(packed.code, 0, packed.err)
        self.assertEqual(packed.json['ids'], self.run_edge('-p', PROMPT, '--seed', 5).json['ids'])
        self.assertEqual(packed.json['seed'], 5, 'it sampled')


class Names(WithBoth):
    server_flags = ('--served-model-name', 'robot-9')

    def test_one_name_stands_everywhere(self):
        metrics = next(line.split()[1] for line in self.server.log if line.split()[:1] == ['metrics'])
        pages = [page(metrics, '/metrics'), page(self.bases[1], '/metrics'), page(self.bases[0], '/version')]
        pages += [page(base, '/v1/models') for base in self.bases]
        for each in pages:
            names = set(re.findall(r'demo-\w+|robot-9', each))
            self.assertEqual(names, {'robot-9'}, each[:200])
        self.assertEqual(self.run_edge('-p', PROMPT).json['target'], 'robot-9')
        for base in self.bases:
            self.assertEqual(self.complete(base)['model'], 'robot-9')

    def test_a_dot_is_the_folders_name(self):
        with Server('--http-port', 0, model='.', under=('env', '-C', TARGET)) as server:
            self.assertEqual(json.loads(page(openai_of(server), '/v1/models'))['data'][0]['id'], 'demo-target')


class RawPrompts(WithBoth):
    def test_the_tokens_that_the_author_wrote_count_everywhere(self):
        done = edge('tokenize', '--tokenizer', DRAFT, '--whole', stdin=TURN)
        ids = json.loads(done.out)
        plain = json.loads(edge('tokenize', '--tokenizer', DRAFT, '--whole', '--no-parse-special', stdin=TURN).out)
        self.assertLess(len(ids), len(plain))
        for base in self.bases:
            self.assertEqual(ask(base, '/tokenize', content=TURN)[1]['tokens'], ids)
            self.assertEqual(ask(base, '/tokenize', prompt=TURN, parse_special=False)[1]['tokens'], plain)
            self.assertEqual(self.complete(base, prompt=TURN)['usage']['prompt_tokens'], len(ids))
            self.assertEqual(self.complete(base, prompt=TURN, parse_special=False)['usage']['prompt_tokens'], len(plain))
        self.assertEqual(self.run_edge('--raw', '-p', TURN).json['prompt_tokens'], len(ids))
        self.assertEqual(self.run_edge('--raw', '--no-parse-special', '-p', TURN).json['prompt_tokens'], len(plain))

    def test_bytes_that_are_not_utf8_are_refused_by_their_place(self):
        for flags, where in (((), 'stdin, line 2: byte 3'), (('--whole',), 'stdin: byte 6')):
            with self.subTest(flags=flags):
                done = subprocess.run([BIN / 'outrider-edge', 'tokenize', '--tokenizer', DRAFT, *flags], input=b'Go\nGo\xff\n',
                                      capture_output=True, check=False, env=CLEAN_ENVIRONMENT, timeout=60)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(f'{where} is not UTF-8', done.stderr.decode())

    def test_a_message_cannot_write_the_template(self):
        for base in self.bases:
            answers = [ask(base, '/v1/chat/completions', messages=[{'role': 'user', 'content': text}], max_tokens=1)[1]
                       for text in (TURN, '')]
            added_tokens = answers[0]['usage']['prompt_tokens'] - answers[1]['usage']['prompt_tokens']
            self.assertGreater(added_tokens, len(ask(base, '/tokenize', content=TURN)[1]['tokens']))

    def test_programs_tell_what_is_refused(self):
        long = 'word ' * 3000
        for base in self.bases:
            for path, body, code, param in (
                    ('/v1/completions', {'prompt': long}, 'context_length_exceeded', 'prompt'),
                    ('/v1/chat/completions', {'messages': [{'role': 'user', 'content': long}]}, 'context_length_exceeded', 'messages'),
                    ('/v1/completions', {'prompt': 'x', 'tools': [{}]}, 'unsupported_parameter', 'tools'),
                    ('/v1/completions', {'prompt': 'x', 'model': 'demo-target@60'}, 'model_not_found', 'model')):
                status, answer = ask(base, path, **body)
                self.assertIn(status, (400, 404), answer)
                error = answer['error']
                self.assertEqual((error['type'], error['code'], error['param']), ('invalid_request_error', code, param))
                # LiteLLM and others know what is beyond the context by these words.
                self.assertEqual('prompt is too long' in error['message'], code == 'context_length_exceeded', error)


if __name__ == '__main__':
    run_tests()
