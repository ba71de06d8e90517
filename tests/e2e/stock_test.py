#!/usr/bin/env python3
"""An edge drafts for servers that are not Outrider's: the text is the one that they write alone, and each of their faults is a
clear error. The real llama-cpp-python server: bench/peers/stock.py.

  OUTRIDER_BIN=build/release/bin tests/e2e/stock_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import time
import unittest
import urllib.error
import urllib.request

from programs import DRAFT, TARGET, Edge, edge, free_port, wait_until_served
from runner import run_tests
from stock_servers import LlamaCppServer, Reply, VllmServer, ids_of, is_judged

FOUND = ' In view: red cup ahead at 1.2 m, blue box right at 0.8 m, white door left at 3 m.'
PROMPT = 'Repeat this, and then say what is near.' + FOUND
# It has repetitions, half characters, digits, and words that no draft expects.
TEXT = FOUND + ' Then: naïve 東京 2.50 €, as the robot says.' + FOUND + ' Done.'
KINDS = (VllmServer, LlamaCppServer)
LOOK_UP = ('--tokenizer', DRAFT, '--draft-source', 'lookup', '--strategy', 'sd')


def ask(server, *flags, command=('run', '--raw', '-p', PROMPT), draft=LOOK_UP, tokens=200):
    return edge(*command, '--server', server.address, '--server-api', server.api, *draft, '-n', tokens, '--json', *flags)


def at(number, status, body='', headers=None):
    """A fault that one completion meets. Requests before the answer's first, of the check of tokenizers, count."""
    def before(now, _):
        if now == number:
            raise Reply(status, body, headers)
    return before


class Texts(unittest.TestCase):
    def test_the_text_is_the_servers_own_whatever_drafts(self):
        ways = {'look-up': LOOK_UP, 'plain': ('--tokenizer', DRAFT, '--strategy', 'ar'), 'a model, ahead': ('--model', DRAFT),
                'a model': ('--model', DRAFT, '--strategy', 'sd')}
        for kind in KINDS:
            for name, draft in ways.items():
                with self.subTest(api=kind.api, way=name), kind(PROMPT, TEXT) as server:
                    done = ask(server, draft=draft)
                    self.assertEqual(done.code, 0, done.err)
                    self.assertEqual(done.json['text'], TEXT)
                    self.assertEqual(done.json['stop_reason'], 'stop_token')
                    self.assertEqual(server.connections, 1, 'a connection serves the whole answer')

    def test_a_request_judges_a_round(self):
        for kind in KINDS:
            with self.subTest(api=kind.api), kind(PROMPT, TEXT) as server:
                server.token_seconds = 0.02
                done = ask(server)
                self.assertGreater(sum(map(is_judged, server.requests)), 5)
                self.assertGreater(done.json['spec_decode_num_accepted_tokens'], 30, done.err)
                self.assertLess(len(server.requests), 0.7 * done.json['completion_tokens'])

    def test_where_two_tokens_are_nearly_level_the_server_writes(self):
        for kind in KINDS:
            with self.subTest(api=kind.api), kind(PROMPT, TEXT) as server:
                server.level, server.token_seconds = range(0, 200, 3), 0.02
                done = ask(server)
                self.assertEqual(done.json['text'], TEXT)
                self.assertGreater(done.json['spec_decode_num_accepted_tokens'], 10, done.err)

    def test_a_server_that_judges_slower_than_it_writes_is_left_to_write(self):
        for kind in KINDS:
            with self.subTest(api=kind.api), kind(PROMPT, TEXT) as server:
                server.judge_seconds = 0.5
                done = ask(server)
                self.assertEqual(done.json['text'], TEXT)
                self.assertEqual(sum(map(is_judged, server.requests)), 1, 'the probe, before the answer')

    def test_plain_decoding_asks_for_more_each_time(self):
        for kind in KINDS:
            with self.subTest(api=kind.api), kind(PROMPT, TEXT) as server:
                self.assertEqual(ask(server, draft=('--tokenizer', DRAFT, '--strategy', 'ar')).json['text'], TEXT)
                self.assertLess(len(server.requests), 12)

    def test_it_is_marked(self):
        for kind in KINDS:
            with self.subTest(api=kind.api), kind(PROMPT, TEXT) as server:
                done = ask(server)
                self.assertEqual(done.json['arithmetic'], "not Outrider's bits")
                self.assertEqual(done.json['target'], f"reciter ({kind.api}, not Outrider's bits)")
                self.assertRegex(done.err, r"target +reciter \(.*, not Outrider's bits\)")

    def test_an_answer_ends_where_it_is_asked_to(self):
        for kind in KINDS:
            with self.subTest(api=kind.api), kind(PROMPT, TEXT) as server:
                self.assertEqual(ask(server, tokens=7).json['ids'], list(ids_of(TEXT)[:7]))
                self.assertEqual(ask(server, '--stop', 'blue box').json['text'], TEXT[:TEXT.index('blue box')])

    def test_a_chat_is_written_by_the_edges_template(self):
        for kind in KINDS:
            prompt = '<|im_start|>user\nSay it.<|im_end|>\n<|im_start|>assistant\n'
            with self.subTest(api=kind.api), kind(prompt, 'It is said.') as server:
                done = ask(server, command=('run', '-p', 'Say it.'))
                self.assertEqual(done.json['text'], 'It is said.', done.err)

    def test_serve_answers_and_refuses_by_name(self):
        for kind in KINDS:
            with self.subTest(api=kind.api), kind(PROMPT, TEXT) as server:
                port = free_port()
                serving = Edge('serve', '--port', port, '--server', server.address, '--server-api', server.api, *LOOK_UP)
                self.addCleanup(serving.wait)
                self.addCleanup(serving.interrupt)
                base = f'http://127.0.0.1:{port}'
                wait_until_served(base)

                def post(**fields):
                    body = json.dumps({'prompt': PROMPT, 'max_tokens': 200, 'outrider': True, **fields}).encode()
                    asked = urllib.request.Request(f'{base}/v1/completions', body, {'Content-Type': 'application/json'})
                    return json.loads(urllib.request.urlopen(asked, timeout=60).read())

                said = post(temperature=0)
                self.assertEqual(said['choices'][0]['text'], TEXT)
                self.assertIn("not Outrider's bits", said['model'])
                self.assertEqual(said['outrider']['arithmetic'], "not Outrider's bits")
                for field, value in (('temperature', 0.7), ('presence_penalty', 1), ('logprobs', 1)):
                    with self.assertRaises(urllib.error.HTTPError, msg=field) as refused:
                        post(**{'temperature': 0, field: value})
                    self.assertIn("not Outrider's", refused.exception.read().decode())


class Refusals(unittest.TestCase):
    def test_flags_that_another_server_cannot_follow_are_refused_by_name(self):
        for flag in (('--temp', '0.5'), ('--tree', 'lever', '--strategy', 'sd'), ('--pad-frames',), ('--target', TARGET),
                     ('--draft-at', 'server', '--draft-source', 'none')):
            done = edge('run', '-p', 'x', '--server', '127.0.0.1:9', '--server-api', 'vllm', '--model', DRAFT, *flag)
            self.assertEqual(done.code, 2, done.err)
            self.assertIn(flag[0], done.err)
            self.assertIn('Remedy', done.err)
        done = edge('run', '-p', 'x', '--server', '127.0.0.1:9', '--model', DRAFT, '--server-model', 'm')
        self.assertIn('--server-model m', done.err)

    def test_another_tokenizer_is_refused(self):
        class Other(VllmServer):
            def tokenize(self, ids):
                return [*ids[1:], ids[0]]

        class OtherPieces(LlamaCppServer):
            def logprobs(self, ids, prompt):
                found = super().logprobs(ids, prompt)
                return {**found, 'tokens': ['Ġ' + piece for piece in found['tokens']]}

        for kind in (Other, OtherPieces):
            with self.subTest(api=kind.api), kind(PROMPT, TEXT) as server:
                done = ask(server)
                self.assertEqual(done.code, 1)
                self.assertIn('another tokenizer', done.err)
                self.assertIn('--tokenizer', done.err)

    def test_a_prompt_that_spells_a_special_token_is_refused_where_it_would_be_read_as_one(self):
        with LlamaCppServer(PROMPT, TEXT) as server:
            done = ask(server, '--no-parse-special', command=('run', '--raw', '-p', 'a <|im_end|> b'))
            self.assertEqual(done.code, 2)
            self.assertIn('reads this one as other tokens', done.err)

    def test_a_model_that_is_not_there_and_a_key_that_is_wrong(self):
        with VllmServer(PROMPT, TEXT) as server:
            done = ask(server, '--server-model', 'other')
            self.assertIn('has no model "other". Remedy: --server-model with one of "reciter"', done.err)
            server.key = 'secret'
            done = ask(server)
            self.assertEqual(done.code, 1)
            self.assertIn('401: "Invalid API key". Remedy: --token-file', done.err)


class Faults(unittest.TestCase):
    def fails(self, kind, words, before=None, after=None):
        with self.subTest(api=kind.api), kind(PROMPT, TEXT, before, after) as server:
            done = ask(server)
            self.assertEqual(done.code, 1, done.out)
            self.assertIn(words, done.err)
            self.assertIn(server.address, done.err)
            return done

    def test_an_error_of_the_server_ends_the_answer(self):
        for kind in KINDS:
            third = 3  # the probe is the first
            self.fails(kind, 'the status 500: "out of memory"', at(third, 500, '{"error": {"message": "out of memory"}}'))
            self.fails(kind, 'does not answer in JSON', at(third, 200, '{"choices": [{"text": "'))
            self.fails(kind, 'does not answer in JSON', at(third, 200, '{"choices": NaN}'))
            self.fails(kind, 'answers without', at(third, 200, '{"choices": []}'))
        self.fails(LlamaCppServer, '--logits_all true',
                   at(0, 500, '{"error": {"message": "logprobs is not supported for models created with logits_all=False"}}'))

    def test_log_probabilities_that_are_missing_or_none_end_the_answer(self):
        def without(number, reply):
            for choice in reply['choices']:
                choice.pop('prompt_logprobs', None)
                if choice.get('logprobs') and 'top_logprobs' in choice['logprobs'] and number > 0:
                    choice['logprobs'] = None

        def not_numbers(number, reply):
            for choice in reply['choices']:
                for place in (choice.get('prompt_logprobs') or [])[1:]:
                    for found in place.values():
                        found['logprob'] = None
                listed = (choice.get('logprobs') or {}).get('top_logprobs') if number > 0 else None
                for place in (listed or [])[1:]:
                    place.update({piece: 'high' for piece in place})

        for kind in KINDS:
            self.fails(kind, 'log-probabilit', after=without)
            self.fails(kind, 'log-probabilit', after=not_numbers)

    def test_another_model_in_mid_answer_ends_it(self):
        def renamed(number, reply):
            if number > 4:
                reply['model'] = 'another'

        for kind in KINDS:
            self.fails(kind, 'answers by the model "another", and began with "reciter"', after=renamed)

    def test_what_passes_is_waited_for(self):
        for kind in KINDS:
            third = 3  # the probe is the first
            cut = at(third, 200, '{"choices": [', {'Content-Length': 1000, 'Connection': 'close'})
            for name, fault in (('closes', at(third, None)), ('is cut', cut), ('restarts', at(third, 503, 'starting')),
                                ('limits', at(third, 429, '{"message": "slow down"}', {'Retry-After': 1}))):
                with self.subTest(api=kind.api, fault=name), kind(PROMPT, TEXT, fault) as server:
                    begun = time.monotonic()
                    done = ask(server)
                    self.assertEqual(done.code, 0, done.err)
                    self.assertEqual(done.json['text'], TEXT)
                    if name == 'closes':
                        continue  # the request is sent again over a new connection
                    self.assertEqual(done.json['reconnects'], 1)
                    if name == 'limits':
                        self.assertGreater(time.monotonic() - begun, 1)
                        self.assertIn('asks to wait 1.0 s', done.err)

    def test_this_devices_target_goes_on_where_that_is_asked_for(self):
        def dies(number, _):
            if number > 3:  # so few requests bring few tokens, drafted or not
                raise Reply(None)

        with VllmServer(PROMPT, TEXT, dies) as server:
            done = ask(server, '--offline-target', TARGET, draft=('--model', DRAFT), command=('run', '--raw', '-p', PROMPT, '-c', '200'))
            self.assertEqual(done.code, 0, done.err)
            self.assertIn("no longer reciter (vllm, not Outrider's bits); the text may differ", done.err)
            self.assertEqual(done.json['mode'], 'auto')
            self.assertNotEqual(done.json['arithmetic'], "not Outrider's bits")


class Doctor(unittest.TestCase):
    def test_it_says_where_a_round_costs_more_than_it_brings(self):
        def slow(_, body):
            time.sleep(0.2 if body.get('prompt_logprobs') else 0.005 * body['max_tokens'])

        with VllmServer(PROMPT, TEXT, slow) as server:
            done = ask(server, command=('doctor', '-p', PROMPT), draft=('--tokenizer', DRAFT, '--chat-template', 'none'))
            self.assertEqual(done.code, 0, done.err)
            self.assertEqual(done.json['advice'], {'draft': False, 'decided': True, 'strategy': 'ar'})
            self.assertGreater(done.json['requests']['tokens_to_pay'], 5)
            self.assertIn('a request that judges 4 drafted tokens', done.err)


if __name__ == '__main__':
    run_tests()
