#!/usr/bin/env python3
"""The page of outrider-bench's report in a browser: on a desktop's screen and a phone's.

  OUTRIDER_BIN=build/release/bin tests/e2e/page_test.py
  SCREENSHOTS=FOLDER ..             also keeps pictures of it, to look at

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from browser import PROGRAM, Browser
from programs import BIN, DRAFT, TARGET
from runner import run_tests

HOSTILE = 'Find the cup. </script></title><script>console.log("harm")</script><img src=x onerror=alert(1)>'
WIDTHS = (1280, 390)


@unittest.skipUnless(PROGRAM, 'needs Chromium (Debian package chromium)')
class Page(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.page = Path(cls.folder.name) / 'page.html'
        prompts = Path(cls.folder.name) / 'prompts.jsonl'
        prompts.write_text(json.dumps({'prompt': HOSTILE}) + '\n' +
                           json.dumps({'prompt': 'Go to the door.'}) + '\n', encoding='utf-8')
        done = subprocess.run(
            [f'{BIN}/outrider-bench', 'run', f'--target={TARGET}', f'--draft={DRAFT}',
             f'--prompts={prompts}', '--num-prompts=2', '--max-tokens=24', '--network=ethernet,lte,starlink',
             '--strategy=ar,sd,mirror', '--clock=virtual', '--exit-cost=1.15', '--json',
             f'--html={cls.page}'], capture_output=True, text=True, timeout=250, check=False)
        assert cls.page.exists(), done.stderr
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.folder.cleanup()

    def show(self, width):
        self.browser.console.clear()
        self.browser.requests.clear()
        self.browser.open(self.page.as_uri(), width)

    def test_it_needs_no_network_and_logs_nothing(self):
        self.assertLess(self.page.stat().st_size, 2_000_000)
        for width in WIDTHS:
            self.show(width)
            outside = [url for url in self.browser.requests
                       if url != self.page.as_uri() and not url.startswith('data:')]
            self.assertEqual(outside, [], width)
            self.assertEqual(self.browser.console, [], width)

    def test_nothing_stands_beyond_the_screen(self):
        for width in WIDTHS:
            self.show(width)
            self.assertLessEqual(self.browser.value('document.documentElement.scrollWidth'), width)
            if os.environ.get('SCREENSHOTS'):
                self.browser.screenshot(f'{os.environ["SCREENSHOTS"]}/page-{width}.png')

    def test_each_curve_has_a_sample_in_its_legend_within_the_picture(self):
        charts = """[...document.querySelectorAll('figure.chart svg')].filter(svg => svg.querySelector('polyline'))
          .map(svg => [svg.querySelectorAll('polyline').length, svg.querySelectorAll('line.sample').length,
            Math.max(...[...svg.querySelectorAll('text')].map(text => text.getBoundingClientRect().right))
              - svg.getBoundingClientRect().right])"""
        for width in WIDTHS:
            self.show(width)
            found = self.browser.value(charts)
            self.assertGreater(len(found), 2)
            for curves, samples, beyond in found:
                self.assertEqual(samples, curves)
                self.assertLessEqual(beyond, 1)

    def test_each_chart_has_a_title_and_says_what_it_means(self):
        self.show(1280)
        self.assertGreater(self.browser.value('document.querySelectorAll("figure").length'), 2)
        bare = self.browser.value(
            '[...document.querySelectorAll("figure")].filter(f => !f.querySelector("figcaption") ||'
            ' f.querySelector("figcaption").textContent.trim().length < 40).length')
        self.assertEqual(bare, 0)


if __name__ == '__main__':
    run_tests(verbosity=2)
