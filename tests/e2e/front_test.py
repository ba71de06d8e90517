#!/usr/bin/env python3
"""The answers of both programs over HTTP to names of other hosts, to long texts, and about the model.

  OUTRIDER_BIN=build/release/bin tests/e2e/front_test.py

SPDX-License-Identifier: Apache-2.0
"""
import http.client
import json
import subprocess
import threading
import unittest

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, TARGET, Edge, Server, free_port, wait_until_served
from runner import run_tests

LARGEST = 1 << 20  # bytes of a body


class Front(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        port, serving, cls.metrics = free_port(), free_port(), free_port()
        cls.ports = (port, serving)
        cls.server = Server('--http-port', port, '--metrics-port', cls.metrics, '--allowed-hosts', 'cup.example',
                            '--allowed-origins', 'https://app.example')
        cls.edge = Edge('serve', '--model', DRAFT, '--server', cls.server.address, '--port', serving,
                        '--allowed-hosts', 'cup.example', '--allowed-origins', 'https://app.example,http://localhost:3000')
        wait_until_served(f'http://127.0.0.1:{serving}')

    @classmethod
    def tearDownClass(cls):
        cls.edge.interrupt()
        cls.edge.wait()
        cls.server.stop()

    def ask(self, port, path, body=None, **headers):
        """(status, head, JSON of the body)."""
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=100)
        connection.request('GET' if body is None else 'POST', path, body, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, answer.headers, json.loads(text) if text[:1] == b'{' else text.decode()

    def test_only_names_that_are_allowed_lead_to_them(self):
        """A page whose name leads here (DNS rebinding) reads and asks nothing."""
        for port, path, body in [(port, *what) for port in self.ports
                                 for what in (('/v1/models', None), ('/v1/completions', '{"prompt": "Find", "max_tokens": 1}'))]:
            for host in ('evil.example', f'evil.example:{port}', 'cup.example.evil.example'):
                status, _, answer_body = self.ask(port, path, body, Host=host, Origin=f'http://{host}')
                self.assertEqual(status, 403, (path, host, answer_body))
                self.assertIn('--allowed-hosts', answer_body['error']['message'])
            for host in ('cup.example', f'CUP.example:{port}', 'localhost', f'127.0.0.1:{port}'):
                status, _, answer_body = self.ask(port, path, body, Host=host)
                self.assertEqual(status, 200, (path, host, answer_body))
            self.assertEqual(self.ask(port, path, body, Host='cup.example', Origin='http://cup.example')[0], 200)
            self.assertEqual(self.ask(port, path, body, Host='cup.example', Origin='http://evil.example')[0], 403)
        self.assertEqual(self.ask(self.metrics, '/metrics', Host='evil.example', Origin='http://evil.example')[0], 403)
        self.assertEqual(self.ask(self.metrics, '/metrics', Host='cup.example')[0], 200)

    def test_pages_of_allowed_origins_ask_first_and_read_answers(self):
        for port in self.ports:
            connection = http.client.HTTPConnection('127.0.0.1', port, timeout=100)
            connection.request('OPTIONS', '/v1/completions', headers={
                'Origin': 'https://app.example', 'Access-Control-Request-Method': 'POST',
                'Access-Control-Request-Headers': 'authorization, content-type'})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            self.assertEqual(answer.status, 204)
            self.assertIn('POST', answer.headers['Access-Control-Allow-Methods'])
            self.assertEqual(answer.headers['Access-Control-Allow-Headers'], 'authorization, content-type')
            asked = json.dumps({'prompt': 'Find', 'max_tokens': 2, 'stream': True})
            status, head, answer_body = self.ask(port, '/v1/completions', asked, Origin='https://app.example')
            self.assertEqual((status, head['Access-Control-Allow-Origin']), (200, 'https://app.example'))
            self.assertIn('[DONE]', answer_body)
            status, head, answer_body = self.ask(port, '/v1/models', Origin='https://evil.example')
            self.assertEqual((status, head['Access-Control-Allow-Origin']), (403, None))
            self.assertIn('--allowed-origins', answer_body['error']['message'])

    def test_a_unix_socket_is_refused_by_name_wherever_an_address_is_given(self):
        for program, *flags in (('server', '--model', TARGET, '--host'), ('server', '--model', TARGET, '--metrics-port', 0, '--metrics-host'),
                                ('edge', 'serve', '--model', DRAFT, '--host'), ('edge', 'run', '--model', DRAFT, '-p', 'Find', '--server')):
            refused = subprocess.run([BIN / f'outrider-{program}', *map(str, flags), 'unix:/run/outrider'], capture_output=True,
                                     text=True, timeout=60, env=CLEAN_ENVIRONMENT)
            self.assertNotEqual(refused.returncode, 0)
            self.assertIn('"unix:/run/outrider" is a Unix socket, and Outrider speaks TCP only', refused.stderr, flags)

    def test_the_longest_text_is_answered_or_refused_with_the_reason(self):
        for port in self.ports:
            answers = {}

            def ask(path, field, port=port, answers=answers):
                frame = json.dumps({field: ''})
                answers[path] = self.ask(port, path, json.dumps({field: 'a cup ' * ((LARGEST - len(frame)) // 6)}))
            asked = [threading.Thread(target=ask, args=what) for what in (('/tokenize', 'content'), ('/v1/completions', 'prompt'))]
            for thread in asked:
                thread.start()
            self.assertEqual(self.ask(port, '/health/live')[0], 200, 'meanwhile')
            for thread in asked:
                thread.join()
            status, _, answer_body = answers['/tokenize']
            self.assertEqual(status, 200, answer_body)
            self.assertGreater(len(answer_body['tokens']), 100_000)
            status, _, answer_body = answers['/v1/completions']
            self.assertEqual(status, 400, answer_body)
            self.assertEqual(answer_body['error']['type'], 'invalid_request_error')
            self.assertIn('tokens', answer_body['error']['message'])
            status, head, answer_body = self.ask(port, '/v1/completions', ' ' * (LARGEST + 1))
            self.assertEqual(status, 413)
            self.assertEqual(answer_body['error']['type'], 'invalid_request_error')
            self.assertIn(str(LARGEST), answer_body['error']['message'])
            self.assertEqual(self.ask(port, '/v1/completions', '{"prompt": "Find", "max_tokens": 1}')[0], 200)

    def test_answers_and_models_have_the_targets_name_at_the_edge_too(self):
        for port in self.ports:
            self.assertEqual(self.ask(port, '/v1/models')[2]['data'][0]['id'], 'demo-target')
            answer = self.ask(port, '/v1/completions', '{"prompt": "Find", "max_tokens": 1, "model": "any"}')[2]
            self.assertEqual(answer['model'], 'demo-target')
        self.assertIn('model_name="demo-target"', self.ask(self.ports[1], '/metrics')[2])

    def test_the_server_tells_usage_with_every_event_and_what_was_cached(self):
        """To a client without a draft, as the edge does."""
        asked = json.dumps({'prompt': 'Find the cup.', 'max_tokens': 5, 'stream': True, 'ignore_eos': True,
                            'stream_options': {'include_usage': True, 'continuous_usage_stats': True}})
        events = [json.loads(line[6:]) for line in self.ask(self.ports[0], '/v1/completions', asked)[2].splitlines()
                  if line.startswith('data: {')]
        counts = [event['usage']['completion_tokens'] for event in events if event['usage']]
        self.assertEqual(sorted(counts), counts)
        self.assertGreater(len(set(counts)), 2)
        self.assertEqual(counts[-1], 5)
        self.assertGreaterEqual(events[-1]['usage']['prompt_tokens_details']['cached_tokens'], 0)


if __name__ == '__main__':
    run_tests(verbosity=2)
