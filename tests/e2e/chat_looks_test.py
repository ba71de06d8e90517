#!/usr/bin/env python3
"""How the chat page shows what a model writes, whatever that is, and whether everybody can read and use it.

  OUTRIDER_BIN=build/release/bin tests/e2e/chat_looks_test.py
  SCREENSHOTS=FOLDER ..             also keeps pictures of it, to look at

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import unittest

from browser import PROGRAM, Browser
from chat_page import ChatPage
from programs import Server, free_port, wait_until_served
from runner import run_tests

# Markdown and what it becomes, without classes and the like.
MARKDOWN = {
    'emphasis': ('Hello **bold**, *em*, ***both***, ~~gone~~, snake_case_name and 2 * 3 * 4.',
                 '<p>Hello <strong>bold</strong>, <em>em</em>, <em><strong>both</strong></em>, <del>gone</del>, '
                 'snake_case_name and 2 * 3 * 4.</p>'),
    'code': ('Use `a <b>` and `` ` `` here.', '<p>Use <code>a &lt;b&gt;</code> and <code>`</code> here.</p>'),
    'headings': ('# One #\n## Two\ntext\nmore', '<h3>One</h3><h4>Two</h4><p>text<br>more</p>'),
    'lists': ('- a\n- b\n  - c\n\n    para\n- d\n\n3. three\n   - x\n4. four',
              '<ul><li><p>a</p></li><li><p>b</p><ul><li><p>c</p><p>para</p></li></ul></li><li><p>d</p></li></ul>'
              '<ol start="3"><li><p>three</p><ul><li><p>x</p></li></ul></li><li><p>four</p></li></ol>'),
    'fenced code': ('```py\nif a < b:\n\treturn "**x**"\n```\nafter',
                    '<div><div><span>py</span><button>Copy</button></div><pre><code>if a &lt; b:\n\treturn "**x**"\n'
                    '</code></pre></div><p>after</p>'),
    'unclosed code': ('~~~\na\n\nb', '<div><div><span></span><button>Copy</button></div><pre><code>a\n\nb</code></pre></div>'),
    'table': ('| a | b |\n|---|--:|\n| 1 | x \\| y |\n\nafter',
              '<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>x | y</td></tr></tbody>'
              '</table></div><p>after</p>'),
    'quote': ('> said\n> - so\n\n---', '<blockquote><p>said</p><ul><li><p>so</p></li></ul></blockquote><hr>'),
    'links': ('[a](https://a.example/x_(y)) ![p](http://p.example/) <https://z.example/> http://q.example/?a=b.',
              '<p><a>a</a> <a>p</a> <a>https://z.example/</a> <a>http://q.example/?a=b</a>.</p>'),
}
BARE = r"""html => html.replace(/ (?:class|role|aria-label|tabindex|type|href|target|rel|scope|style)="[^"]*"/g, '')"""
SHOW = """(text, step) => {
  const place = document.createElement('div'), view = new MarkdownView(place);
  for (let at = 0; at < text.length; at += step) view.write(text.slice(at, at + step));
  view.end();
  return place;
}"""
# Names, and expressions of the page's language that make the text.
HOSTILE = {
    'script': "'<script>harm = 1</script><img src=x onerror=\"harm = 1\"><svg onload=harm=1>'",
    'script in all places': "'# <script>harm=1</script>\\n- <b onclick=harm=1>x</b>\\n> <iframe src=javascript:harm=1>\\n\\n"
                            "| <style>*{display:none}</style> | a |\\n|---|---|\\n| <form action=x> | b |\\n\\n```<script>\\nx\\n```'",
    'links that are none': "'[a](javascript:harm=1) [b](data:text/html,x) [c](JaVaScRiPt:harm=1) <javascript:harm=1> "
                           "[d](//x.example) [e](vbscript:x) [f](\\\\tjavascript:x) [g](file:///etc/passwd)'",
    'unclosed fence': "'```\\n' + 'let a = 1;\\n'.repeat(100000)",
    'a line of a megabyte': "'x'.repeat(1e6)",
    'a line of a megabyte in a fence': "'```\\n' + 'x'.repeat(1e6)",
    'words without end': "'word '.repeat(200000)",
    'deep quotes': "'>'.repeat(100000) + ' end'",
    'deep lists': "Array.from({length: 1000}, (_, i) => ' '.repeat(2 * i) + '- x').join('\\n')",
    'open brackets': "'['.repeat(100000)",
    'links without end': "'[a]('.repeat(50000)",
    'stars': "'*'.repeat(100000)",
    'stars and letters': "'*a **b '.repeat(30000)",
    'underscores': "'_a '.repeat(60000)",
    'backticks of all lengths': "Array.from({length: 600}, (_, i) => '`'.repeat(i)).join(' ')",
    'bars': "'|'.repeat(50000) + '\\n' + '|-'.repeat(50000) + '\\n' + '|x'.repeat(50000)",
    'hashes': "('# ' + '#'.repeat(50000) + 'x\\n').repeat(4)",
    'rules that are none': "('- '.repeat(50000) + 'x\\n').repeat(4)",
    'spaces': "(' '.repeat(100000) + '`\\n').repeat(4)",
    'blank lines': "'- a' + '\\n'.repeat(200000) + 'b'",
    'escapes': "'\\\\\\\\'.repeat(200000)",
    'halves of characters': "'\\ud83d'.repeat(30000) + '\\u{1f916}'.repeat(30000)",
    'marks of direction': "'\\u202e'.repeat(50000) + 'a\\0b'",
}
# They are marks of Markdown for the most part, or blank, and have hardly any text to show.
MARKS_ONLY = ('bars', 'blank lines', 'deep quotes', 'deep lists', 'escapes', 'rules that are none', 'spaces', 'stars')
# The contrast of each text that is seen, by WCAG 2.1, where it is below the least: (text, contrast, colours).
LOW_CONTRAST = """least => {
  const parse = colour => colour.match(/[\\d.]+/g).map(Number);
  const shine = ([r, g, b]) => [r, g, b].map(c => c / 255).map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = node => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour[3] !== 0) return colour;
    }
    return parse(getComputedStyle(document.body).backgroundColor);
  };
  const contrast = (one, other) => {
    const [high, low] = [shine(one), shine(other)].sort((a, b) => b - a);
    return (high + 0.05) / (low + 0.05);
  };
  const found = [];
  let seen = 0;
  for (const node of document.querySelectorAll('body, body *')) {
    const hasText = [...node.childNodes].some(child => child.nodeType === 3 && child.data.trim()) || node.placeholder;
    if (!hasText || !node.checkVisibility() || node.closest('script, style')) continue;
    ++seen;
    const styles = [getComputedStyle(node)];
    if (node.placeholder) styles.push(getComputedStyle(node, '::placeholder'));
    for (const style of styles) {
      const ratio = contrast(parse(style.color), behind(node));
      if (ratio < least) found.push([(node.innerText || node.id).slice(0, 30), ratio, style.color]);
    }
  }
  for (const node of document.querySelectorAll('button, input, select, textarea')) {  // their borders, by 1.4.11
    if (!node.checkVisibility()) continue;
    const ratio = contrast(parse(getComputedStyle(node).borderTopColor), behind(node.parentElement));
    if (ratio < 3) found.push([node.id, ratio, 'border']);
  }
  return [seen, found];
}"""
SAMPLE = '\n\n'.join(text for name, (text, _) in MARKDOWN.items() if name != 'unclosed code') + '\n\n| ' + ' | '.join(['wide'] * 12) + ' |\n' + '|-' * 12 + '|\n'
CONVERSATION = [
    {'role': 'user', 'content': 'Show all that you can.'},
    {'role': 'assistant', 'content': SAMPLE, 'reasoning_content': 'It wants to see everything.',
     'about': {'figures': ['12 tokens', '34.5 tokens/s'], 'seed': '7', 'finish': 'stop'}},
    {'role': 'user', 'content': 'Turn.'},
    {'role': 'assistant', 'content': '', 'about': {'figures': ['9 tokens'], 'finish': 'tool_calls'}, 'tool_calls': [
        {'id': 'c1', 'type': 'function', 'function': {'name': 'turn', 'arguments': '{"side": "left"}'}}]},
]


@unittest.skipUnless(PROGRAM, 'needs Chromium (Debian package chromium)')
class Looks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        http = free_port()
        cls.server = Server('--http-port', http)
        cls.browser = Browser()
        cls.page = ChatPage(cls.browser, f'http://127.0.0.1:{http}')
        wait_until_served(cls.page.base)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.server.stop()

    def open_conversation(self, width=1280):
        self.page.open_fresh(width)
        self.page.wait_for("document.getElementById('model').textContent")
        self.page.value(f'chat.messages = {json.dumps(CONVERSATION)}; redraw(); showFailure("It failed, so it did.");'
                        "document.querySelector('.reasoning').open = true")
        for shown in ('table', 'blockquote', 'pre', '.text a', '.call', '.results', '.reasoning', '.failed'):
            self.assertTrue(self.page.count(shown), shown)

    def test_markdown_is_shown_alike_whole_and_in_pieces(self):
        self.page.open_fresh()
        for name, (text, html) in MARKDOWN.items():
            for step in (len(text), 7, 3, 1):
                shown = self.page.value(f'({BARE})(({SHOW})({json.dumps(text)}, {step}).innerHTML)')
                self.assertEqual(shown, html, f'{name}, {step} characters at a time')

    def test_hostile_text_stays_text_and_takes_no_time(self):
        self.page.open_fresh()
        allowed = ['A', 'BLOCKQUOTE', 'BR', 'BUTTON', 'CODE', 'DEL', 'DIV', 'EM', 'H3', 'H4', 'H5', 'H6', 'HR', 'LI', 'OL', 'P',
                   'PRE', 'SPAN', 'STRONG', 'TABLE', 'TBODY', 'TD', 'TH', 'THEAD', 'TR', 'UL']
        look = """place => {
          document.body.append(place);
          place.getBoundingClientRect();
          let depth = 0;
          for (const node of place.querySelectorAll('*')) {
            let above = 0;
            for (let up = node; up !== place; up = up.parentElement) ++above;
            depth = Math.max(depth, above);
            if (depth > 200) break;
          }
          const all = [...place.querySelectorAll('*')];
          const found = {tags: [...new Set(all.map(node => node.tagName))], length: place.textContent.length, depth,
            links: all.filter(node => node.href !== undefined).map(node => node.href),
            handlers: all.filter(node => [...node.attributes].some(each => each.name.startsWith('on'))).length};
          place.remove();
          return found;
        }"""
        for name, text in HOSTILE.items():
            for step in ('Infinity', '5000'):
                timed = f"""(() => {{
                  const text = {text}, begin = performance.now();
                  const place = ({SHOW})(text, Math.min({step}, text.length));
                  const time = performance.now() - begin;
                  return {{...({look})(place), time, given: text.length}};
                }})()"""
                found = self.page.value(timed)
                where = f'{name}, {step}: {found["time"]:.0f} ms'
                self.assertLess(found['time'], 5000, where)
                self.assertLessEqual(set(found['tags']), set(allowed), where)
                self.assertEqual([link for link in found['links'] if not link.startswith(('http://', 'https://'))], [], where)
                self.assertEqual(found['handlers'], 0, where)
                self.assertLess(found['depth'], 120, where)
                if name not in MARKS_ONLY:
                    self.assertGreater(found['length'], found['given'] * 0.4, where)  # nothing of it is lost
        self.assertEqual(self.page.value('typeof harm'), 'undefined')
        self.assertEqual(self.browser.console, [])

    def test_a_long_answer_is_drawn_in_linear_time_and_what_is_over_stays(self):
        self.page.open_fresh()
        time_of = """paragraphs => {
          const place = document.createElement('div'), view = new MarkdownView(place);
          document.body.append(place);
          const begin = performance.now();
          view.write('The **first** one.\\n\\nThe');
          const first = place.firstChild;
          for (let i = 0; i < paragraphs; ++i) {
            for (const piece of [' second', ' **and', ' so** on, ', '`with` code.\\n', i % 3 ? '\\n' : '\\n- item\\n- more\\n\\n', 'A']) {
              view.write(piece);
            }
          }
          view.end();
          const time = performance.now() - begin;
          const stays = place.firstChild === first && first.innerHTML === 'The <strong>first</strong> one.';
          place.remove();
          return [time, stays];
        }"""
        self.page.value(f'({time_of})(200)')  # is compiled by now
        short, stays = self.page.value(f'({time_of})(500)')
        long, stays_long = self.page.value(f'({time_of})(5000)')
        self.assertTrue(stays and stays_long)
        self.assertLess(long, 30 * short + 200, f'{short} ms for 500 paragraphs')

    def test_text_has_contrast_in_light_and_dark(self):
        for scheme in ('light', 'dark'):
            self.browser.prefer(prefers_color_scheme=scheme)
            for width in (1280, 360):
                self.open_conversation(width)
                self.check_contrast(scheme, f'chat-{scheme}-{width}')
                for dialog in ('settings', 'chats'):
                    self.page.value(f"keepChat(chat); listChats(); at('{dialog}').showModal()")
                    self.check_contrast(scheme, f'{dialog}-{scheme}-{width}')
                    self.page.value(f"at('{dialog}').close()")
            papers = self.page.value("getComputedStyle(document.body).backgroundColor")
            self.assertEqual(papers == 'rgb(255, 255, 255)', scheme == 'light')
        self.browser.prefer()

    def check_contrast(self, scheme, name):
        if os.environ.get('SCREENSHOTS'):
            self.browser.screenshot(f'{os.environ["SCREENSHOTS"]}/{name}.png')
        seen, low = self.page.value(f'({LOW_CONTRAST})(4.5)')
        self.assertGreater(seen, 20, name)
        self.assertEqual(low, [], f'{name}, {scheme}')
        # The check can fail: no text has the contrast of black on white here.
        self.assertTrue(self.page.value(f'({LOW_CONTRAST})(21)')[1])

    def test_a_phone_shows_it_all_without_scrolling_sideways(self):
        self.open_conversation(360)
        self.assertLessEqual(self.page.value('document.documentElement.scrollWidth'), 360)
        self.assertLessEqual(self.page.value("at('talk').scrollWidth - at('talk').clientWidth"), 0)
        small = self.page.value("[...document.querySelectorAll('nav button, #send, #actions button')]"
                                ".filter(b => b.getBoundingClientRect().height < 44).map(b => b.textContent)")
        self.assertEqual(small, [])
        for dialog in ('settings', 'chats'):
            self.page.value(f"at('{dialog}').showModal()")
            self.assertLessEqual(self.page.value(f"at('{dialog}').getBoundingClientRect().right"), 360)
            self.page.value(f"at('{dialog}').close()")

    def test_screen_readers_get_names_and_news(self):
        self.open_conversation()
        for dialog in (None, 'settings', 'chats'):
            if dialog:
                self.page.value(f"keepChat(chat); listChats(); at('{dialog}').showModal()")
            self.browser.call('Accessibility.enable')
            nodes = self.browser.call('Accessibility.getFullAXTree')['nodes']
            controls = [node for node in nodes if not node['ignored'] and node['role']['value'] in
                        ('button', 'textbox', 'spinbutton', 'combobox', 'link', 'dialog', 'main', 'navigation')]
            self.assertGreater(len(controls), 5 if dialog else 10)
            nameless = [node['role']['value'] for node in controls if not node.get('name', {}).get('value')]
            self.assertEqual(nameless, [], dialog)
            if dialog:
                self.page.value(f"at('{dialog}').close()")
        live = self.page.value("[...document.querySelectorAll('.turn.assistant')].map(t => [t.ariaLive, t.ariaBusy])")
        self.assertEqual(live, [['polite', 'false']] * 2)
        self.assertEqual(self.page.value("new AnswerView().node.ariaBusy"), 'true')
        self.assertEqual(self.page.value("at('state').getAttribute('role')"), 'status')

    def test_who_wants_little_motion_sees_none(self):
        moves = "getComputedStyle(new AnswerView().node.querySelector('h2'), '::after').animationName"
        for motion, name in (('no-preference', 'waiting'), ('reduce', 'none')):
            self.browser.prefer(prefers_reduced_motion=motion)
            self.page.open_fresh()
            self.assertEqual(self.page.value(moves), name)
        self.browser.prefer()


if __name__ == '__main__':
    run_tests(verbosity=2)
