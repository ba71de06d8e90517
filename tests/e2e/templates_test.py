#!/usr/bin/env python3
"""Which chat template encodes a prompt: the target's, whatever the draft's folder holds.

  OUTRIDER_BIN=build/release/bin tests/e2e/templates_test.py

SPDX-License-Identifier: Apache-2.0
"""
import json
import shutil
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request
from pathlib import Path

from programs import BIN, DRAFT, START_SECONDS, TARGET, Edge, Server, edge, eventually, free_port, wait_until_served
from runner import run_tests

QUESTION = ('-p', 'Find the red cup.', '-n', '4', '--json', '--strategy', 'ar')
CHATML = json.loads((TARGET / 'tokenizer_config.json').read_text(encoding='utf-8'))['chat_template']
# Like SmolLM2's, with another default system message.
SMOLLM2 = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
           "{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
           "<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + "
           "'<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}"
           "{% endif %}")
WITH_BOS = '{{ bos_token }}' + CHATML
INVALID = '{% include "other.jinja" %}'


def post(base, path, body):
    """(status, JSON of the answer)."""
    request = urllib.request.Request(base + path, json.dumps(body).encode(), {'Content-Type': 'application/json'})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


CHAT = {'messages': [{'role': 'user', 'content': 'Find the red cup.'}], 'max_tokens': 4}


class Templates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def copy(self, model, template, name):
        """The model with another chat template; None: without one."""
        where = self.folder / name
        shutil.copytree(model, where)
        path = where / 'tokenizer_config.json'
        config = json.loads(path.read_text(encoding='utf-8'))
        config.pop('chat_template')
        if template is not None:
            config['chat_template'] = template
        path.write_text(json.dumps(config), encoding='utf-8')
        return where

    def prompt_tokens(self, *flags):
        answer = edge('run', *QUESTION, *flags)
        self.assertEqual(answer.code, 0, answer.err)
        return answer.json['prompt_tokens'], answer

    def drafts(self):
        return [DRAFT, self.copy(DRAFT, None, 'draft-none'), self.copy(DRAFT, SMOLLM2, 'draft-smollm2')]

    def test_it_is_that_of_the_servers_target(self):
        drafts = self.drafts()
        for template, tokens in ((CHATML, 14), (SMOLLM2, None), (None, None)):
            with Server(model=self.copy(TARGET, template, f'target{tokens}{template is None}')) as server:
                seen = {self.prompt_tokens('--model', draft, '--server', server.address)[0] for draft in drafts}
            self.assertEqual(len(seen), 1, f'prompts of drafts differ: {seen}')
            if tokens:
                self.assertEqual(seen, {tokens})

    def test_it_is_that_of_this_devices_target_also_from_a_pack(self):
        drafts = self.drafts()
        target = self.copy(TARGET, SMOLLM2, 'target')
        pack = self.folder / 'target.pack'
        subprocess.run([BIN / 'outrider-edge', 'pack', '--model', target, '--out', pack], check=True,
                       capture_output=True)
        seen = {self.prompt_tokens('--model', draft, '--target', where)[0]
                for draft in drafts for where in (target, pack)}
        self.assertEqual(len(seen), 1, f'prompts differ: {seen}')
        self.assertGreater(min(seen), 20)  # with SmolLM2's message of the system

    def test_the_operators_choice_holds_for_edges_and_clients(self):
        flags = ('--chat-template', 'smollm2', '--http-port', free_port())
        with Server(*flags) as server:
            tokens, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address)
            status, answer = post(f'http://127.0.0.1:{flags[-1]}', '/v1/chat/completions', CHAT)
        self.assertEqual((status, answer['usage']['prompt_tokens']), (200, tokens))
        self.assertGreater(tokens, 20)

    def test_a_template_that_is_not_valid_is_refused_with_the_remedy_that_helps(self):
        target = self.copy(TARGET, INVALID, 'target')
        port = free_port()
        with Server('--http-port', port, model=target) as server:
            self.assertIn('template     OFF because', ''.join(server.log))
            answer = edge('run', *QUESTION, '--model', DRAFT, '--server', server.address)
            self.assertNotEqual(answer.code, 0)
            self.assertIn('Remedy: choose one with --chat-template', answer.err)
            status, said = post(f'http://127.0.0.1:{port}', '/v1/chat/completions', CHAT)
            self.assertGreaterEqual(status, 400)
            self.assertIn('Remedy: choose one with --chat-template', said['error']['message'])
            # A prompt without a template is answered, and so is one with a template named by the user.
            status, _ = post(f'http://127.0.0.1:{port}', '/v1/completions', {'prompt': 'In view:', 'max_tokens': 2})
            self.assertEqual(status, 200)
            self.prompt_tokens('--model', DRAFT, '--server', server.address, '--raw')
            named, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address, '--chat-template', 'chatml')
        with Server('--http-port', port, '--chat-template', 'chatml', model=target) as server:
            chosen, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address)
            self.assertEqual(post(f'http://127.0.0.1:{port}', '/v1/chat/completions', CHAT)[0], 200)
        self.assertEqual((named, chosen), (14, 14))

    def test_a_template_that_nobody_has_met_is_executed(self):
        target = self.copy(TARGET, WITH_BOS, 'target')
        path = target / 'tokenizer_config.json'
        config = json.loads(path.read_text(encoding='utf-8'))
        path.write_text(json.dumps({**config, 'bos_token': '<|endoftext|>', 'eos_token': '<|endoftext|>'}), encoding='utf-8')
        port = free_port()
        with Server('--http-port', port, model=target) as server:
            tokens, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address)
            status, answer = post(f'http://127.0.0.1:{port}', '/v1/chat/completions', CHAT)
        self.assertEqual((tokens, status, answer['usage']['prompt_tokens']), (15, 200, 15))

    def test_a_file_takes_the_place_of_the_models_template_on_either_side(self):
        path = self.folder / 'own.jinja'
        path.write_text(SMOLLM2, encoding='utf-8')
        with Server() as server:
            users, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address, '--chat-template', path)
        with Server('--chat-template', path) as server:
            operators, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address)
        offline, _ = self.prompt_tokens('--model', DRAFT, '--target', TARGET, '--chat-template', path)
        self.assertEqual(users, operators)
        self.assertEqual(users, offline)
        self.assertGreater(users, 20)  # with SmolLM2's message of the system
        answer = edge('run', *QUESTION, '--target', TARGET, '--chat-template', self.folder / 'none.jinja')
        self.assertNotEqual(answer.code, 0)
        self.assertIn('none.jinja', answer.err)

    def test_files_of_templates_are_read_and_chosen_by_name(self):
        target = self.copy(TARGET, INVALID, 'target')
        (target / 'chat_template.json').write_text(json.dumps({'chat_template': CHATML}), encoding='utf-8')
        (target / 'additional_chat_templates').mkdir()
        (target / 'additional_chat_templates/tool_use.jinja').write_bytes(b'\xef\xbb\xbf' + SMOLLM2.encode())
        usual, _ = self.prompt_tokens('--target', target)
        tools, _ = self.prompt_tokens('--target', target, '--chat-template', 'tool_use')
        with Server('--chat-template', 'tool_use', model=target) as server:
            operators, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address)
        self.assertEqual(usual, 14)
        self.assertGreater(tools, 20)  # with SmolLM2's message of the system
        self.assertEqual(operators, tools)

    def test_a_wrong_name_is_refused_at_the_start_by_both(self):
        server = subprocess.run([BIN / 'outrider-server', '--model', TARGET, '--port', '0', '--chat-template', 'chatm'],
                                capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(server.returncode, 0)
        self.assertIn('chat template "chatm" is not known', server.stderr)
        answer = edge('run', *QUESTION, '--target', TARGET, '--chat-template', 'chatm')
        self.assertNotEqual(answer.code, 0)
        self.assertIn('chat template "chatm" is not known', answer.err)

    def test_a_server_that_does_not_tell_leaves_the_drafts_which_is_said(self):
        with Server(model='null:3072') as server:
            flags = ('--model', DRAFT, '--server', server.address)
            # Another tokenizer, so there is no answer; the line comes before the error.
            answer = edge('run', *QUESTION, *flags)
        self.assertIn(f'chat template: that of {DRAFT}, because the server does not send', answer.err)

    def test_two_targets_with_two_templates_are_refused_at_the_start(self):
        own = self.copy(TARGET, SMOLLM2, 'own')
        with Server() as server:
            answer = edge('run', *QUESTION, '--model', DRAFT, '--server', server.address, '--target', own)
            self.assertNotEqual(answer.code, 0)
            self.assertIn("the server's chat template has SHA-256", answer.err)
            self.assertIn("this device's target has SHA-256", answer.err)
            same, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address, '--target', TARGET)
            named, _ = self.prompt_tokens('--model', DRAFT, '--server', server.address, '--target', own,
                                          '--chat-template', 'chatml')
        self.assertEqual((same, named), (14, 14))

    def test_a_server_that_comes_back_with_another_template_refuses_the_old_prompt_and_is_asked_anew(self):
        port, edge_port = free_port(), free_port()
        server = Server(port=port)
        serving = Edge('serve', '--model', DRAFT, '--server', server.address, '--port', edge_port)
        base = f'http://127.0.0.1:{edge_port}'
        try:
            wait_until_served(base)
            status, answer = post(base, '/v1/chat/completions', CHAT)
            self.assertEqual((status, answer['usage']['prompt_tokens']), (200, 14))
            server.stop()
            server = Server('--chat-template', 'smollm2', port=port)
            status, answer = post(base, '/v1/chat/completions', CHAT)
            self.assertGreaterEqual(status, 400)
            self.assertIn('chat template', answer['error']['message'])
            def answered():
                status, answer = post(base, '/v1/chat/completions', CHAT)
                return status == 200 and answer
            answer = eventually(answered, seconds=START_SECONDS)
            self.assertGreater(answer['usage']['prompt_tokens'], 20)
        finally:
            serving.interrupt()
            serving.wait()
            server.stop()

    def test_a_server_that_is_away_is_waited_for(self):
        port = free_port()
        waiting = Edge('run', *QUESTION, '--model', DRAFT, '--server', f'127.0.0.1:{port}')
        said = ''
        while 'retrying for up to' not in said:
            said = waiting.process.stderr.readline()
            self.assertTrue(said, 'it did not wait')
        with Server(port=port):
            answer = waiting.wait()
        self.assertEqual(answer.code, 0, answer.err)
        gone = edge('run', *QUESTION, '--model', DRAFT, '--server', f'127.0.0.1:{port}', '--reconnect-timeout', '0.5')
        self.assertNotEqual(gone.code, 0)
        self.assertIn('gave up after 0.5 s of retries', gone.err)


if __name__ == '__main__':
    run_tests()
