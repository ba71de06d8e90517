#!/usr/bin/env python3
"""Traces of answers, as a collector of OpenTelemetry's own messages gets them over gRPC and over HTTP: one trace across a
client, a proxy, an edge and a server whose link fails.

  OUTRIDER_BIN=build/release/bin tests/e2e/traces_test.py

SPDX-License-Identifier: Apache-2.0
"""
import collections
import http.client
import http.server
import importlib.util
import json
import re
import tempfile
import threading
import time
import unittest
from concurrent import futures
from pathlib import Path
from types import SimpleNamespace

from balancer import MISSING, Balancer
from programs import DRAFT, FORGETFUL, TARGET, Edge, Server, edge, eventually, free_port, wait_until_served
from runner import run_tests

PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
TRACE, CALLER = PARENT.split('-')[1:3]
SECONDS = 60


def has(*packages):
    return all(importlib.util.find_spec(package) for package in packages)


class Collector:
    """Keeps what was exported. `delay`: seconds that it takes for each export."""

    def __init__(self, delay=0):
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
        self.request = trace_service_pb2.ExportTraceServiceRequest
        self.reply = trace_service_pb2.ExportTraceServiceResponse
        self.delay = delay
        self.exports, self.headers = [], []

    def take(self, export, headers):
        time.sleep(self.delay)
        self.exports.append(export)
        self.headers.append(headers)
        return self.reply()

    def spans(self):
        """(service, span) of all."""
        for export in list(self.exports):
            for resource in export.resource_spans:
                service = attributes(resource.resource)['service.name']
                for scope in resource.scope_spans:
                    yield from ((service, span) for span in scope.spans)

    def named(self, service, name):
        return [span for of, span in self.spans() if of == service and span.name == name]


class GrpcCollector(Collector):
    protocol = 'grpc'

    def __init__(self, **options):
        import grpc
        from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
        super().__init__(**options)
        self.server = grpc.server(futures.ThreadPoolExecutor(2))
        trace_service_pb2_grpc.add_TraceServiceServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port('127.0.0.1:0')
        self.server.start()

    def Export(self, request, context):  # noqa: N802, the service's name
        return self.take(request, dict(context.invocation_metadata()))

    def close(self):
        self.server.stop(0).wait()


class HttpCollector(Collector):
    protocol = 'http/protobuf'

    def __init__(self, status=200, **options):
        super().__init__(**options)
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):  # noqa: N802, the library's name
                body = self.rfile.read(int(self.headers['Content-Length']))
                reply = collector.take(collector.request.FromString(body), {**self.headers, 'path': self.path}).SerializeToString()
                self.send_response(status)
                self.send_header('Content-Length', str(len(reply)))
                try:
                    self.end_headers()
                    self.wfile.write(reply)
                except OSError:
                    pass  # its client does not wait for ever

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def attributes(of):
    def value(one):
        kind = one.WhichOneof('value')
        return [value(each) for each in one.array_value.values] if kind == 'array_value' else getattr(one, kind)
    return {each.key: value(each.value) for each in of.attributes}


def ask(port, headers=None, **fields):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=SECONDS)
    connection.request('POST', '/v1/completions', json.dumps({'prompt': 'Find the cup.', 'max_tokens': 8, 'temperature': 0, **fields}),
                       {'Content-Type': 'application/json', **(headers or {})})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text)


def metric(port, name):
    connection = http.client.HTTPConnection('127.0.0.1', port, timeout=SECONDS)
    connection.request('GET', '/metrics')
    text = connection.getresponse().read().decode()
    connection.close()
    return float(re.search(rf'^outrider_(?:edge_)?{name}{{[^}}]*}} (\S+)$', text, re.M).group(1))


@unittest.skipUnless(has('opentelemetry.proto'), 'needs the package opentelemetry-proto')
class Traces(unittest.TestCase):
    def collector(self, kind=HttpCollector, **options):
        collector = kind(**options)
        self.addCleanup(collector.close)
        return collector

    def environment(self, collector, **more):
        return {'OTEL_EXPORTER_OTLP_ENDPOINT': f'http://127.0.0.1:{collector.port}', 'OTEL_EXPORTER_OTLP_PROTOCOL': collector.protocol,
                **more}

    def server(self, *flags, environment=None, **options):
        self.http, self.metrics = free_port(), free_port()
        server = Server('--http-port', self.http, '--metrics-port', self.metrics, *flags, environment=environment, **options)
        self.addCleanup(server.stop)
        return server

    def serve(self, *flags, environment=None):
        self.port = free_port()
        serving = Edge('serve', '--port', self.port, *flags, environment=environment)
        self.addCleanup(serving.wait)
        self.addCleanup(serving.interrupt)
        wait_until_served(f'http://127.0.0.1:{self.port}')
        return serving

    def through_haproxy(self, server):
        """An edge's flags for the server behind HAProxy."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        balancer = Balancer(folder.name, [SimpleNamespace(port=server.port, http=self.http)])
        self.addCleanup(balancer.close)
        return balancer.edge_flags

    @unittest.skipIf(MISSING, MISSING)
    def test_one_trace_joins_client_edge_proxy_and_server_over_either_protocol(self):
        for kind in (GrpcCollector, HttpCollector):
            if kind is GrpcCollector and not has('grpc'):
                continue
            with self.subTest(kind=kind.__name__):
                collector = self.collector(kind)
                environment = self.environment(collector, OTEL_EXPORTER_OTLP_HEADERS='api-key=a%20b')
                server = self.server(environment=environment)
                self.serve('--model', DRAFT, *self.through_haproxy(server), environment=environment)
                status, answer = ask(self.port, {'traceparent': PARENT, 'tracestate': 'vendor=1'})
                self.assertEqual(status, 200)
                eventually(lambda: collector.named('outrider-edge', 'text_completion demo-target')
                           and collector.named('outrider-server', 'generate'))
                self.check_joined(collector, answer)
                self.assertEqual(collector.headers[0]['api-key'], 'a b')
                if kind is HttpCollector:
                    self.assertEqual(collector.headers[0]['path'], '/v1/traces')

    def check_joined(self, collector, answer):
        spans = list(collector.spans())
        self.assertEqual({span.trace_id.hex() for _, span in spans}, {TRACE})
        request, = collector.named('outrider-edge', 'text_completion demo-target')
        self.assertEqual(request.parent_span_id.hex(), CALLER)
        self.assertEqual(request.trace_state, 'vendor=1')
        self.assertEqual(request.kind, 2)  # SERVER
        said = attributes(request)
        self.assertEqual(said['gen_ai.operation.name'], 'text_completion')
        self.assertEqual(said['gen_ai.request.model'], 'demo-target')
        self.assertEqual(said['gen_ai.request.max_tokens'], 8)
        self.assertEqual(said['gen_ai.usage.input_tokens'], answer['usage']['prompt_tokens'])
        self.assertEqual(said['gen_ai.usage.output_tokens'], answer['usage']['completion_tokens'])
        self.assertEqual(said['gen_ai.response.finish_reasons'], ['length'])
        generate, = collector.named('outrider-server', 'generate')
        self.assertEqual(generate.parent_span_id, request.span_id)
        for service, parent, name in (('outrider-edge', request, 'stream'), ('outrider-server', generate, 'prefill')):
            for child in collector.named(service, name):
                self.assertEqual(child.parent_span_id, parent.span_id)
                self.assertGreaterEqual(child.start_time_unix_nano, parent.start_time_unix_nano)
                self.assertLessEqual(child.end_time_unix_nano, parent.end_time_unix_nano)
        self.assertEqual(len(collector.named('outrider-server', 'prefill')), 1)
        self.assertEqual(len(collector.named('outrider-edge', 'prefill')), 1)
        # All that decided tokens; the edge may cancel a pass that goes beyond them.
        for service, name in (('outrider-edge', 'round'), ('outrider-server', 'pass')):
            tokens = sum(attributes(span)['outrider.tokens'] for span in
                         collector.named(service, name) + collector.named(service, 'prefill'))
            self.assertGreaterEqual(tokens, answer['usage']['completion_tokens'], service)
        identities = collections.Counter(span.span_id for _, span in spans)
        self.assertEqual(max(identities.values()), 1)
        for _, span in spans:
            self.assertAlmostEqual(span.end_time_unix_nano / 1e9, time.time(), delta=SECONDS)

    def test_exits_and_a_failover_are_in_the_trace(self):
        collector = self.collector()
        environment = self.environment(collector)
        with tempfile.TemporaryDirectory() as folder:
            pack = Path(folder) / 'target.pack'
            self.assertEqual(edge('pack', '--model', TARGET, '--out', pack).code, 0)
            server = self.server('--pace-pass-ms', '100', '--exits', 'all', '--draft-source', 'none', *FORGETFUL, environment=environment)
            self.serve('--model', DRAFT, '--strategy', 'fsd', '--server', server.address, '--target', pack, '--failover-after', '0.5',
                       '-c', '256', '--reconnect-timeout', '3', '--served-model-name', 'robot', environment=environment)
            whole = ask(self.port, max_tokens=40, ignore_eos=True)[1]['choices'][0]['text']
            answers = []
            asking = threading.Thread(target=lambda: answers.append(ask(self.port, {'traceparent': PARENT}, max_tokens=40, ignore_eos=True)))
            asking.start()
            eventually(lambda: metric(self.metrics, 'num_requests_running') > 0)
            time.sleep(0.3)  # some of its passes
            server.kill()
            asking.join(SECONDS)
            self.assertEqual(answers[0][0], 200)
            self.assertEqual(answers[0][1]['choices'][0]['text'], whole)

            def ours(name):
                return [span for span in collector.named('outrider-edge', name) if span.trace_id.hex() == TRACE]
            eventually(lambda: ours('text_completion robot'))
            failover, = ours('failover')
            self.assertEqual((attributes(failover)['outrider.from'], attributes(failover)['outrider.to']), ('server', 'device'))
            self.assertEqual({attributes(span)['outrider.verifier'] for span in ours('stream')}, {'server', 'device'})
            exits = [event for of, span in collector.spans() if of == 'outrider-server' for event in span.events if event.name == 'exit']
            self.assertTrue(exits)
            self.assertTrue(all(0 <= attributes(event)['outrider.confidence'] <= 1 for event in exits))

    def test_an_openai_client_of_the_server_is_traced(self):
        collector = self.collector()
        self.server(environment=self.environment(collector, OTEL_SERVICE_NAME='gpu-7'))
        status, answer = ask(self.http, {'traceparent': PARENT})
        self.assertEqual(status, 200)
        eventually(lambda: collector.named('gpu-7', 'text_completion demo-target'))
        request, = collector.named('gpu-7', 'text_completion demo-target')
        self.assertEqual(request.parent_span_id.hex(), CALLER)
        self.assertEqual(attributes(request)['gen_ai.usage.output_tokens'], answer['usage']['completion_tokens'])
        self.assertTrue(all(span.trace_id.hex() == TRACE for _, span in collector.spans()))

    def test_a_malformed_context_is_ignored_and_counted(self):
        collector = self.collector()
        self.server(environment=self.environment(collector))
        malformed = ('00-' + '0' * 32 + '-b7ad6b7169203331-01', PARENT.upper(), PARENT + '-x', 'ff' + PARENT[2:], 'x' * 5000, PARENT[:-1])
        for header in malformed:
            self.assertEqual(ask(self.http, {'traceparent': header, 'tracestate': 'vendor=1'}, max_tokens=1)[0], 200)
        eventually(lambda: len(collector.named('outrider-server', 'text_completion demo-target')) == len(malformed))
        for span in collector.named('outrider-server', 'text_completion demo-target'):
            self.assertEqual((span.parent_span_id, span.trace_state), (b'', ''))
            self.assertNotEqual(span.trace_id.hex(), TRACE)
        self.assertEqual(metric(self.metrics, 'traceparents_malformed_total'), len(malformed))
        self.assertEqual(ask(self.http, {'traceparent': '01' + PARENT[2:] + '-more'}, max_tokens=1)[0], 200)
        eventually(lambda: any(span.trace_id.hex() == TRACE for _, span in collector.spans()))

    def test_samplers_choose(self):
        for sampler, argument, unasked, asked in (('always_off', '', 0, 0), ('parentbased_always_off', '', 0, 1),
                                                  ('parentbased_traceidratio', '0', 0, 1), ('traceidratio', '1', 1, 1)):
            collector = self.collector()
            server = self.server(environment=self.environment(collector, OTEL_TRACES_SAMPLER=sampler, OTEL_TRACES_SAMPLER_ARG=argument))
            for headers in ({}, {'traceparent': PARENT}):
                self.assertEqual(ask(self.http, headers, max_tokens=1)[0], 200)
            self.assertEqual(server.stop(), 0)  # sends what is left
            with_parent = [span.trace_id.hex() == TRACE for span in collector.named('outrider-server', 'text_completion demo-target')]
            self.assertEqual((with_parent.count(False), with_parent.count(True)), (unasked, asked), sampler)

    def test_a_dead_or_slow_collector_delays_nothing(self):
        slow = self.collector(delay=30)
        for endpoint in (f'http://127.0.0.1:{free_port()}', f'http://127.0.0.1:{slow.port}'):
            for protocol in ('grpc', 'http/protobuf'):
                server = self.server('--otlp-traces-endpoint', endpoint, environment={'OTEL_EXPORTER_OTLP_PROTOCOL': protocol})
                for _ in range(3):
                    self.assertEqual(ask(self.http, max_tokens=2)[0], 200)
                if not endpoint.endswith(str(slow.port)):
                    eventually(lambda: metric(self.metrics, 'trace_spans_dropped_total') > 0)
                    eventually(lambda: 'traces are dropped' in ''.join(server.log))
                begun = time.monotonic()
                self.assertEqual(server.stop(), 0)
                self.assertLess(time.monotonic() - begun, 10)

    def test_a_collector_that_refuses_is_counted(self):
        collector = self.collector(status=503)
        server = self.server(environment=self.environment(collector))
        self.assertEqual(ask(self.http, max_tokens=2)[0], 200)
        eventually(lambda: metric(self.metrics, 'trace_spans_dropped_total') >= 3)
        self.assertIn('status 503', ''.join(server.log))

    def test_without_an_endpoint_the_context_goes_on_as_it_came(self):
        collector = self.collector()
        server = self.server(environment=self.environment(collector))
        self.serve('--model', DRAFT, '--server', server.address)
        self.assertEqual(ask(self.port, {'traceparent': PARENT})[0], 200)
        eventually(lambda: collector.named('outrider-server', 'generate'))
        self.assertEqual(collector.named('outrider-server', 'generate')[0].parent_span_id.hex(), CALLER)

    def test_settings_that_are_wrong_are_named(self):
        for flags, environment, words in (
                (('--otlp-traces-endpoint', 'collector:4317'), {}, '--otlp-traces-endpoint="collector:4317": is no endpoint'),
                ((), {'OTEL_EXPORTER_OTLP_ENDPOINT': 'ftp://x'}, 'OTEL_EXPORTER_OTLP_ENDPOINT'),
                (('--otlp-traces-endpoint', 'http://x'), {'OTEL_EXPORTER_OTLP_PROTOCOL': 'http/json'}, 'grpc or http/protobuf'),
                (('--otlp-traces-endpoint', 'http://x'), {'OTEL_TRACES_SAMPLER': 'jaeger_remote'}, 'is no sampler'),
                (('--otlp-traces-endpoint', 'http://x'), {'OTEL_TRACES_SAMPLER': 'traceidratio', 'OTEL_TRACES_SAMPLER_ARG': '1.5'},
                 'a number from 0 to 1'),
                (('--otlp-traces-endpoint', 'http://x'), {'OTEL_EXPORTER_OTLP_HEADERS': 'secret'}, 'NAME=VALUE')):
            with self.assertRaises(RuntimeError) as refused:
                Server(*flags, environment=environment)
            self.assertIn(words, str(refused.exception))
            self.assertNotIn('secret', str(refused.exception))


if __name__ == '__main__':
    run_tests(verbosity=2)
