#!/usr/bin/env python3
"""Two servers behind the real HAProxy with deploy/haproxy.cfg, where TLS ends: nothing is lost or
changed while it leads edges from one to the other.

  OUTRIDER_BIN=build/release/bin tests/e2e/proxy_test.py
  OUTRIDER_PROXY_SWITCHES=50 ...  as many times one of the servers is killed, or drained, under eight edges
  OUTRIDER_SHORT_ANSWERS=3000 ... as many answers of one to three tokens

SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import http.client
import json
import os
import re
import ssl
import tempfile
import threading
import time
import unittest
import urllib.request

from balancer import MISSING, NAMES, Balancer, Proxied
from name_server import NameServer
from programs import DRAFT, FORGETFUL, ROOT, Edge, edge, eventually, free_port, make_certificate, wait_until_served
from runner import run_tests

PROMPT = (ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
SWITCHES = int(os.environ.get('OUTRIDER_PROXY_SWITCHES', '6'))
SESSIONS = 8
PROMPTS = 24
SHORT_ANSWERS = int(os.environ.get('OUTRIDER_SHORT_ANSWERS', '300'))


@unittest.skipIf(MISSING, MISSING)
class BehindHaproxy(unittest.TestCase):
    flags = ()
    number = 2  # of servers

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.servers = []
        self.balancer = self.start(folder.name)
        self.addCleanup(self.balancer.close)

    def add_server(self, *flags, **options):
        one = Proxied(*self.flags, *flags, **options)
        self.servers.append(one)
        self.addCleanup(lambda: one.server.kill())
        return one

    def start(self, folder):
        for _ in range(self.number):
            self.add_server()
        return Balancer(folder, self.servers)

    def run_edge(self, *arguments):
        """The answer of an edge that comes through HAProxy."""
        got = edge(*arguments, *self.balancer.edge_flags, '--json')
        self.assertEqual(got.code, 0, got.err)
        return got.json


class Lossless(BehindHaproxy):
    def test_no_prompt_of_24_changes(self):
        direct = ('--server', self.servers[0].server.address)
        for seed in range(PROMPTS):
            common = ('run', '--model', DRAFT, '-p', f'{seed} cups are red. {PROMPT}', '-n', '30', '--temp', '0.8', '--seed', seed)
            expected = edge(*common, *direct, '--json')
            self.assertEqual(expected.code, 0, expected.err)
            got = self.run_edge(*common)
            self.assertEqual((got['ids'], got['reconnects']), (expected.json['ids'], 0), f'prompt {seed}')
        self.assertEqual(set(self.balancer.served_by()), {'one', 'two'}, 'both were used')

    def test_no_end_of_a_short_answer_is_lost(self):
        """The server's end follows its last message at once, and HAProxy 2.6 drops what it holds of a stream that its server
        resets. A lost end is seen as a reconnect."""
        port = free_port()
        serving = Edge('serve', '--model', DRAFT, '--strategy', 'ar', '--port', port, *self.balancer.edge_flags)
        self.addCleanup(serving.wait)
        self.addCleanup(serving.interrupt)
        wait_until_served(f'http://127.0.0.1:{port}')
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=60)
        self.addCleanup(connection.close)
        for number in range(SHORT_ANSWERS):
            body = {'prompt': f'{number} cups', 'max_tokens': 1 + number % 3, 'temperature': 0, 'ignore_eos': True}
            connection.request('POST', '/v1/completions', json.dumps(body), {'Content-Type': 'application/json'})
            response = connection.getresponse()
            answer = json.loads(response.read())
            self.assertEqual((response.status, answer.get('usage', {}).get('completion_tokens')), (200, body['max_tokens']), answer)
        connection.request('GET', '/metrics')
        metrics = connection.getresponse().read().decode()
        self.assertEqual(re.findall(r'^outrider_edge_resume_total{.*"success".*} (\S+)$', metrics, re.M), ['0'])


class FourServers(BehindHaproxy):
    number = 4
    flags = ('--draft-source', 'none')

    def ask(self, prompt, tokens=8, *more):
        return self.run_edge('run', '--strategy', 'ar', '--tokenizer', DRAFT, '--raw', '-p', prompt, '-n', tokens, '--temp', '0', *more)

    def complete(self, prompt, **fields):
        """The answer of an OpenAI client that comes to the same address; if it is streamed, its events."""
        context = ssl.create_default_context(cafile=self.balancer.cert)
        connection = http.client.HTTPSConnection('127.0.0.1', self.balancer.port, timeout=60, context=context)
        connection.request('POST', '/v1/completions', json.dumps({'prompt': prompt, 'max_tokens': 8, 'temperature': 0, **fields}),
                           {'Content-Type': 'application/json'})
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        self.assertEqual(response.status, 200, body)
        return body.split('\n\n') if fields.get('stream') else json.loads(body)


class OneAddress(FourServers):
    def wait_for_ends(self, number, backend='servers'):
        """While HAProxy has not seen the end of one stream, a server with it has more than its share of the next one."""
        eventually(lambda: len(self.balancer.served_by(backend)) == number)

    def hits(self):
        """Tokens of prompts that were found among kept pages, on all servers."""
        return sum(one.server.metric('prefix_cache_hits_total') for one in self.servers)

    def test_prompts_that_begin_alike_find_the_server_that_has_their_pages(self):
        for number in range(6):
            begin = f'Rule {number}. {PROMPT} ' * 4
            found = []
            for end in ('Find the cup.', 'Find the box.', 'Find the key.'):
                before = self.hits()
                self.ask(begin + end)
                self.wait_for_ends(3 * number + len(found) + 1)
                found.append(self.hits() - before)
            self.assertLess(found[0], 64)
            self.assertGreaterEqual(min(found[1:]), 64, found)
        asked = re.findall(r' (\w+)/\w+ .*/Describe ', self.balancer.log())
        self.assertEqual(set(asked), {'questions'}, 'among the streams they would count as a share')
        used = self.balancer.served_by()
        for number in range(0, len(used), 3):
            self.assertEqual(len(set(used[number:number + 3])), 1, used)
        self.assertGreater(len(set(used)), 1, used)

    def test_openai_clients_come_to_the_same_address(self):
        begin = PROMPT * 4
        expected = self.ask(begin + 'Find the cup.')['text']
        for number, (end, cached) in enumerate((('Find the cup.', False), ('Find the box.', True), ('Find the cup.', True)), start=1):
            answer = self.complete(begin + end)
            self.wait_for_ends(number, 'openai')
            if end == 'Find the cup.':
                self.assertEqual(answer['choices'][0]['text'], expected)
            self.assertEqual(answer['usage']['prompt_tokens_details']['cached_tokens'] > 0, cached)
        self.assertEqual(len(set(self.balancer.served_by('openai'))), 1)


class FullServers(FourServers):
    flags = ('--draft-source', 'none', '--max-concurrent-sessions', '1', '--max-queued-requests', '0', '--pace-pass-ms', '50', '--ignore-eos')

    def test_what_is_too_much_for_one_goes_to_the_next(self):
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda number: self.ask(PROMPT, 100), range(4)))
        self.assertEqual(len({tuple(answer['ids']) for answer in answers}), 1)
        self.assertGreater(len(set(self.balancer.served_by())), 1)

    def test_an_edge_that_was_refused_asks_elsewhere(self):
        """Around HAProxy the prompt's own server is made full: HAProxy does not know of that."""
        self.ask(PROMPT)
        eventually(self.balancer.served_by)
        home = NAMES.index(self.balancer.served_by()[0])
        long = Edge('run', '--strategy', 'ar', '--tokenizer', DRAFT, '--raw', '-p', PROMPT, '-n', '600', '--ignore-eos', '--server',
                    self.servers[home].server.address)
        self.addCleanup(long.wait)
        self.addCleanup(long.interrupt)
        self.servers[home].wait_for_sessions(1)
        self.ask(PROMPT)
        eventually(lambda: len(self.balancer.served_by()) >= 3)
        refused, *_, answered = self.balancer.served_by()[1:]
        self.assertEqual(refused, NAMES[home])
        self.assertNotEqual(answered, refused)
        self.assertIsNone(long.process.poll(), 'it was full for all that time')


class RollingUpdate(FourServers):
    flags = ('--pace-pass-ms', '10', *FORGETFUL)

    def whole(self, prompt):
        return self.complete(prompt, max_tokens=60, ignore_eos=True)['choices'][0]['text']

    def streamed(self, prompt):
        *events, done, _ = self.complete(prompt, max_tokens=60, ignore_eos=True, stream=True)
        self.assertEqual(done, 'data: [DONE]')
        return ''.join(choice['text'] for event in events for choice in json.loads(event[len('data: '):])['choices'])

    def of_edge(self, prompt):
        return self.ask(prompt, 60, '--ignore-eos')['text']

    def test_no_answer_is_lost_while_each_server_is_replaced(self):
        stopping = threading.Event()

        def answers_of(way, prompt, expected):
            number = 0
            while not stopping.is_set():
                self.assertEqual(way(prompt), expected)
                number += 1
            return number

        prompts = [f'{number} cups are red. {PROMPT}' for number in range(9)]
        expected = [self.whole(prompt) for prompt in prompts]
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            asking = [pool.submit(answers_of, (self.whole, self.streamed, self.of_edge)[number % 3], prompt, expected[number])
                      for number, prompt in enumerate(prompts)]
            try:
                for one in self.servers:
                    self.assertEqual(one.server.stop(), 0, ''.join(one.server.log[-20:]))
                    one.start()
                    time.sleep(1.5)  # HAProxy has seen that it is ready
            finally:
                stopping.set()
            self.assertGreater(min(one.result() for one in asking), 2)
        self.assertGreater(len(set(self.balancer.served_by() + self.balancer.served_by('openai'))), 2)


class AnotherModel(FourServers):
    """One of the servers computes with other bits than the others."""

    def start(self, folder):
        for number in range(3):
            self.add_server()
        self.add_server('--dtype', 'int4')
        with urllib.request.urlopen(f'http://127.0.0.1:{self.servers[0].http}/version', timeout=30) as page:
            version = json.load(page)
        return Balancer(folder, self.servers, ARITHMETIC_ID=version['arithmetic_id'])

    def test_it_is_left_out_by_name(self):
        eventually(lambda: 'arithmetic_id' in self.balancer.log())
        line = next(line for line in self.balancer.log().splitlines() if 'arithmetic_id' in line)
        self.assertIn('/four', line)
        self.assertIn('another arithmetic_id than OUTRIDER_ARITHMETIC_ID', line)
        for number in range(12):
            self.ask(f'{number} cups are red. {PROMPT}')
        self.assertEqual(set(self.balancer.served_by()), {'one', 'two', 'three'})


class UnderLoad(BehindHaproxy):
    flags = ('--pace-pass-ms', '10', '--ignore-eos', *FORGETFUL)  # all answers are long enough to meet a switch

    def answer(self, seed):
        return self.run_edge('run', '--strategy', 'ar', '--tokenizer', DRAFT, '-p', f'{seed} cups are red. {PROMPT}', '-n', '60', '--temp', '1',
                             '--threads', '1', '--seed', seed)

    def answer_until(self, stopping, seed, expected):
        """Reconnects of one answer after the other."""
        reconnects = 0
        while not stopping.is_set():
            got = self.answer(seed)
            self.assertEqual(got['ids'], expected)
            reconnects += got['reconnects']
        return reconnects

    def switch_under_load(self, switch):
        """Calls it with a server and its number, in turn, while edges decode; returns how often these reconnected."""
        stopping = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(SESSIONS) as pool:
            expected = [answer['ids'] for answer in pool.map(self.answer, range(SESSIONS))]
            before = len(self.balancer.served_by())
            sessions = [pool.submit(self.answer_until, stopping, seed, expected[seed])
                        for seed in range(SESSIONS)]
            try:
                for number in range(SWITCHES):
                    time.sleep(1.0)
                    switch(self.servers[number % 2], number % 2)
            finally:
                stopping.set()
            reconnects = sum(session.result() for session in sessions)
        self.assertEqual(len(set(self.balancer.served_by()[before:])), 2, 'both were used meanwhile')
        print(f'{self.id()}: {SWITCHES} switches, {reconnects} reconnects')
        return reconnects


class Failover(UnderLoad):
    def test_answers_go_on_while_servers_are_killed_and_come_back(self):
        def kill(one, _):
            one.wait_for_sessions(2)  # of which one may just end
            one.server.kill()  # its streams go to the other
            time.sleep(1.0)
            one.start()

        self.assertGreaterEqual(self.switch_under_load(kill), SWITCHES, 'a condition that never occurred is no pass')

    def test_answers_go_on_while_servers_are_upgraded_in_turn(self):
        def upgrade(one, _):
            self.assertEqual(one.server.stop(), 0, ''.join(one.server.log[-20:]))
            one.start()

        self.switch_under_load(upgrade)


class InACluster(UnderLoad):
    """HAProxy asks a name server for the servers' addresses, and speaks TLS to them."""

    def start(self, folder):
        cert, key = make_certificate(folder)
        self.addresses = ['127.0.0.2', '127.0.0.3']
        port, http_port = free_port(*self.addresses), free_port(*self.addresses)
        for address in self.addresses:
            self.add_server('--host', address, '--tls-cert', cert, '--tls-key', key, port=port, http=http_port)
        self.names = NameServer(self.addresses)
        self.addCleanup(self.names.close)
        return Balancer(folder, certificate=(cert, key), SERVICE='servers.test', PORT=port, HEALTH=http_port, CA=cert, CERT_NAME='localhost',
                        DNS=self.names.address)

    def test_answers_go_on_while_servers_are_upgraded_in_turn(self):
        def replace(one, number):
            self.names.addresses = [self.addresses[1 - number]]  # like a pod that shall end
            self.assertEqual(one.server.stop(), 0, ''.join(one.server.log[-20:]))
            one.start()
            self.names.addresses = list(self.addresses)
            time.sleep(2.0)

        self.switch_under_load(replace)


if __name__ == '__main__':
    run_tests()
