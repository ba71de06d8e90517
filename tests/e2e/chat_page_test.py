#!/usr/bin/env python3
"""The page of `outrider-edge serve` in a browser: a question, its answer, and what it is compared with.

  OUTRIDER_BIN=build/release/bin tests/e2e/chat_page_test.py
  SCREENSHOTS=FOLDER ..             also keeps pictures of it, to look at

SPDX-License-Identifier: Apache-2.0
"""
import os
import unittest

from browser import PROGRAM, Browser
from programs import eventually
from runner import run_tests
from serving_edge import WithServingEdge

WIDTHS = (1280, 390)
ASK = ("document.getElementById('text').value = 'Pick up the red cup.';"
       "document.getElementById('form').requestSubmit()")
COMPARE = "document.getElementById('compare').click()"


@unittest.skipUnless(PROGRAM, 'needs Chromium (Debian package chromium)')
class ChatPage(WithServingEdge):
    flags = ('--strategy', 'sd')  # which drafts on a fast target, too

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        super().tearDownClass()

    def figures(self):
        return self.browser.value("document.getElementById('figures').textContent")

    def wait_for(self, words):
        eventually(lambda: words in self.figures(), lambda: f'no "{words}" in: {self.figures()}')

    def test_a_question_is_answered_and_compared(self):
        for width in WIDTHS:
            self.browser.console.clear()
            self.browser.requests.clear()
            self.browser.open(self.base + '/', width)
            self.browser.value(ASK)
            self.wait_for('tokens a target pass')
            self.assertGreater(self.browser.value("document.querySelectorAll('.guess').length"), 5)
            self.assertFalse(self.browser.value("document.getElementById('compare').hidden"))
            self.browser.value(COMPARE)
            self.wait_for('as fast as plain decoding')
            self.assertIn('same text', self.figures())
            self.assertEqual(self.browser.value("document.getElementById('link').textContent"),
                             'link online: the server decides')
            if os.environ.get('SCREENSHOTS'):
                self.browser.screenshot(f'{os.environ["SCREENSHOTS"]}/chat-{width}.png')
            self.assertLessEqual(self.browser.value('document.documentElement.scrollWidth'), width)
            self.assertEqual(self.browser.console, [], width)
            outside = [url for url in self.browser.requests if not url.startswith((self.base, 'data:'))]
            self.assertEqual(outside, [], width)


if __name__ == '__main__':
    run_tests(verbosity=2)
