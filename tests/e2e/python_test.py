#!/usr/bin/env python3
"""The Python package python/outrider against real programs: installed by pip into an empty folder, typed, blocking and
under asyncio, with an edge of its own and with a link that breaks. Skips without httpx, mypy or setuptools.

  OUTRIDER_BIN=build/release/bin .venv-tests/bin/python tests/e2e/python_test.py

SPDX-License-Identifier: Apache-2.0
"""
import asyncio
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import threading
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, FORGETFUL, ROOT, TARGET, Server, ending_with_us, eventually, free_port
from runner import run_tests

PACKAGE = ROOT / 'python'
SCENE = 'In view: silver bottle 20 degrees left at 2.1 m. Task: find the silver bottle.'
ACTION = 'Action: turn left (small)'
LACKING = [name for name in ('httpx', 'mypy', 'setuptools') if not importlib.util.find_spec(name)]

sys.path.insert(0, str(PACKAGE))
os.environ['PATH'] = f'{BIN.resolve()}:{os.environ["PATH"]}'
os.environ['OUTRIDER_STATE_DIR'] = 'none'
if not LACKING:
    import outrider


@unittest.skipIf(LACKING, f'needs {", ".join(LACKING)} (./run setup puts them into .venv-tests)')
class Package(unittest.TestCase):
    def test_its_types_are_complete(self):
        with tempfile.TemporaryDirectory() as cache:
            done = subprocess.run([sys.executable, '-m', 'mypy', '--strict', '--cache-dir', cache, PACKAGE / 'outrider'],
                                  capture_output=True, text=True, timeout=240, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_pip_installs_the_client_and_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder) / 'source'
            subprocess.run(['cp', '-r', PACKAGE, source], check=True)
            subprocess.run([sys.executable, '-m', 'pip', 'install', '-q', '--disable-pip-version-check', '--no-deps', '--no-build-isolation',
                            '--target', f'{folder}/site', source], check=True, timeout=240)
            command = Path(folder) / 'site/bin/outrider'
            version = subprocess.run([sys.executable, command, '--version'], env={**os.environ, 'PYTHONPATH': f'{folder}/site'},
                                     capture_output=True, text=True, timeout=60, check=True).stdout
            self.assertIn(outrider.__version__, version)
            self.assertTrue((Path(folder) / 'site/outrider/py.typed').exists())

    def test_a_program_that_is_missing_is_named(self):
        environment = {**CLEAN_ENVIRONMENT, 'PATH': '/nowhere', 'PYTHONPATH': str(PACKAGE)}
        done = subprocess.run([sys.executable, '-m', 'outrider.programs', 'bench'], env=environment, capture_output=True, text=True,
                              timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn('there is no outrider-bench', done.stderr)

    def test_a_program_of_another_platform_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / 'outrider-edge'
            program.write_bytes(b'\x7fELF' + bytes(60))
            program.chmod(0o755)
            environment = {**CLEAN_ENVIRONMENT, 'PATH': folder, 'PYTHONPATH': str(PACKAGE)}
            for words in (['-m', 'outrider.programs', 'serve'], ['-c', 'import outrider; outrider.Edge()']):
                done = subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f'{program} cannot be started: Exec format error. Remedy: programs for this machine', done.stderr)


@unittest.skipIf(LACKING, f'needs {", ".join(LACKING)} (./run setup puts them into .venv-tests)')
class OwnEdge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.edge = outrider.Edge('--target', TARGET, '--model', DRAFT, '--offline')
        cls.addClassCleanup(cls.edge.close)

    def test_an_answer_has_text_and_figures(self):
        answer = self.edge.client.chat(SCENE, max_tokens=60)
        self.assertTrue(answer.text.endswith(ACTION), answer.text)
        self.assertEqual(answer.finish_reason, 'stop')
        figures = answer.figures
        self.assertGreater(figures.accepted_draft_tokens, 0)
        self.assertLessEqual(figures.accepted_draft_tokens, figures.completion_tokens)
        self.assertGreater(figures.seconds, figures.first_text_seconds)
        self.assertGreater(figures.first_text_seconds, 0)

    def test_events_make_the_answer(self):
        events = list(self.edge.client.stream(SCENE, max_tokens=60))
        self.assertIsInstance(events[-1], outrider.Done)
        text = ''.join(event.text for event in events if isinstance(event, outrider.Text))
        self.assertEqual(text, events[-1].answer.text)

    def test_asyncio_gets_the_same_text(self):
        async def ask():
            async with outrider.AsyncClient(self.edge.url) as client:
                link = await client.link()
                first, second = await asyncio.gather(client.chat(SCENE, max_tokens=60), client.chat(SCENE, max_tokens=60))
                return link, first.text, second.text

        link, first, second = asyncio.run(ask())
        self.assertEqual((link.decides, link.link), ('device', 'none'))
        self.assertEqual({first, second}, {self.edge.client.chat(SCENE, max_tokens=60).text})

    def test_a_conversation_and_openais_fields_go_as_they_are(self):
        answer = self.edge.client.chat([{'role': 'user', 'content': SCENE}], max_tokens=3, temperature=0.8, seed=7)
        self.assertEqual((answer.finish_reason, answer.figures.completion_tokens), ('length', 3))

    def test_a_refusal_names_its_field(self):
        with self.assertRaises(outrider.Refused) as refused:
            self.edge.client.chat(SCENE, temperature=-1)
        self.assertEqual((refused.exception.status, refused.exception.param), (400, 'temperature'))

    def test_a_stream_that_is_left_ends_the_answer(self):
        stream = self.edge.client.stream(SCENE, max_tokens=200)
        next(stream)
        stream.close()
        eventually(lambda: not self.edge.client.link().running)

    def test_models_and_metrics(self):
        self.assertEqual(self.edge.client.models(), ['demo-target'])
        self.assertIn('outrider_edge_mode', self.edge.client.metrics())


@unittest.skipIf(LACKING, f'needs {", ".join(LACKING)} (./run setup puts them into .venv-tests)')
class Failures(unittest.TestCase):
    def test_nothing_that_listens_is_said_with_a_remedy(self):
        with self.assertRaisesRegex(outrider.ConnectionFailed, 'outrider-edge serve'):
            outrider.Client(f'http://127.0.0.1:{free_port()}').chat('x')

    def test_an_edge_that_cannot_start_says_why(self):
        with self.assertRaisesRegex(outrider.OutriderError, 'no-such-model'):
            outrider.Edge('--target', '/no-such-model', '--offline')

    def test_an_edge_without_its_server_says_what_it_waits_for(self):
        edge = outrider.Edge('--server', f'127.0.0.1:{free_port()}', '--model', DRAFT, patience=None)
        self.addCleanup(edge.close)
        eventually(lambda: 'cannot reach a server' in edge.waits_for, edge.close)
        self.assertFalse(edge.wait_until_ready(0))

    def test_an_edge_does_not_outlive_a_program_that_is_killed(self):
        script = f'import outrider, time; print(outrider.Edge("--target", "{TARGET}", "--offline").pid, flush=True); time.sleep(600)'
        with subprocess.Popen(ending_with_us(sys.executable, '-c', script), env={**os.environ, 'PYTHONPATH': str(PACKAGE)},
                              stdout=subprocess.PIPE, text=True) as program:
            pid = int(program.stdout.readline())
            program.kill()
        eventually(lambda: not Path(f'/proc/{pid}').exists(), 'it is still there')

    def test_a_server_that_dies_is_seen_and_changes_no_text(self):
        with outrider.Edge('--target', TARGET, '--model', DRAFT, '--offline') as alone:
            whole = alone.client.chat(SCENE, max_tokens=60, temperature=0.7, seed=5).text
        server = Server(*FORGETFUL, '--pace-pass-ms', '150')
        self.addCleanup(server.stop)
        with outrider.Edge('--server', server.address, '--target', TARGET, '--model', DRAFT) as edge:
            states = []

            def watch():
                for state in edge.client.links(every=0.05):
                    states.append(state.decides)
                    if state.decides == 'device':
                        return

            watcher = threading.Thread(target=watch, daemon=True)
            watcher.start()
            eventually(lambda: states)
            text = ''
            for event in edge.client.stream(SCENE, max_tokens=60, temperature=0.7, seed=5):
                if isinstance(event, outrider.Text):
                    text += event.text
                    server.process.kill()
            watcher.join(60)
            self.assertEqual(text, whole)
            self.assertEqual((states[0], states[-1]), ('server', 'device'))

    def test_a_deadline_gives_what_is_expected_and_then_the_truth(self):
        server = Server(*FORGETFUL, '--pace-pass-ms', '400')
        self.addCleanup(server.stop)
        with outrider.Edge('--server', server.address, '--model', DRAFT) as edge:
            events = list(edge.client.stream(SCENE, max_tokens=60, slo=outrider.Slo(time_ms=600, unverified=True)))
        expected = [event for event in events if isinstance(event, outrider.Unverified)]
        self.assertEqual(len(expected), 1, json.dumps([str(event) for event in events]))
        self.assertIn(events[-1].answer.unverified_outcome, ('confirmed', 'corrected'))

    def test_objectives_go_as_they_are(self):
        levels = ('--target', TARGET, '--elastic', f'{TARGET}/elastic.json', '--model', DRAFT)
        with outrider.Edge(*levels) as edge:
            with self.assertRaises(outrider.OutriderError) as refused:
                edge.client.chat(SCENE, max_tokens=8, slo=outrider.Slo(energy_j=5))
            self.assertIn('--power-file', str(refused.exception))
            slow = outrider.Slo(ttft_ms=60000, tpot_ms=60000, min_quality=0.5)
            self.assertTrue(edge.client.chat(SCENE, max_tokens=8, slo=slow).text)


if __name__ == '__main__':
    run_tests()
