#!/usr/bin/env python3
"""`outrider-edge serve` itself: its health under load, a link that breaks and returns, its usage records.

  OUTRIDER_BIN=build/release/bin tests/e2e/serve_test.py

SPDX-License-Identifier: Apache-2.0
"""
import concurrent.futures
import http.client
import json
import re
import signal
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from programs import DRAFT, FORGETFUL, START_SECONDS, TARGET, Edge, Server, eventually, free_port, wait_until_served
from runner import run_tests

QUESTION = {'messages': [{'role': 'user', 'content': 'Pick up the red cup.'}], 'stream': True}
STREAMS = 64
PACED = (*FORGETFUL, '--pace-pass-ms', '20')
SLOW = (*FORGETFUL, '--pace-pass-ms', '100')
PRICES = '''date = "2026-01-31"
[api]
input = 2
output = 10
[gpu]
dollars-per-hour = 3
[link]
dollars-per-mb = 0.01
[device]
watts = 10
dollars-per-kwh = 0.36
'''


def text_of(events):
    """Returns the text of a stream's events."""
    chunks = [json.loads(line[6:]) for line in events.splitlines() if line.startswith(b'data: {')]
    return ''.join(choice['delta'].get('content', '') for chunk in chunks for choice in chunk['choices'])


def cut_body(response):
    """The bytes of a stream that ends before it is complete, which its client can see. A whole answer is complete."""
    if response.status != 200:
        return response.read()
    try:
        raise AssertionError(f'it looks complete: {response.read()[-300:]!r}')
    except http.client.IncompleteRead as cut:
        return cut.partial


class ServingEdge:
    """An `outrider-edge serve` that ends with the block."""

    def __init__(self, *flags):
        port = free_port()
        self.address = f'127.0.0.1:{port}'
        self.base = f'http://{self.address}'
        self.running = Edge('serve', '--model', DRAFT, '--port', port, *flags)

    def get(self, path):
        try:
            with urllib.request.urlopen(self.base + path, timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def link(self):
        return json.loads(self.get('/link')[1])

    def metric(self, name):
        found = re.search(rf'^outrider_edge_{name} (\S+)$', self.get('/metrics')[1], re.M)
        return float(found[1]) if found else None

    def ask(self, tokens, **more):
        """A stream that has begun or is queued."""
        connection = http.client.HTTPConnection(self.address, timeout=100)
        connection.request('POST', '/v1/chat/completions',
                           json.dumps({**QUESTION, 'max_tokens': tokens, **more}),
                           {'Content-Type': 'application/json'})
        return connection

    def begin(self, tokens):
        """A stream of so many tokens whose first is there: its connection, its response, and what that has said."""
        connection = self.ask(tokens, ignore_eos=True)
        response, heard = connection.getresponse(), b''
        while not re.search(rb'"content":"[^"]', heard):  # the first event's is empty
            line = response.readline()
            if not line:
                raise AssertionError(f'no token came: {heard!r}')
            heard += line
        return connection, response, heard

    def wait_for(self, what, wanted):
        eventually(lambda: what() == wanted, lambda: f'{wanted!r} did not come; now {what()!r}', START_SECONDS)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.running.interrupt()
        self.left = self.running.wait()


class Health(unittest.TestCase):
    def test_it_answers_at_once_while_64_streams_are_open(self):
        with Server(*PACED) as server, \
                ServingEdge('--server', server.address, '--max-queued-requests', STREAMS) as edge:
            wait_until_served(edge.base)
            longest, response, _ = edge.begin(900)
            streams = [edge.ask(8) for _ in range(STREAMS - 1)]
            edge.wait_for(lambda: edge.link()['waiting'], len(streams))
            worst = 0
            for path in ('/health/live', '/health/ready', '/health', '/version', '/metrics') * 10:
                begin = time.monotonic()
                code, _ = edge.get(path)
                worst = max(worst, time.monotonic() - begin)
                self.assertEqual(code, 200, path)
            self.assertGreater(edge.link()['waiting'], STREAMS // 2, 'they were not open meanwhile')
            self.assertLess(worst, 1)
            response.close()
            longest.close()
            for stream in streams:
                self.assertTrue(stream.getresponse().read().endswith(b'data: [DONE]\n\n'))
                stream.close()

    def test_readiness_follows_the_server(self):
        port = free_port()
        with ServingEdge('--server', f'127.0.0.1:{port}') as edge:
            edge.wait_for(lambda: edge.link()['link'], 'offline')
            self.assertEqual(edge.get('/health/live')[0], 200)
            self.assertEqual(edge.get('/health/ready')[0], 503)
            self.assertEqual(edge.get('/health')[0], 503)
            self.assertEqual(edge.link()['decides'], 'nobody')
            self.assertEqual(edge.metric('mode{model_name="demo-draft",mode="offline"}'), 1)
            with Server(port=port):
                edge.wait_for(lambda: edge.get('/health/ready')[0], 200)
                self.assertEqual(edge.link()['link'], 'online')
                self.assertEqual(edge.link()['decides'], 'server')
                self.assertEqual(edge.metric('mode{model_name="demo-target",mode="online"}'), 1)
            edge.wait_for(lambda: edge.get('/health/ready')[0], 503)

    def test_a_target_of_its_own_is_ready_without_a_server(self):
        with ServingEdge('--server', f'127.0.0.1:{free_port()}', '--target', TARGET) as edge:
            edge.wait_for(lambda: edge.link()['link'], 'offline')
            self.assertEqual(edge.get('/health/ready')[0], 200)
            stream = edge.ask(8)
            self.assertTrue(stream.getresponse().read().endswith(b'data: [DONE]\n\n'))
            stream.close()
            self.assertEqual(edge.link()['decides'], 'device')
            self.assertEqual(edge.link()['link'], 'offline')

    def test_a_lost_stream_shows_as_degraded(self):
        with Server('--pace-pass-ms', '200', '--served-model-name', 'demo-target') as server, \
                ServingEdge('--server', server.address, '--reconnect-timeout', '3') as edge:
            wait_until_served(edge.base)
            stream, response, _ = edge.begin(200)
            self.assertEqual(edge.link()['link'], 'online')
            server.kill()
            edge.wait_for(lambda: edge.link()['link'], 'degraded')
            self.assertEqual(edge.metric('mode{model_name="demo-target",mode="degraded"}'), 1)
            edge.wait_for(lambda: edge.link()['link'], 'offline')
            self.assertIn(b'error', cut_body(response))
            stream.close()
            edge.wait_for(lambda: edge.metric('resume_total{model_name="demo-target",result="failure"}'), 1)  # counted after it


class Draining(unittest.TestCase):
    def test_sigterm_lets_answers_end_and_takes_no_more(self):
        with Server(*SLOW) as server, ServingEdge('--server', server.address) as edge:
            wait_until_served(edge.base)
            _, begun, _ = edge.begin(60)
            queued = edge.ask(8)
            edge.wait_for(lambda: edge.link()['waiting'], 1)
            edge.running.process.send_signal(signal.SIGTERM)
            edge.wait_for(lambda: edge.get('/health/ready')[0], 503)
            refused = self.refused(edge)
            self.assertEqual(refused.code, 503)
            self.assertGreater(int(refused.headers['Retry-After']), 0)
            for response in (begun, queued.getresponse()):
                body = response.read()
                self.assertTrue(body.endswith(b'data: [DONE]\n\n'), body[-300:])
            self.assertEqual(edge.running.wait().code, 0)

    def refused(self, edge, **more):
        """The HTTP error of a request for an answer that is not streamed."""
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(urllib.request.Request(
                edge.base + '/v1/chat/completions', json.dumps({**QUESTION, 'stream': False, **more}).encode()), timeout=60)
        return refused.exception

    def test_what_outlasts_the_time_for_it_ends_with_an_error(self):
        with Server('--pace-pass-ms', '100') as server, \
                ServingEdge('--server', server.address, '--shutdown-timeout', '0.5') as edge:
            wait_until_served(edge.base)
            _, begun, _ = edge.begin(300)
            queued = edge.ask(8)
            edge.wait_for(lambda: edge.link()['waiting'], 1)
            edge.running.process.send_signal(signal.SIGTERM)
            for response in (begun, queued.getresponse()):
                text = cut_body(response).decode()
                self.assertIn('shutting down', text)
                self.assertNotIn('"finish_reason":"stop"', text)
            self.assertEqual(edge.running.wait().code, 0)

    def test_clients_and_health_are_told_soon_that_the_server_is_gone(self):
        with Server(*SLOW) as server, ServingEdge('--server', server.address) as edge:
            wait_until_served(edge.base)
            stream, response, _ = edge.begin(200)
            server.kill()
            begin = time.monotonic()
            line = next(line for line in response if line.startswith(b': ') and b'still here' not in line)
            self.assertLess(time.monotonic() - begin, 3, line)
            self.assertIn(b'link', line)
            self.assertEqual(edge.get('/health')[0], 503)
            self.assertEqual(edge.get('/health/ready')[0], 503)
            response.close()
            stream.close()
            edge.wait_for(lambda: edge.link()['running'], False)
            begin = time.monotonic()
            refused = self.refused(edge)
            self.assertLess(time.monotonic() - begin, 5)
            self.assertEqual(refused.code, 503)
            self.assertGreater(int(refused.headers['Retry-After']), 0)
            self.assertIn('server', json.loads(refused.read())['error']['message'])

    def test_a_server_that_falls_silent_is_told_of_and_loses_nothing(self):
        with Server(*SLOW) as server, ServingEdge('--server', server.address) as edge:
            wait_until_served(edge.base)
            undisturbed = text_of(edge.ask(40, ignore_eos=True).getresponse().read())
            stream, response, heard = edge.begin(40)
            server.process.send_signal(signal.SIGSTOP)
            try:
                while b'the server has been silent for' not in heard:
                    line = response.readline()
                    self.assertTrue(line, f'the stream ended: {heard!r}')
                    heard += line
                self.assertEqual(edge.get('/health')[0], 503)
            finally:
                server.process.send_signal(signal.SIGCONT)
            heard += response.read()
            stream.close()
            self.assertTrue(heard.endswith(b'data: [DONE]\n\n'))
            self.assertEqual(text_of(heard), undisturbed)
            self.assertEqual(edge.get('/health')[0], 200)

    def test_a_whole_answer_of_a_silent_server_ends_with_a_remedy(self):
        with Server('--pace-pass-ms', '200', '--metrics-port', 0) as server, ServingEdge('--server', server.address) as edge:
            wait_until_served(edge.base)
            with concurrent.futures.ThreadPoolExecutor(1) as pool:
                asked = pool.submit(self.refused, edge, max_tokens=200, ignore_eos=True)
                edge.wait_for(lambda: server.metric('device_passes_total') > 2, True)  # it has its first tokens
                server.process.send_signal(signal.SIGSTOP)
                try:
                    refused = asked.result(timeout=15)
                finally:
                    server.process.send_signal(signal.SIGCONT)
            self.assertEqual(refused.code, 503)
            self.assertGreater(int(refused.headers['Retry-After']), 0)
            self.assertIn('server', json.loads(refused.read())['error']['message'])

    def test_an_idle_edge_tells_the_truth_too(self):
        with Server() as server, ServingEdge('--server', server.address) as edge:
            wait_until_served(edge.base)
            self.assertEqual(edge.get('/health')[0], 200)
            server.kill()
            time.sleep(5.1)  # cached results are valid for this long
            begin = time.monotonic()
            self.assertEqual(edge.get('/health')[0], 503)
            self.assertLess(time.monotonic() - begin, 3)


class UsageRecords(unittest.TestCase):
    def test_each_answer_has_its_line_and_all_have_their_sums(self):
        with tempfile.TemporaryDirectory() as folder:
            prices = Path(folder) / 'prices.toml'
            prices.write_text(PRICES, encoding='utf-8')
            log = Path(folder) / 'log'
            with Server(*PACED, '--metrics-port', 0, '--served-model-name', 'demo-target') as server, \
                    ServingEdge('--server', server.address, '--price-file', prices,
                                '--strategy', 'sd', '--draft-at', 'edge', '--log-format', 'json',
                                '--log-file', log) as edge:
                wait_until_served(edge.base)
                for _ in range(2):
                    stream = edge.ask(20)
                    stream.getresponse().read()
                    stream.close()
                    edge.wait_for(lambda: edge.link()['running'], False)  # it counts after the answer, as the server does
                sums = {name: edge.metric(name + '{model_name="demo-target"}') for name in
                        ('target_passes_total', 'rows_total', 'rows_died_total',
                         'device_seconds_total', 'net_rtt_seconds_count')}
                stood = edge.metric('spec_decode_num_accepted_tokens_per_pos_total'
                                    '{model_name="demo-target",position="0"}')
                self.assertGreater(stood, 0)
                edge.wait_for(lambda: server.metric('spec_decode_num_accepted_tokens_per_pos_total', 'position="0"'), stood)
                dollars = edge.metric(
                    'dollars_total{model_name="demo-target",of="device",prices_of="2026-01-31"}')
            lines = [json.loads(line) for line in log.read_text(encoding='utf-8').splitlines()]
        answers = [line for line in lines if line['message'] == 'answer ended']
        self.assertEqual(len(answers), 2, lines)
        for key, total in (('passes', 'target_passes_total'), ('rows', 'rows_total'),
                           ('rows_died', 'rows_died_total'), ('device_s', 'device_seconds_total')):
            self.assertGreater(sums[total], 0, total)
            self.assertAlmostEqual(sum(answer[key] for answer in answers), sums[total], places=5)
        self.assertAlmostEqual(sum(answer['device_dollars'] for answer in answers), dollars, places=9)
        self.assertAlmostEqual(dollars, 3 / 3600 * sums['device_seconds_total'], places=6)
        self.assertGreater(sums['net_rtt_seconds_count'], 0)
        for answer in answers:
            self.assertRegex(answer['request_id'], '^req-')
            self.assertGreater(answer['bytes_up'], 0)
            self.assertGreater(answer['api_dollars'], 0)
            self.assertEqual(answer['prices_of'], '2026-01-31')

    def test_a_price_file_with_a_fault_is_refused_at_the_start(self):
        with tempfile.NamedTemporaryFile('w', suffix='.toml') as file:
            file.write(PRICES.replace('input = 2', 'input = -2'))
            file.flush()
            refused = Edge('serve', '--model', DRAFT, '--price-file', file.name).wait()
        self.assertEqual(refused.code, 2, refused.err)
        self.assertIn("'input' must be a number from 0 up", refused.err)


if __name__ == '__main__':
    run_tests(verbosity=2)
