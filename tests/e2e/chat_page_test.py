#!/usr/bin/env python3
"""The chat page of both programs in a browser: what is asked, stopped, answered anew, kept, and called.

  OUTRIDER_BIN=build/release/bin tests/e2e/chat_page_test.py
  SCREENSHOTS=FOLDER ..             also keeps pictures of it, to look at

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import re
import tempfile
import unittest
import urllib.request
from pathlib import Path

from browser import PROGRAM, SHIFT, Browser
from chat_page import LAST_ANSWER, ChatPage
from programs import FORGETFUL, HeldServer, Server, eventually, free_port, new_key, wait_until_served
from runner import run_tests
from serving_edge import WithServingEdge
from tools_test import TEMPLATE

WIDTHS = (1280, 360)
QUESTION = 'Pick up the red cup.'
HELD_TOKENS = 12  # of an answer, at least
TURN = json.dumps([{'type': 'function', 'function': {
    'name': 'turn', 'description': 'Turns the robot.', 'parameters': {
        'type': 'object', 'properties': {'side': {'enum': ['left', 'right']}}, 'required': ['side'],
        'additionalProperties': False}}}])


@unittest.skipUnless(PROGRAM, 'needs Chromium (Debian package chromium)')
class Pages(WithServingEdge):
    flags = ('--strategy', 'sd')  # which drafts on a fast target, too
    server_class = HeldServer

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        template = Path(cls.folder.name) / 'tools.jinja'
        template.write_text(TEMPLATE, encoding='utf-8')
        cls.server_flags = (*FORGETFUL, '--chat-template', template)
        super().setUpClass()
        cls.browser = Browser()
        cls.edge_page = ChatPage(cls.browser, cls.base)
        cls.server_page = ChatPage(cls.browser, f'http://127.0.0.1:{cls.health}')

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.release()
        super().tearDownClass()
        cls.folder.cleanup()

    def both(self, width=1280):
        """Each program's page, with nothing kept from before."""
        for page in (self.edge_page, self.server_page):
            page.open_fresh(width)
            yield page

    def picture(self, name):
        if os.environ.get('SCREENSHOTS'):
            self.browser.screenshot(f'{os.environ["SCREENSHOTS"]}/{name}.png')

    def test_an_answer_of_the_edge_is_compared_with_plain_decoding(self):
        page = self.edge_page
        for width in WIDTHS:
            page.open_fresh(width)
            page.ask(QUESTION)
            self.assertIn('tokens a target pass', page.figures())
            self.assertRegex(page.figures(), r'\d+ % drafted here')
            page.click('Show what was drafted')
            self.assertGreater(page.count('.tokens .as-is .guess'), 5)
            page.click('Show what was drafted')
            self.assertEqual(page.count('.tokens'), 0)
            page.click('Measure against plain decoding')
            page.wait_for(f"{LAST_ANSWER}.innerText.includes('as fast as plain decoding')")
            self.assertIn('same text', page.figures())
            self.assertEqual(page.text('#link'), 'link online: the server decides')
            self.picture(f'chat-{width}')
            self.assertLessEqual(page.value('document.documentElement.scrollWidth'), width)
            self.assertEqual(self.browser.console, [], width)
            outside = [url for url in self.browser.requests if not url.startswith((page.base, 'data:'))]
            self.assertEqual(outside, [], width)

    def test_both_programs_serve_it_and_answer_alike(self):
        answers = []
        for page in self.both():
            page.wait_for("document.getElementById('model').textContent")
            self.assertEqual(page.value("document.getElementById('link').hidden"), page is self.server_page)
            page.set(temperature='0', max_completion_tokens='24')
            answers.append(page.ask(QUESTION))
            self.assertRegex(page.figures(), r'^\d+ tokens .*tokens/s')
            self.assertNotIn('seed', page.figures())  # nothing was sampled
            self.assertEqual(self.browser.console, [])
        self.assertTrue(answers[0])
        self.assertEqual(answers[0], answers[1])

    def test_examples_suit_the_model(self):
        for page in self.both():
            page.wait_for("document.getElementById('model').textContent")
            page.wait_for("document.querySelectorAll('.example').length === 3")
            self.assertIn('silver bottle', page.text('#talk'))
            page.click('Pick something up' + QUESTION)
            page.wait_until('ready')
            self.assertEqual(page.count('.example'), 0)
            self.assertEqual(page.text('.turn.user .as-is'), QUESTION)
        general = page.value("examplesFor('SmolLM2-135M').map(example => example.text).join()")
        self.assertNotIn('cup', general)
        self.assertIn('Python', page.value("examplesFor('Qwen2.5-Coder').map(example => example.text).join()"))

    def test_settings_reach_the_request_and_the_seed_can_be_used_again(self):
        for page in self.both():
            page.set(system='You are a robot.', temperature='0.9', top_p='0.95', top_k='40', min_p='0.01',
                     max_completion_tokens='16')
            first = page.ask(QUESTION)
            sent = page.last_request()
            self.assertEqual(sent['messages'][0], {'role': 'system', 'content': 'You are a robot.'})
            self.assertEqual([sent[name] for name in ('temperature', 'top_p', 'top_k', 'min_p', 'max_completion_tokens')],
                             [0.9, 0.95, 40, 0.01, 16])
            self.assertNotIn('seed', sent)
            seed = page.seed()
            page.click('Use this seed')
            page.open()  # settings and chat are still there
            self.assertEqual(page.value("fields.elements.seed.value"), seed)
            self.assertEqual(page.answer(), first)
            page.click('New chat')
            self.assertEqual(page.ask(QUESTION), first)
            self.assertEqual(str(page.last_request()['seed']), seed)
            page.set(seed='18446744073709551615')  # more than a JavaScript number can hold
            page.click('New chat')
            page.ask(QUESTION)
            self.assertIn('"seed":18446744073709551615,', self.browser.posts[-1])
            self.assertEqual(page.seed(), '18446744073709551615')

    def test_settings_that_cannot_be_sent_are_shown(self):
        page = self.server_page
        page.open_fresh()
        for name, bad in (('tools', '[{"type": '), ('tools', '{}'), ('seed', '1.5'), ('top_p', '2')):
            page.set(**{name: bad})
            self.browser.posts.clear()
            page.send(QUESTION)
            self.assertTrue(page.value("document.getElementById('settings').open"), bad)
            self.assertFalse(page.value(f"fields.elements.{name}.checkValidity()"))
            self.assertEqual(self.browser.posts, [])
            self.assertEqual(page.value("document.getElementById('text').value"), QUESTION)
            if name == 'tools':
                self.assertIn('Tools is no JSON list', page.text('#tools-error'))
            page.click('Empty all')
            page.click('Done')
            page.value("document.getElementById('text').value = ''")
        page.set(tools='[{"type": "function"}]')  # the server's own words
        page.send(QUESTION)
        page.wait_until('failed')
        self.assertIn('tools[0]', page.text('[role=alert].failed:not(.whole)'))

    def test_stop_keeps_what_came_and_regenerate_answers_anew(self):
        for page in self.both():
            page.set(temperature='0', max_completion_tokens='60')
            prompt = self.prompt_tokens()
            self.server.hold(prompt + HELD_TOKENS)
            page.send(QUESTION)
            page.wait_for(f"{LAST_ANSWER}?.querySelector('.text').innerText.length > 0")
            self.assertEqual(page.value("document.getElementById('send').textContent"), 'Stop')
            self.browser.press('Escape')
            page.wait_until('stopped')
            self.server.release()
            part = page.answer()
            self.assertTrue(part)
            self.assertIn('stopped', page.figures())
            self.assertEqual(page.value("document.getElementById('send').textContent"), 'Send')
            page.set(temperature='0.7')
            page.click('Regenerate')
            page.wait_until('ready')
            first = page.seed()
            self.assertNotIn('stopped', page.figures())
            page.click('Regenerate')
            page.wait_until('ready')
            self.assertNotEqual(page.seed(), first)
            self.assertEqual([message['role'] for message in page.last_request()['messages']], ['user'])
            self.assertEqual(page.count('.turn'), 2)

    def prompt_tokens(self):
        body = {'messages': [{'role': 'user', 'content': QUESTION}], 'max_tokens': 1}
        request = urllib.request.Request(f'{self.server_page.base}/v1/chat/completions', json.dumps(body).encode(),
                                         {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)['usage']['prompt_tokens']

    def test_the_last_message_can_be_edited(self):
        for page in self.both():
            page.set(max_completion_tokens='8')
            page.ask(QUESTION)
            page.ask('Go back.')
            page.click('Edit the last message')
            self.assertEqual(page.value("document.getElementById('text').value"), 'Go back.')
            self.browser.press('Escape')
            self.assertEqual(page.value("document.getElementById('text').value"), '')
            self.assertEqual(page.count('.turn'), 4)
            page.click('Edit the last message')
            page.ask(' And wait.')
            self.assertEqual(page.count('.turn'), 4)
            texts = [message['content'] for message in page.last_request()['messages'] if message['role'] == 'user']
            self.assertEqual(texts, [QUESTION, 'Go back. And wait.'])

    def test_chats_are_kept_opened_exported_and_deleted(self):
        page = self.server_page
        page.open_fresh()
        page.set(max_completion_tokens='8')
        first = page.ask(QUESTION)
        page.click('New chat')
        page.ask('Go to the door.')
        page.open()  # the tab goes on with its chat
        self.assertEqual(page.text('.turn.user .as-is'), 'Go to the door.')
        page.click('Chats')
        self.assertEqual(page.value("[...document.querySelectorAll('#list .title')].map(t => t.innerText)"),
                         ['Go to the door.', QUESTION])
        page.click(QUESTION)
        self.assertEqual(page.answer(), first)
        page.click('Chats')
        self.browser.call('Page.setDownloadBehavior', behavior='allow', downloadPath=self.folder.name)
        page.click('Export as JSON')
        exported = Path(self.folder.name) / 'outrider-chats.json'
        eventually(exported.exists, 'no file came')
        eventually(lambda: exported.stat().st_size)
        chats = json.loads(exported.read_text(encoding='utf-8'))
        self.assertEqual([chat['title'] for chat in chats], ['Go to the door.', QUESTION])
        self.assertEqual(chats[1]['messages'][1]['content'].split(), first.split())
        page.click(f'Delete {QUESTION}')
        self.assertEqual(page.count('#list li'), 1)
        self.assertEqual(page.count('.turn'), 0)  # it was open
        page.click('Delete all')
        self.assertEqual(page.count('#list li'), 1)
        page.click('Really delete all chats?')
        self.assertEqual(page.count('#list li'), 0)
        self.assertEqual(page.value('chatEntries().length'), 0)

    def test_kept_chats_are_bounded(self):
        page = self.server_page
        page.open_fresh()
        keep = ("(size, count) => { let kept = true; for (let i = 0; i < count; ++i) kept &&= keepChat({id: String(i), "
                "when: i + 1, title: '', messages: [{role: 'user', content: 'x'.repeat(size)}]}); "
                "return [kept, keptChats().length, keptChats()[0].id] }")
        self.assertEqual(page.value(f'({keep})(10, 130)'), [True, 100, '129'])
        page.value('localStorage.clear()')
        kept, chats, latest = page.value(f'({keep})(500000, 12)')
        self.assertEqual((kept, latest), (True, '11'))
        self.assertLessEqual(chats * 500000, 3_000_000)
        page.value("localStorage.clear(); localStorage.setItem('outrider.chat.x', '{broken'); "
                   "localStorage.setItem('outrider.settings', '[1]')")
        page.open()  # what is broken is passed over
        self.assertEqual(self.browser.console, [])
        self.assertEqual(page.value('keptChats().length'), 0)

    def test_calls_are_shown_and_their_results_go_on(self):
        for page in self.both():
            page.set(tools=TURN, tool_choice='required', temperature='0', max_completion_tokens='60')
            page.send(QUESTION)
            page.wait_until('ready')
            self.assertEqual(page.text('.call h3'), 'Calls turn')
            self.assertRegex(page.text('.call pre'), r'"side":\s*"(left|right)"')
            page.open()  # the result may be given later
            fields = page.count('.results textarea')  # the model may have made several
            self.assertGreater(fields, 0)
            for index in range(fields):
                page.value(f"document.querySelectorAll('.results textarea')[{index}].focus()")
                self.browser.write(f'done {index}')
            page.set(tool_choice='none')
            page.click('Send the results' if fields > 1 else 'Send the result')
            page.wait_until('ready')
            asked = page.last_request()['messages']
            self.assertEqual([message['role'] for message in asked], ['user', 'assistant'] + ['tool'] * fields)
            self.assertEqual([result['content'] for result in asked[2:]], [f'done {index}' for index in range(fields)])
            self.assertEqual([result['tool_call_id'] for result in asked[2:]],
                             [call['id'] for call in asked[1]['tool_calls']])
            self.assertTrue(page.answer())
            self.assertEqual(page.text('.turn.tool .as-is'), 'done 0')

    def test_keys_do_it_all(self):
        page = self.edge_page
        page.open_fresh()
        page.wait_for("document.getElementById('model').textContent")
        page.value("document.getElementById('text').focus()")
        self.browser.write('one')
        self.browser.press('Enter', SHIFT)
        self.browser.write('two')
        self.assertEqual(page.value("document.getElementById('text').value"), 'one\ntwo')
        self.assertEqual(page.count('.turn'), 0)
        page.value("document.getElementById('text').value = ''; document.activeElement.blur()")
        reached = set()
        for _ in range(20):
            self.browser.press('Tab')
            reached.add(page.value("document.activeElement.id || document.activeElement.className"))
            outline = page.value("(e => e === document.body || "
                                 "parseFloat(getComputedStyle(e).outlineWidth) >= 2)(document.activeElement)")
            self.assertTrue(outline, reached)
        self.assertLessEqual({'new', 'open-chats', 'open-settings', 'talk', 'example', 'text', 'send'}, reached)
        page.value("document.getElementById('open-settings').focus()")
        self.browser.press('Enter')
        self.assertTrue(page.value("document.getElementById('settings').open"))
        self.browser.press('Escape')
        self.assertFalse(page.value("document.getElementById('settings').open"))
        self.assertEqual(page.value('document.activeElement.id'), 'open-settings')

    def test_nothing_runs_without_the_responses_own_nonce(self):
        page = self.server_page
        nonces = []
        for _ in range(2):
            with urllib.request.urlopen(page.base + '/', timeout=60) as answer:
                policy, body = answer.headers['Content-Security-Policy'], answer.read().decode()
            nonces += [found := re.search(r"script-src 'nonce-([0-9a-f]{32})'", policy).group(1)]
            self.assertIn(f'<script nonce="{found}">', body)
            self.assertNotIn('unsafe', policy)
            self.assertNotRegex(body, r'@[A-Z]+@')
        self.assertNotEqual(*nonces)
        page.open_fresh()
        page.value("document.body.append(Object.assign(document.createElement('script'), {textContent: 'harm = 1'}))")
        self.assertEqual(page.value('typeof harm'), 'undefined')


@unittest.skipUnless(PROGRAM, 'needs Chromium (Debian package chromium)')
class Keys(unittest.TestCase):
    def test_the_page_asks_for_the_key_and_keeps_it_in_its_tab(self):
        with tempfile.TemporaryDirectory() as folder:
            tokens = Path(folder) / 'tokens'
            key, http = new_key(tokens), free_port()
            with Server('--http-port', http, '--token-file', tokens):
                page = ChatPage(Browser(), f'http://127.0.0.1:{http}')
                self.addCleanup(page.browser.close)
                wait_until_served(page.base)
                page.open_fresh()
                self.assertFalse(page.value("document.getElementById('key-form').hidden"))
                self.assertEqual(page.browser.console, [])
                self.enter(page, 'wrong')
                page.wait_until('the server refuses this key')
                self.enter(page, key)
                page.wait_for("document.getElementById('model').textContent")
                page.set(max_completion_tokens='8')
                self.assertTrue(page.ask(QUESTION))
                self.assertNotIn(key, page.value('JSON.stringify(localStorage)'))
                page.open()  # the tab knows it
                page.wait_for("document.getElementById('model').textContent")
                self.assertTrue(page.value("document.getElementById('key-form').hidden"))

    @staticmethod
    def enter(page, key):
        page.wait_for("document.activeElement.id === 'key'")
        page.browser.write(key)
        page.browser.press('Enter')


if __name__ == '__main__':
    run_tests(verbosity=2)
