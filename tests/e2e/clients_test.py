#!/usr/bin/env python3
"""Third-party clients with both programs: the official openai package, prometheus_client's parser,
grpcio's health check, curl. Each skips where it is not installed (pip install openai
prometheus-client grpcio grpcio-health-checking).

  OUTRIDER_BIN=build/release/bin tests/e2e/clients_test.py

SPDX-License-Identifier: Apache-2.0
"""
import importlib.util
import json
import re
import shutil
import subprocess
import time
import unittest
import urllib.request

from programs import DRAFT, ROOT, TARGET, Edge, free_port, wait_until_served
from runner import run_tests
from serving_edge import WithServingEdge


def has(*packages):
    return all(importlib.util.find_spec(package) for package in packages)


QUESTION = [{'role': 'user', 'content': 'Pick up the red cup.'}]


@unittest.skipUnless(has('openai'), 'needs the package openai')
class OpenaiClient(WithServingEdge):
    def client(self):
        import openai
        return openai.OpenAI(base_url=f'{self.base}/v1', api_key='none', max_retries=0,
                             _strict_response_validation=True)

    def test_chat_whole_and_streamed_are_the_same_text(self):
        client = self.client()
        self.assertEqual([model.id for model in client.models.list()], ['robot'])
        whole = client.chat.completions.create(model='robot', messages=QUESTION, seed=3,
                                               temperature=0.7)
        text = whole.choices[0].message.content
        self.assertTrue(text)
        self.assertEqual(whole.usage.total_tokens,
                         whole.usage.prompt_tokens + whole.usage.completion_tokens)
        pieces, usage = [], None
        for chunk in client.chat.completions.create(
                model='robot', messages=QUESTION, seed=3, temperature=0.7, stream=True,
                stream_options={'include_usage': True}):
            usage = chunk.usage or usage
            if chunk.choices and chunk.choices[0].delta.content:
                pieces.append(chunk.choices[0].delta.content)
        self.assertEqual(''.join(pieces), text)
        self.assertEqual(usage.completion_tokens, whole.usage.completion_tokens)

    def test_completions_stop_and_length(self):
        answer = self.client().completions.create(model='robot', prompt='The robot', max_tokens=4)
        self.assertEqual(answer.choices[0].finish_reason, 'length')
        self.assertEqual(answer.usage.completion_tokens, 4)

    def test_what_clients_send_beside_is_taken(self):
        client = self.client()
        self.assertEqual(client.models.retrieve('robot').id, 'robot')
        answer = client.chat.completions.create(
            model='robot', messages=[*QUESTION, *QUESTION], max_completion_tokens=4, seed=2**64 - 1, user='ada',
            extra_body={'ignore_eos': True, 'max_tokens': 4.0})
        self.assertEqual(answer.usage.completion_tokens, 4)
        self.assertGreaterEqual(answer.usage.prompt_tokens_details.cached_tokens, 0)
        chunks = list(client.chat.completions.create(
            model='robot', messages=QUESTION, max_tokens=30, stream=True, extra_body={'ignore_eos': True},
            stream_options={'include_usage': True, 'continuous_usage_stats': True}))
        counts = [chunk.usage.completion_tokens for chunk in chunks if chunk.usage]
        self.assertGreater(len(counts), 2)
        self.assertEqual(counts, sorted(counts))
        self.assertEqual(counts[-1], 30)
        self.assertEqual(client.completions.create(model='robot', prompt=['The robot'], max_tokens=3).usage.completion_tokens, 3)

    def test_errors_are_the_clients_own_kinds(self):
        import openai
        with self.assertRaises(openai.NotFoundError):
            self.client().models.retrieve('another')
        with self.assertRaises(openai.BadRequestError) as refused:
            self.client().chat.completions.create(model='robot', messages=QUESTION, extra_body={'mirostat': 2})
        self.assertIn("'mirostat' is not supported", str(refused.exception))

    def test_several_choices_whole_and_streamed_are_the_same_texts(self):
        asked = {'model': 'robot', 'messages': QUESTION, 'n': 2, 'seed': 3, 'temperature': 0.9, 'max_tokens': 8}
        whole = self.client().chat.completions.create(**asked)
        texts = ['', '']
        for chunk in self.client().chat.completions.create(**asked, stream=True):
            for choice in chunk.choices:
                texts[choice.index] += choice.delta.content or ''
        self.assertEqual(texts, [choice.message.content for choice in whole.choices])
        self.assertNotEqual(texts[0], texts[1])

    def test_a_client_that_leaves_is_no_burden(self):
        client = self.client()
        stream = client.chat.completions.create(model='robot', messages=QUESTION, stream=True,
                                                max_tokens=100000)
        next(iter(stream))
        stream.close()
        begin = time.monotonic()
        client.chat.completions.create(model='robot', messages=QUESTION, max_tokens=2)
        self.assertLess(time.monotonic() - begin, 10)


@unittest.skipUnless(has('openai'), 'needs the package openai')
class OpenaiClientOfLevels(unittest.TestCase):
    """An edge whose target on the device has levels."""

    @classmethod
    def setUpClass(cls):
        import openai
        port = free_port()
        cls.serving = Edge('serve', '--target', TARGET, '--elastic', TARGET / 'elastic.json', '--model', DRAFT, '--port', port)
        cls.addClassCleanup(cls.serving.process.kill)
        wait_until_served(f'http://127.0.0.1:{port}')
        cls.client = openai.OpenAI(base_url=f'http://127.0.0.1:{port}/v1', api_key='none', max_retries=0)

    def ask(self, model, **more):
        return self.client.chat.completions.create(model=model, messages=QUESTION, max_tokens=24, temperature=0, **more)

    def streamed(self, model, **more):
        chunks = list(self.ask(model, stream=True, **more))
        text = ''.join(chunk.choices[0].delta.content or '' for chunk in chunks if chunk.choices)
        return text, [chunk.model_extra['level'] for chunk in chunks if 'level' in (chunk.model_extra or {})]

    def test_a_level_is_named_like_a_model(self):
        names = [model.id for model in self.client.models.list()]
        self.assertIn('demo-target@60', names)
        whole = self.ask('demo-target@60')
        self.assertEqual(whole.model_extra['level']['name'], '60')
        text, levels = self.streamed('demo-target@60')
        self.assertEqual(text, whole.choices[0].message.content)
        self.assertEqual([level['name'] for level in levels], ['60'])

    def test_a_time_chooses_the_level_and_may_be_refused(self):
        import openai
        text, levels = self.streamed('demo-target', extra_body={'slo': {'time_ms': 100000}})
        self.assertEqual(levels[-1]['name'], '100')
        self.assertEqual(text, self.ask('demo-target@100').choices[0].message.content)
        late = self.ask('demo-target', extra_body={'slo': {'time_ms': 0.001}})
        self.assertEqual(late.model_extra['level']['name'], '70')
        for slo in ({'time_ms': -1}, {'time_ms': 0.001, 'strict': True}, {'energy_j': 5}):
            for stream in (False, True):
                with self.assertRaises(openai.BadRequestError, msg=f'{slo}, before a stream begins: {stream}'):
                    self.client.chat.completions.create(model='demo-target', messages=QUESTION, max_tokens=8, stream=stream, extra_body={'slo': slo})

    def test_an_answer_that_is_left_makes_room_for_the_next(self):
        stream = self.client.chat.completions.create(model='demo-target@40', messages=QUESTION, stream=True, max_tokens=900)
        next(iter(stream))
        stream.close()
        begin = time.monotonic()
        self.assertEqual(self.ask('demo-target@80').model_extra['level']['name'], '80')
        self.assertLess(time.monotonic() - begin, 10)


class Curl(WithServingEdge):
    @unittest.skipUnless(shutil.which('curl'), 'needs curl')
    def test_curl_streams(self):
        body = json.dumps({'messages': QUESTION, 'stream': True, 'max_tokens': 5})
        out = subprocess.run(['curl', '-sN', f'{self.base}/v1/chat/completions', '-d', body],
                             check=True, capture_output=True, text=True, timeout=60).stdout
        self.assertIn('data: [DONE]', out)


class Watchers(WithServingEdge):
    @unittest.skipUnless(has('prometheus_client'), 'needs the package prometheus_client')
    def test_prometheus_reads_both(self):
        from prometheus_client.parser import text_string_to_metric_families
        for url in (f'http://127.0.0.1:{self.metrics}/metrics', f'{self.base}/metrics'):
            text = urllib.request.urlopen(url, timeout=10).read().decode()
            names = {family.name for family in text_string_to_metric_families(text)}
            self.assertTrue(any(name.endswith('num_requests_running') for name in names), names)
            self.assertTrue(any(name.endswith('generation_tokens') for name in names), names)

    @unittest.skipUnless(has('grpc', 'grpc_health'), 'needs grpcio and grpcio-health-checking')
    def test_grpcs_health_check(self):
        import grpc
        from grpc_health.v1 import health_pb2, health_pb2_grpc
        with grpc.insecure_channel(self.server.address) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            for service in ('', 'outrider.v1.Outrider'):
                answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
                self.assertEqual(answer.status, health_pb2.HealthCheckResponse.SERVING)


class TriedClients(unittest.TestCase):
    """Those of ./run clients."""

    def test_the_page_names_the_versions_that_are_run(self):
        page = (ROOT / 'docs/clients.md').read_text(encoding='utf-8')
        told = dict(re.findall(r'^\| ([a-z-]+) \| ([0-9.]+) \|', page, re.MULTILINE))
        files = (ROOT / 'tests/clients').glob('with_*.py')
        first = [re.search(r'^# dependencies = \["([a-z-]+)(?:\[[a-z]+\])?==([0-9.]+)"', file.read_text(encoding='utf-8'), re.MULTILINE)
                 for file in files]
        self.assertEqual(dict(pin.groups() for pin in first), told)


if __name__ == '__main__':
    run_tests()
