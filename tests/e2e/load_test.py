#!/usr/bin/env python3
"""outrider-bench load: real clients on a real server, and servers that are not what they should be.

  OUTRIDER_BIN=build/release/bin tests/e2e/load_test.py

SPDX-License-Identifier: Apache-2.0
"""
import http.server
import json
import re
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, Server, ending_with_us, free_port, new_key
from runner import run_tests

EVENT = 'data: {"choices": [{"delta": {"content": "x"}}]}\n\n'


def load(*flags):
    """Runs it on the demo pair to its end."""
    draft = () if '--draft=none' in flags else ('--draft', DRAFT)
    command = (BIN / 'outrider-bench', 'load', '--model', TARGET, *draft, '--prompts', ROOT / 'bench/prompts', *flags)
    return subprocess.run(ending_with_us(*command), capture_output=True, text=True, timeout=200, check=False, env=CLEAN_ENVIRONMENT)


def figures_of(done):
    return json.loads(done.stdout.splitlines()[-1])


class FakeServer(http.server.ThreadingHTTPServer):
    """An OpenAI server that answers one request, and the others as `reply` does."""
    daemon_threads = True

    def __init__(self, reply):
        super().__init__(('127.0.0.1', 0), FakeRoutes)
        self.reply, self.served = reply, 0
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.url = f'http://127.0.0.1:{self.server_port}'


class FakeRoutes(http.server.BaseHTTPRequestHandler):
    def send(self, status, body, kind='application/json'):
        self.send_response(status)
        self.send_header('Content-Type', kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def do_GET(self):
        self.send(200, json.dumps({'data': [{'id': 'fake'}]}))

    def do_POST(self):
        self.rfile.read(int(self.headers['Content-Length']))
        self.server.served += 1
        if self.server.served == 1:
            return self.send(200, EVENT * 3 + 'data: [DONE]\n\n', 'text/event-stream')
        return self.server.reply(self)

    def log_message(self, *_):
        pass


class Load(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def requests(self, *flags):
        """The requests of the load's only phase and round by their numbers, and its figures."""
        out = self.folder / 'out.json'
        done = load('--max-tokens=24', f'--out={out}', *flags)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(out.read_text(encoding='utf-8'))
        self.assertTrue(report['machine'])
        (requests,) = report['phases'][0]['requests']
        (figures,) = figures_of(done)['phases'][0]['rounds']
        return sorted(requests, key=lambda request: request['number']), figures, done.stderr

    def test_every_answer_arrives_the_counts_add_up_and_the_same_seed_is_the_same_load(self):
        mix = ('--edges=2', '--openai-clients=2', '--num-prompts=24', '--seed=5', '--goodput', 'ttft:60000', 'tpot:0.000001')
        requests, figures, err = self.requests(*mix)
        self.assertEqual([request['number'] for request in requests], list(range(24)))
        self.assertEqual({(request['kind'], request['client']) for request in requests},
                         {('edge', 0), ('edge', 1), ('openai', 0), ('openai', 1)})
        self.assertEqual(figures['answered'], 24)
        self.assertEqual(figures['errors'], {})
        for name in ('tokens', 'prompt_tokens'):
            self.assertEqual(figures[name], sum(request[name] for request in requests), name)
        self.assertTrue(all(0 < request['tokens'] <= 24 for request in requests))
        self.assertGreater(figures['server']['device_passes'], 0)
        self.assertGreaterEqual(figures['server']['decoding_rows'], figures['tokens'] - len(requests))
        self.assertEqual(figures['goodput']['share'], 0, 'nobody meets both objectives')
        for line in ('Successful requests:  *24$', 'Jain.s index', 'TTFT', 'load: round 1, .* 24 of 24 requests, 0 failed'):
            self.assertRegex(err, re.compile(line, re.M))
        again, _, _ = self.requests(*mix)
        key = [(request['number'], request['prompt_tokens'], request['tokens']) for request in requests]
        self.assertEqual(key, [(request['number'], request['prompt_tokens'], request['tokens']) for request in again])
        other, _, _ = self.requests(*mix[:-4], '--seed=6')
        self.assertNotEqual([row[1] for row in key], [request['prompt_tokens'] for request in other])

    def test_an_open_loop_sends_when_requests_are_due(self):
        requests, figures, _ = self.requests('--openai-clients=12', '--request-rate=20', '--num-prompts=30')
        due = [request['due_ms'] for request in requests]
        self.assertEqual(due, sorted(due))
        self.assertGreater(due[-1], 300)
        self.assertTrue(all(request['sent_ms'] >= request['due_ms'] for request in requests))
        self.assertGreaterEqual(figures['duration_s'] * 1000, due[-1])

    def test_a_duration_ends_a_load_of_any_number_of_requests(self):
        _, figures, _ = self.requests('--edges=1', '--draft=none', '--duration=1', '--think-time=0.05', '--concurrency=1')
        self.assertGreater(figures['answered'], 2)
        self.assertLess(figures['duration_s'], 10)

    def test_one_client_alone_is_measured_in_turn(self):
        done = load('--openai-clients=4', '--compare-one', '--num-prompts=8', '--max-tokens=24', '--ignore-eos', '--rounds=2',
                    '--at-least=1000000', '--idle-at-most=1')
        self.assertEqual(done.returncode, 1, done.stderr)
        figures = figures_of(done)
        self.assertEqual([phase['rounds'][1]['answered'] for phase in figures['phases']], [2, 8])
        self.assertEqual([phase['rounds'][0]['tokens'] for phase in figures['phases']], [48, 192])
        self.assertGreater(figures['ratios']['full_load_tokens_per_s']['value'], 0)
        self.assertEqual({bar['name']: bar['met'] for bar in figures['bars']},
                         {'full_load_tokens_per_s_ratio': False, 'idle_share': True})

    def test_a_greedy_tenant_is_measured_against_its_absence(self):
        # Guesses of the server's own would be rows too, and fewer of them pay beside a greedy tenant.
        done = load('--edges=2', '--draft=none', '--server-draft-source=none', '--greedy-sessions=3', '--num-prompts=4',
                    '--max-tokens=24', '--rounds=2')
        self.assertEqual(done.returncode, 0, done.stderr)
        alone, beside = (phase['rounds'] for phase in figures_of(done)['phases'])
        self.assertIsNone(alone[0]['greedy_tokens_per_s'])
        self.assertGreater(beside[0]['greedy_tokens_per_s'], 0)
        self.assertGreater(beside[0]['server']['decoding_rows'], alone[0]['server']['decoding_rows'])
        for load_of_round in alone + beside:
            self.assertEqual(load_of_round['server']['cached_tokens'], 0, 'no load finds the prompts of another')
        self.assertEqual(alone[0]['tokens'], beside[0]['tokens'], 'the text is the same in any company')

    def test_a_running_server_is_used_with_its_keys(self):
        tokens, keys = self.folder / 'tokens', self.folder / 'keys'
        keys.write_text(''.join(f'{name} {new_key(tokens, name)}\n' for name in ('alice', 'bob')), encoding='utf-8')
        keys.chmod(0o600)
        with Server('--token-file', tokens, '--http-port', '0', '--metrics-port', '0') as server:
            log = ''.join(server.log)
            url, metrics = (re.search(rf'{name} +(http://\S+)', log)[1] for name in ('openai', 'metrics'))
            there = ('--server', server.address, '--url', url, '--edges=1', '--openai-clients=1')
            _, figures, _ = self.requests(*there, '--metrics-url', metrics, '--keys', keys, '--num-prompts=4')
            self.assertEqual(figures['answered'], 4)
            self.assertGreater(figures['server']['device_passes'], 0)
            refused = load(*there, '--num-prompts=4')
            self.assertEqual(refused.returncode, 1)
            self.assertIn('key', refused.stderr)
            wrong = load('--url', metrics, '--openai-clients=1')
            self.assertEqual(wrong.returncode, 1)
            self.assertIn('HTTP 404', wrong.stderr)
            self.assertIn('Remedy: a server with OpenAI\'s routes', wrong.stderr)
            other = load(*there, '--metrics-url', url, '--keys', keys)
            self.assertEqual(other.returncode, 1)

    def test_errors_of_a_load_are_counted_by_kind(self):
        def refuse(routes):
            routes.send(429, json.dumps({'error': {'message': 'come back later'}}))

        def break_off(routes):
            routes.send(200, EVENT, 'text/event-stream')

        def never_end(routes):
            routes.send(200, 'data: ' + 'x' * (1 << 20), 'text/event-stream')

        for reply, kind, message in ((refuse, 'RESOURCE_EXHAUSTED', 'come back later'), (break_off, 'DATA_LOSS', 'without [DONE]'),
                                     (never_end, 'RESOURCE_EXHAUSTED', 'exceeds 1 MiB')):
            server = FakeServer(reply)
            self.addCleanup(server.server_close)
            self.addCleanup(server.shutdown)
            done = load('--url', server.url, '--openai-clients=2', '--num-prompts=3')
            self.assertEqual(done.returncode, 1)
            self.assertEqual(figures_of(done)['phases'][0]['rounds'][0]['errors'], {kind: 3})
            self.assertIn(message, done.stderr)

    def test_events_are_read_however_they_are_cut(self):
        def send_bytes(routes):
            routes.send(200, ': a comment\r\n\r\n', 'text/event-stream')
            for byte in (EVENT * 3 + 'data: [DONE]\n\n').replace('\n', '\r\n').encode():
                routes.wfile.write(bytes([byte]))
                routes.wfile.flush()

        server = FakeServer(send_bytes)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        done = load('--url', server.url, '--openai-clients=1', '--num-prompts=2')
        self.assertEqual(done.returncode, 0, done.stderr)
        found = figures_of(done)['phases'][0]['rounds'][0]
        self.assertEqual((found['errors'], found['tokens']), ({}, 6), found)

    def test_what_cannot_be_measured_is_refused(self):
        nowhere = f'127.0.0.1:{free_port()}'
        for flags, code, message in (
                ((), 2, '--edges N, --openai-clients N'),
                (('--edges=1', '--request-rate=0'), 2, 'more than 0, or inf'),
                (('--edges=1', '--request-rate=-3'), 2, 'more than 0, or inf'),
                (('--edges=1', '--num-prompts=0'), 2, 'never end'),
                (('--edges=1', '--goodput', 'speed:3'), 2, 'none of ttft, tpot, e2el'),
                (('--edges=1', '--at-least=2'), 2, 'a comparison'),
                (('--edges=1', '--compare-one', '--greedy-sessions=1'), 2, 'one of'),
                (('--edges=1', f'--url=http://{nowhere}'), 2, '--server HOST:PORT'),
                (('--openai-clients=1', f'--server={nowhere}'), 2, '--url http://HOST:PORT'),
                (('--openai-clients=1', '--url=https://example.org:443'), 2, 'TLS is not spoken'),
                (('--openai-clients=1', '--url=http://a'), 2, '--url'),
                (('--openai-clients=1', '--url=http://a:1/v1'), 2, '--url'),
                (('--edges=1', '--greedy-sessions=1', f'--server={nowhere}'), 2, '--keys FILE'),
                (('--edges=1', '--server=192.0.2.1:1', '--keys=keys'), 2, 'in plaintext. Remedy: a tunnel'),
                (('--openai-clients=1', f'--url=http://{nowhere}'), 1, nowhere)):
            done = load(*flags)
            self.assertEqual(done.returncode, code, f'{flags}: {done.stderr}')
            self.assertIn(message, done.stderr, flags)


if __name__ == '__main__':
    run_tests(verbosity=2)
