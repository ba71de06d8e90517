#!/usr/bin/env python3
"""The server's OpenAI routes, for clients that have no draft, over real HTTP.

  OUTRIDER_BIN=build/release/bin tests/e2e/completions_test.py

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import re
import shutil
import signal
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from loops import LONGEST, LOOPING, ask_level, longest_loop, times_of
from programs import DRAFT, FORGETFUL, TARGET, Edge, Server, edge, eventually, limit, new_key
from runner import run_tests

PROMPT = (DRAFT.parents[1] / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
MESSAGES = [{'role': 'user', 'content': PROMPT}]


class Client:
    def __init__(self, server, key=None):
        line = next(line for line in server.log if line.split()[:1] == ['openai'])
        self.address = line.split('http://')[1].strip()
        self.headers = {'Content-Type': 'application/json'}
        if key:
            self.headers['Authorization'] = f'Bearer {key}'

    def open(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {**self.headers, **(headers or {})})
        return connection, connection.getresponse()

    def ask(self, method, path, body=None, headers=None):
        connection, response = self.open(method, path, body, headers)
        try:
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def chat(self, **fields):
        return self.ask('POST', '/v1/chat/completions', {'messages': MESSAGES} | fields)

    def events(self, **fields):
        connection, response = self.open('POST', '/v1/chat/completions',
                                         {'messages': MESSAGES, 'stream': True, **fields})
        with_data = [line[6:] for line in response.read().decode().splitlines() if line.startswith('data: ')]
        connection.close()
        return [json.loads(line) for line in with_data[:-1]], with_data[-1]


class Completions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server('--http-port', 0, '--max-concurrent-sessions', 2)
        cls.client = Client(cls.server)

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def test_the_text_is_the_edges(self):
        for fields, flags in (({'temperature': 0}, ('--temp', '0')),
                              ({'temperature': 0.8, 'seed': 5}, ('--temp', '0.8', '--seed', '5'))):
            code, answer = self.client.chat(max_tokens=40, **fields)
            self.assertEqual(code, 200, answer)
            drafted = edge('run', '--server', self.server.address, '--model', DRAFT, '-p', PROMPT,
                           '-n', '40', '--json', *flags)
            self.assertEqual(answer['choices'][0]['message']['content'], drafted.json['text'])
            self.assertEqual(answer['usage']['completion_tokens'], len(drafted.json['ids']))
            self.assertEqual(answer['usage']['prompt_tokens'], drafted.json['prompt_tokens'])

    def test_streamed_it_is_the_same_text(self):
        _, whole = self.client.chat(max_tokens=40)
        events, last = self.client.events(max_tokens=40, stream_options={'include_usage': True})
        self.assertEqual(last, '[DONE]')
        text = ''.join(event['choices'][0]['delta'].get('content', '')
                       for event in events if event['choices'])
        self.assertEqual(text, whole['choices'][0]['message']['content'])
        self.assertEqual(events[-1]['usage'], whole['usage'])

    def test_stop_strings_and_lengths_end_it(self):
        _, whole = self.client.chat(max_tokens=40)
        text = whole['choices'][0]['message']['content']
        stop = text[8:12]
        _, stopped = self.client.chat(max_tokens=40, stop=[stop])
        self.assertEqual(stopped['choices'][0]['message']['content'], text[:text.index(stop)])
        self.assertEqual(stopped['choices'][0]['finish_reason'], 'stop')
        _, short = self.client.chat(max_tokens=3)
        self.assertEqual(short['choices'][0]['finish_reason'], 'length')
        self.assertEqual(short['usage']['completion_tokens'], 3)

    def test_plain_completions_models_and_tokens(self):
        code, answer = self.client.ask('POST', '/v1/completions',
                                       {'prompt': 'The robot', 'max_tokens': 4})
        self.assertEqual(code, 200, answer)
        self.assertEqual(answer['usage']['completion_tokens'], 4)
        code, models = self.client.ask('GET', '/v1/models')
        self.assertEqual([model['id'] for model in models['data']], ['demo-target'])
        self.assertRegex(models['data'][0]['template_hash'], '^[0-9a-f]{64}$')
        code, tokens = self.client.ask('POST', '/tokenize', {'content': 'The robot'})
        self.assertEqual(len(tokens['tokens']), answer['usage']['prompt_tokens'])
        connection, response = self.client.open('GET', '/health/ready')
        self.assertEqual(response.status, 200)
        connection.close()

    def test_what_is_wrong_is_named(self):
        for fields, words in (({'n': 500}, "'n'"), ({'temperature': 'hot'}, 'temperature'),
                              ({'max_tokens': -5}, 'max_tokens'), ({'messages': []}, 'messages'),
                              ({'messages': [{'role': 'user', 'content': 'word ' * 3000}]}, '1024')):
            code, answer = self.client.ask('POST', '/v1/chat/completions',
                                           {'messages': MESSAGES, **fields})
            self.assertEqual(code, 400, answer)
            self.assertIn(words, answer['error']['message'])
        code, answer = self.client.ask('POST', '/v1/chat/completions', {'messages': MESSAGES},
                                       {'Origin': 'http://elsewhere.example'})
        self.assertEqual(code, 403, answer)
        code, _ = self.client.ask('GET', '/v1/chat/completions')
        self.assertEqual(code, 405)

    def test_more_requests_than_places_wait_and_all_are_answered(self):
        asked = [f'{number} red cups' for number in range(8)]
        alone = [self.client.chat(messages=[{'role': 'user', 'content': text}], max_tokens=12) for text in asked]
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(
                lambda text: self.client.chat(messages=[{'role': 'user', 'content': text}], max_tokens=12), asked))
        for (code, one), (code_together, other) in zip(alone, together):
            self.assertEqual((code, code_together), (200, 200), other)
            self.assertEqual(one['choices'], other['choices'])

    def test_a_prompt_that_begins_like_an_earlier_one_is_not_read_again(self):
        prompt = 'The robot has seen: ' + ' '.join(f'box {number} at {number} m.' for number in range(40))
        counts = []
        for ending in ('Where is box 3?', 'Where is box 30?'):
            code, answer = self.client.ask('POST', '/v1/completions',
                                           {'prompt': f'{prompt} {ending}', 'max_tokens': 2})
            self.assertEqual(code, 200, answer)
            counts.append(answer['usage'])
        self.assertGreater(counts[1]['prompt_tokens_details']['cached_tokens'], 100)
        self.assertLess(counts[1]['prompt_tokens_details']['cached_tokens'], counts[1]['prompt_tokens'])

    def test_a_client_that_leaves_gives_its_place_back(self):
        for _ in range(4):  # twice as many as there are places
            connection, response = self.client.open(
                'POST', '/v1/completions', {'prompt': 'The robot', 'stream': True})
            response.readline()
            connection.sock.close()
            response.close()
        def is_answered():
            code, answer = self.client.chat(max_tokens=2)
            self.assertIn(code, (200, 429, 503), answer)
            return code == 200
        eventually(is_answered, 'no place was given back')


class Keys(unittest.TestCase):
    def test_only_known_keys_are_answered_within_their_quota(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Path(folder) / 'tokens'
            key = new_key(tokens)
            limit(tokens, 'prompt-tokens-per-minute=10')
            with Server('--http-port', 0, '--token-file', tokens) as server:
                for unknown in (Client(server), Client(server, 'x' * 43)):
                    for method, path in (('POST', '/v1/chat/completions'), ('GET', '/v1/models')):
                        code, answer = unknown.ask(method, path, {'messages': MESSAGES})
                        self.assertEqual(code, 401, answer)
                friend = Client(server, key)
                self.assertEqual(friend.chat(max_tokens=2)[0], 200)
                connection, response = friend.open('POST', '/v1/chat/completions', {'messages': MESSAGES})
                self.assertEqual(response.status, 429, response.read())
                self.assertGreater(int(response.headers['Retry-After']), 10)  # a prompt is some dozens of tokens
                connection.close()


class RequestIds(unittest.TestCase):
    def test_they_are_answered_and_stand_in_the_audit_log(self):
        with tempfile.TemporaryDirectory() as folder:
            prices = Path(folder) / 'prices.toml'
            prices.write_text('date = "2026-01-31"\n[api]\ninput = 1\ncached-input = 0.5\noutput = 3\n', encoding='utf-8')
            self.ask_both_ways(folder, '--price-file', prices)

    def ask_both_ways(self, folder, *flags):
        with Server('--http-port', 0, '--log-format', 'json', *flags) as server:
            client = Client(server)
            connection, response = client.open(
                'POST', '/v1/chat/completions', {'messages': MESSAGES, 'max_tokens': 2},
                {'X-Request-Id': 'robot-7:1'})
            response.read()
            connection.close()
            self.assertEqual(response.headers['X-Request-Id'], 'robot-7:1')
            connection, response = client.open('GET', '/v1/models')
            response.read()
            connection.close()
            self.assertRegex(response.headers['X-Request-Id'], '^req-')
            self.through_an_edge(server, folder)
        ended = [json.loads(line) for line in server.log if 'session ended' in line]
        self.assertEqual([line['request_id'] for line in ended], ['robot-7:1', 'robot-7:2'])
        for line in ended:
            self.assertGreater(line['bytes_up'], 0)
            self.assertGreater(line['bytes_down'], 0)
            dollars = (line['prompt_tokens'] - line['cached_tokens'] + 0.5 * line['cached_tokens']
                       + 3 * line['completion_tokens']) / 1e6
            self.assertAlmostEqual(line['api_dollars'], dollars, delta=dollars / 1e4)
            self.assertEqual(line['prices_of'], '2026-01-31')

    def through_an_edge(self, server, folder):
        with open(Path(folder) / 'out', 'w+', encoding='utf-8') as out:
            runner = Edge('serve', '--model', DRAFT, '--server', server.address, '--port', 0, '-n', '4',
                          stdout=out)
            eventually(lambda: 'ready' in Path(out.name).read_text(encoding='utf-8'))
            url = re.search(r'http://(\S+)', Path(out.name).read_text(encoding='utf-8')).group(1)
            connection = http.client.HTTPConnection(url, timeout=60)
            connection.request('POST', '/v1/chat/completions', json.dumps({'messages': MESSAGES}),
                               {'X-Request-Id': 'robot-7:2'})
            response = connection.getresponse()
            self.assertEqual(response.status, 200, response.read())
            self.assertEqual(response.headers['X-Request-Id'], 'robot-7:2')
            response.read()
            connection.close()
            runner.interrupt()
            self.assertEqual(runner.wait().code, 0)


class Shares(unittest.TestCase):
    def test_a_tenant_takes_no_more_memory_than_its_share(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Path(folder) / 'tokens'
            key = new_key(tokens)
            limit(tokens, 'kv-memory=1K')
            with self.assertRaises(RuntimeError) as refused:
                Server('--token-file', tokens)
            least = re.search(r'kv-memory of alice is less .* needs, (\d+) bytes', str(refused.exception))
            self.assertTrue(least, refused.exception)
            limit(tokens, f'kv-memory={least.group(1)}')
            with Server('--http-port', 0, '--token-file', tokens, '--pace-pass-ms', 100) as server:
                alice = Client(server, key)
                connection, response = alice.open(
                    'POST', '/v1/completions', {'prompt': 'The robot', 'stream': True, 'max_tokens': 300, 'ignore_eos': True})
                while 'text' not in response.readline().decode():
                    pass
                code, answer = alice.chat(max_tokens=300, messages=[{'role': 'user', 'content': PROMPT * 7}])
                self.assertEqual(code, 429, answer)
                self.assertIn('kv-memory', answer['error']['message'])
                response.close()
                connection.close()
                limit(tokens, 'kv-memory=1K')
                server.process.send_signal(signal.SIGHUP)
                eventually(lambda: 'kv-memory of alice is less' in ''.join(server.log), lambda: server.log)


class Ends(unittest.TestCase):
    def test_a_draining_server_ends_what_it_began(self):
        with Server('--http-port', 0, '--metrics-port', 0, *FORGETFUL, '--pace-pass-ms', 100) as server, ThreadPoolExecutor(1) as pool:
            client = Client(server)
            _, whole = client.chat(max_tokens=30)
            eventually(lambda: server.metric('num_requests_running') == 0)  # counted after the answer
            asked = pool.submit(client.chat, max_tokens=30)
            eventually(lambda: server.metric('num_requests_running') == 1)
            server.process.terminate()
            code, answer = asked.result(timeout=60)
            self.assertEqual(code, 200, answer)
            self.assertEqual(answer['choices'], whole['choices'])
            self.assertEqual(server.stop(), 0)

    def test_without_a_tokenizer_there_are_none(self):
        with Server('--http-port', 0, model='null:') as server:
            log = ''.join(server.log)
            self.assertNotIn('openai', log)
            connection = http.client.HTTPConnection(log.split('health       http://')[1].split()[0], timeout=10)
            for method, path in (('GET', '/v1/models'), ('POST', '/v1/chat/completions'), ('POST', '/tokenize')):
                connection.request(method, path)
                answer = connection.getresponse()
                self.assertEqual(answer.status, 404)
                self.assertIn('this target has no tokenizer. Remedy: add', json.loads(answer.read())['error']['message'])
            connection.close()


class DraftsOfTheServer(unittest.TestCase):
    """Clients without a draft get the same text from a server that drafts itself, in fewer passes."""
    PAYS = ('--pace-pass-ms', 20)  # rows take no time of such a pass, so that drafts always pay
    ASKED = [{'prompt': 'In view: red box at 1.0 m, blue box at 2.0 m. Say it again: ' * 4, 'max_tokens': 60, 'seed': 3,
              'temperature': temperature} for temperature in (0, 0.7)]

    def answers(self, *flags):
        with Server('--http-port', 0, '--metrics-port', 0, *flags) as server:
            client = Client(server)
            texts = []
            for asked in self.ASKED:
                code, answer = client.ask('POST', '/v1/completions', asked)
                self.assertEqual(code, 200, answer)
                texts.append(answer['choices'][0]['text'])
            return (texts, *(server.metric(name) for name in ('server_draft_tokens_accepted_total', 'device_passes_total')))

    def test_by_look_up_and_by_a_model(self):
        plain, none, passes = self.answers(*self.PAYS, '--draft-source', 'none')
        self.assertEqual(none, 0)
        for flags in ((), ('--draft-model', DRAFT), ('--draft-model', DRAFT, '--draft-source', 'model'),
                      ('--draft-model', DRAFT, '--draft-threads', '1')):
            texts, accepted, fewer = self.answers(*self.PAYS, *flags)
            self.assertEqual(texts, plain, flags)
            self.assertGreater(accepted, 0, flags)
            self.assertLess(fewer, passes, flags)

    def test_an_edge_says_whether_they_are_welcome(self):
        with Server('--draft-model', DRAFT, *self.PAYS) as server:
            ask = ('run', '--server', server.address, '-p', PROMPT, '-n', '40', '--json', '--temp', '0')
            both = edge(*ask, '--model', DRAFT).json
            alone = edge(*ask, '--model', DRAFT, '--draft-at', 'edge').json
            without = max((edge(*ask, '--tokenizer', DRAFT, '--draft-at', 'server').json for _ in range(3)),
                          key=lambda answer: answer['spec_decode_num_server_tokens'])
        self.assertEqual(both['ids'], alone['ids'])
        self.assertEqual(both['ids'], without['ids'])
        self.assertEqual(alone['spec_decode_num_server_tokens'], 0)
        self.assertGreater(without['spec_decode_num_server_tokens'], 0)
        self.assertEqual(without['spec_decode_num_draft_tokens'], 0)

    def test_beside_a_level_of_the_target(self):
        level = ('--elastic', TARGET / 'elastic.json', '--level', '60', *self.PAYS)
        plain, _, passes = self.answers(*level, '--draft-source', 'none')
        texts, accepted, fewer = self.answers(*level, '--draft-model', DRAFT)
        self.assertEqual(texts, plain)
        self.assertGreater(accepted, 0)
        self.assertLess(fewer, passes)

    def test_a_draft_of_another_tokenizer_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            other = Path(folder) / 'draft'
            shutil.copytree(DRAFT, other)
            tokenizer = other / 'tokenizer.json'
            words = json.loads(tokenizer.read_text(encoding='utf-8'))
            vocabulary = words['model']['vocab']
            first, second = sorted(vocabulary, key=vocabulary.get)[-2:]
            vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
            tokenizer.write_text(json.dumps(words), encoding='utf-8')
            with self.assertRaisesRegex(RuntimeError, "its tokenizer is .*Remedy"):
                Server('--draft-model', other)

    def test_without_memory_for_both_it_is_refused(self):
        with self.assertRaisesRegex(RuntimeError, '--draft-model, whose keys and values count too: --kv-cache-memory 1000'):
            Server('--draft-model', DRAFT, '--kv-cache-memory', '1000')

    def test_a_tenants_answer_is_drafted_from_its_earlier_ones_and_nobody_elses(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Path(folder) / 'tokens'
            keys = {name: new_key(tokens, name) for name in ('alice', 'bob')}
            with Server('--http-port', 0, '--metrics-port', 0, '--token-file', tokens, *self.PAYS) as server:
                def accepted(name):
                    counts = [server.metric(f'{what}_total') for what in ('server_draft_tokens_accepted', 'generation_tokens')]
                    code, answer = Client(server, keys[name]).ask(
                        'POST', '/v1/completions', {'prompt': PROMPT, 'max_tokens': 60, 'temperature': 0})
                    self.assertEqual(code, 200, answer)
                    whole = counts[1] + answer['usage']['completion_tokens']
                    eventually(lambda: server.metric('generation_tokens_total') >= whole)  # counted after the answer
                    return server.metric('server_draft_tokens_accepted_total') - counts[0]
                first, again, other = accepted('alice'), accepted('alice'), accepted('bob')
                self.assertGreater(server.metric('lookup_tokens'), 100)
        self.assertLess(first, again)
        self.assertLess(other, again)

    def test_what_contradicts_itself_is_refused(self):
        for flags, words in ((('--draft-source', 'model'), '--draft-model'),
                             (('--draft-model', DRAFT, '--draft-source', 'lookup'), 'leave one of them out'),
                             (('--draft-threads', '2'), 'name one with --draft-model'),
                             (('--draft-model', DRAFT.parent / 'none'), 'none')):
            with self.assertRaisesRegex(RuntimeError, words):
                Server(*flags)


class Levels(unittest.TestCase):
    TABLE = ('--elastic', TARGET / 'elastic.json')

    def text(self, client, **fields):
        code, answer = client.chat(max_tokens=24, temperature=0, **fields)
        self.assertEqual(code, 200, answer)
        return answer['choices'][0]['message']['content'], answer

    def test_each_request_names_its_level_and_gets_that_ones_text(self):
        alone = {}
        for level in ('100', '40'):
            with Server('--http-port', 0, *self.TABLE, '--level', level) as server:
                alone[level] = self.text(Client(server))[0]
        self.assertNotEqual(alone['100'], alone['40'])
        with Server('--http-port', 0, *self.TABLE) as server:
            client = Client(server)
            with ThreadPoolExecutor(8) as pool:  # in the same passes
                asked = [('100', '40')[i % 2] for i in range(24)]
                texts = list(pool.map(lambda level: self.text(client, model=f'demo-target@{level}'), asked))
            for level, (text, answer) in zip(asked, texts):
                self.assertEqual(text, alone[level])
                self.assertEqual(answer['level']['name'], level)
            self.assertEqual(self.text(client)[0], alone['100'])
            models = [each['id'] for each in client.ask('GET', '/v1/models')[1]['data']]
            self.assertEqual(models[:2], ['demo-target', 'demo-target@100'])
            answer = edge('run', '--server', server.address, '--model', DRAFT, '-p', PROMPT, '-n', '24', '--temp', '0', '--json')
            self.assertEqual(answer.json['text'], alone['100'])

    def test_joules_choose_a_level_at_the_devices_power_and_without_it_are_refused(self):
        power = TARGET.parents[1] / 'bench/cost/devices/phone.toml'
        with Server('--http-port', 0, '--power-file', power, *self.TABLE) as server:
            client = Client(server)
            self.assertEqual(self.text(client, slo={'energy_j': 1e8})[1]['level']['name'], '100')
            few = self.text(client, slo={'energy_j': 1e-6})[1]['level']
            self.assertEqual((few['name'], few['predicted_keeps_slo']), ('70', False))
        with Server('--http-port', 0, *self.TABLE) as server:
            code, answer = Client(server).chat(max_tokens=4, slo={'energy_j': 5})
            self.assertEqual((code, '--power-file' in answer['error']['message']), (400, True), answer)
        with tempfile.NamedTemporaryFile('w', suffix='.toml') as file:
            file.write(power.read_text(encoding='utf-8').replace('idle = "1.2 W"', 'idle = "-1.2 W"'))
            file.flush()
            with self.assertRaisesRegex(RuntimeError, "line 6: 'idle' must be text with a number from 0 up"):
                Server('--power-file', file.name)

    def test_a_deadline_chooses_a_level_and_the_answer_says_which(self):
        with Server('--http-port', 0, *self.TABLE) as server:
            client = Client(server)
            self.assertEqual(self.text(client, slo={'time_ms': 1e8})[1]['level']['name'], '100')
            late = self.text(client, slo={'time_ms': 0.001})[1]['level']
            self.assertEqual((late['name'], late['predicted_keeps_slo']), ('70', False), 'smaller ones fail the robot\'s task')
            self.assertEqual(self.text(client, slo={'time_ms': 0.001, 'min_quality': 0.2})[1]['level']['name'], '40')
            self.assertGreater(late['ttft_ms'], 0)
            events, _ = client.events(max_tokens=4, slo={'tpot_share': 1})
            self.assertIn('level', events[-1])
            for slo, words in (({'time_ms': 0}, 'time_ms'), ({'time_ms': 0.001, 'strict': True}, 'no level keeps'),
                               ({'time_ms': 800, 'unverified': 'allow'}, 'unverified')):
                code, answer = client.chat(max_tokens=24, slo=slo, stream='unverified' in slo)
                self.assertEqual(code, 400, answer)
                self.assertIn(words, answer['error']['message'])
            code, answer = client.chat(model='demo-target@61')
            self.assertEqual(code, 404, answer)

    def test_a_level_that_loops_is_left_for_the_next_larger_one(self):
        """Also where all places are taken: the next level's stream keeps that of the one before."""
        soon = {'slo': {'time_ms': 0.001, 'min_quality': 0.2}}
        with Server('--http-port', 0, *self.TABLE, '--max-concurrent-sessions', 2) as server, ThreadPoolExecutor(6) as pool:
            def ask(prompt, **asked):
                return ask_level(Client(server).address, prompt, 80, **asked)
            left = list(pool.map(lambda prompt: ask(prompt, **soon), 2 * LOOPING))
            self.assertEqual(left[:len(LOOPING)], [(tokens, dict(told, **times_of(again))) for (tokens, told), (_, again)
                                                   in zip(left[len(LOOPING):], left)], 'the same again')
            for prompt, (tokens, told) in zip(LOOPING, left):
                self.assertRegex(told['course'], r'^40,\d+:50')
                self.assertLessEqual(longest_loop(tokens), LONGEST, prompt)
                self.assertEqual(ask(prompt, model=f'demo-target@{told["course"]}')[0], tokens, 'by its name')
                named, of_named = ask(prompt, model='demo-target@40', **soon)
                self.assertGreater(longest_loop(named), LONGEST, prompt)
                self.assertEqual(of_named['course'], '40', 'a named level stays')


class KernelsOfTheGpu(unittest.TestCase):
    def test_by_fibers_they_give_the_cpus_text(self):
        """With drafted rows, exits and a temperature; --device host-cuda is slow, so answers are short."""
        found = []
        for device in ('cpu', 'host-cuda'):
            with Server('--device', device) as server:
                answer = edge('run', '--server', server.address, '--model', DRAFT, '-p', 'Ann has 5 apples.', '-n', '10',
                              '--temp', '0.7', '--seed', '3', '--json')
                arithmetic = next(line for line in server.log if line.split()[:1] == ['arithmetic'])
                found.append((answer.json['ids'], arithmetic))
                self.assertEqual('for tests only' in ''.join(server.log), device == 'host-cuda')
        self.assertEqual(*found)

    def test_the_edges_own_models_give_the_cpus_text(self):
        """Draft and target by fibers, the target on two devices; the draft alone beside a target on the CPU."""
        def ids(*flags):
            answer = edge('run', '--target', TARGET, '--model', DRAFT, '-p', 'Ann has 5 apples.', '-n', '6', '--temp', '0.7',
                          '--seed', '3', '-c', '64', '--json', *flags)
            return answer.json['ids']
        wanted = ids()
        self.assertEqual(ids('--device', 'host-cuda', '--gpus', '0,1', '--draft-device', 'cpu'), wanted)
        self.assertEqual(ids('--draft-device', 'host-cuda', '--gpus', '0,1'), wanted)

    def test_a_draft_on_threads_of_its_own_stands_beside_a_target_on_two_devices(self):
        with Server('--device', 'host-cuda', '--gpus', '0,1', '--draft-model', DRAFT, '--draft-threads', '1') as server:
            self.assertIn('on threads of its own', ''.join(server.log))

    def test_a_gpu_that_is_not_there_is_refused_with_the_reason(self):
        with self.assertRaisesRegex(RuntimeError, 'device cuda: .*Remedy'):
            Server('--device', 'cuda')
        for flags, words in ((('--device', 'cuda'), 'device cuda: .*Remedy'), (('--gpus', '1'), '--gpus: .*Remedy'),
                             (('--draft-device', 'cuda'), '--draft-device cuda: there is no draft model')):
            refused = edge('run', '--target', TARGET, '-p', 'a', *flags)
            self.assertRegex(refused.err, words)
            self.assertNotEqual(refused.code, 0)
        idle = edge('run', '--server', '127.0.0.1:1', '-p', 'a', '--device', 'cuda')
        self.assertRegex(idle.err, '--device cuda: there is no model here')
        self.assertNotEqual(idle.code, 0)


if __name__ == '__main__':
    run_tests()
