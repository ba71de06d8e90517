#!/usr/bin/env python3
"""Prompt sets keep what a right answer is, and bench/quality/quality.py judges by it; generated code reaches nothing.

  OUTRIDER_BIN=build/release/bin tests/e2e/quality_test.py

SPDX-License-Identifier: Apache-2.0
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from programs import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, ending_with_us
from runner import run_tests

sys.path.insert(0, str(ROOT / 'bench/quality'))
import judge  # noqa: E402

MAKE, QUALITY = ROOT / 'bench/prompts/make.py', ROOT / 'bench/quality/quality.py'
WORDS = ' '.join(f'word{i}' for i in range(140))
# By set: what its publisher's file looks like, and the prompts that come of it.
FILES = {
    'gsm8k': ('t.jsonl', [{'question': 'How many?', 'answer': 'Many.\n#### 1,200'}], [{'prompt': 'How many?', 'answer': '1200'}]),
    'humaneval': ('h.jsonl.gz', [{'prompt': 'def f():\n', 'entry_point': 'f', 'test': 'def check(c): pass'}],
                  [{'prompt': 'Complete this Python function:\n\ndef f():\n', 'code': 'def f():\n', 'entry_point': 'f', 'tests': 'def check(c): pass'}]),
    'cnn-dailymail': ('c.csv', 'id,article,highlights\n1,"Long, it was.",Short.\n',
                      [{'prompt': 'Summarize this article in a few sentences:\n\nLong, it was.', 'references': ['Short.']}]),
    'nq': ('n.jsonl', [{'question': 'who', 'answer': ['he', 'him']}], [{'prompt': 'who', 'references': ['he', 'him']}]),
    'squad': ('s.json', {'data': [{'paragraphs': [{'context': 'A cup.', 'qas': [{'question': 'What?', 'answers': [{'text': 'cup'}]},
                                                                              {'question': 'Why?', 'answers': []}]}]}]},
              [{'prompt': 'A cup.\n\nWhat?', 'references': ['cup']}]),
    'truthfulqa': ('t.csv', 'Question,Correct Answers\nIs it?,Yes; It is\n', [{'prompt': 'Is it?', 'references': ['Yes', 'It is']}]),
    'wmt': ('w.jsonl', [{'translation': {'de': 'Hut', 'en': 'hat'}}], [{'prompt': 'Translate German to English: Hut', 'references': ['hat']}]),
    'wikitext': ('w.txt', f' = Title = \n{WORDS}\nshort\n', [{'prompt': WORDS[:WORDS.index(' word64')], 'references': [WORDS[WORDS.index('word64'):]]}]),
    'alpaca': ('a.json', [{'instruction': 'Add.', 'input': '1 2', 'output': '3'}], [{'prompt': 'Add.\n\n1 2', 'references': ['3']}]),
    'arc': ('a.jsonl', [{'question': {'stem': 'Q', 'choices': [{'text': 'x', 'label': 'A'}, {'text': 'y', 'label': 'B'}]}, 'answerKey': 'B'}],
            [{'prompt': 'Q', 'choices': ['x', 'y'], 'choice': 1}]),
    'sciq': ('s.json', [{'question': 'Q', 'correct_answer': 'a', 'distractor1': 'b', 'distractor2': 'c', 'distractor3': 'd', 'support': ''}],
             [{'prompt': 'Q', 'choices': ['a', 'b', 'c', 'd'], 'choice': 0}]),
}


def call(*words, code=0):
    ended = subprocess.run(ending_with_us(sys.executable, *words), capture_output=True, text=True, check=False, timeout=300,
                           env={**CLEAN_ENVIRONMENT, 'OUTRIDER_BIN': str(BIN)})
    if ended.returncode != code:
        raise AssertionError(f'{words} ended with {ended.returncode}: {ended.stderr}')
    return ended


def write(path, content):
    text = content if isinstance(content, str) else json.dumps(content) if path.suffix == '.json' else ''.join(json.dumps(line) + '\n' for line in content)
    (gzip.open(path, 'wt', encoding='utf-8') if path.suffix == '.gz' else open(path, 'w', encoding='utf-8')).write(text)


def read(path):
    return [json.loads(line) for line in Path(path).read_text(encoding='utf-8').splitlines()]


class InAFolder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)


class PromptSets(InAFolder):
    def test_keep_what_is_right(self):
        for name, (file, content, prompts) in FILES.items():
            with self.subTest(name):
                write(self.folder / file, content)
                call(MAKE, name, self.folder / file, '--out', self.folder / 'out.jsonl')
                self.assertEqual(read(self.folder / 'out.jsonl'), prompts)

    def test_of_two_files(self):
        for name, text in (('q.jsonl', '{"goal": "G", "sol1": "a", "sol2": "b"}\n'), ('labels.lst', '1\n'), ('t.fr', 'chat\n'), ('t.en', 'cat\n')):
            (self.folder / name).write_text(text, encoding='utf-8')
        call(MAKE, 'piqa', self.folder / 'q.jsonl', self.folder / 'labels.lst', '--out', self.folder / 'out.jsonl')
        self.assertEqual(read(self.folder / 'out.jsonl'), [{'prompt': 'G', 'choices': ['a', 'b'], 'choice': 1}])
        call(MAKE, 'iwslt', self.folder / 't.fr', self.folder / 't.en', '--out', self.folder / 'out.jsonl')
        self.assertEqual(read(self.folder / 'out.jsonl'), [{'prompt': 'Translate French to English: chat', 'references': ['cat']}])

    def test_wrong_files_are_refused_with_what_the_set_needs(self):
        for name, content in (('wrong.jsonl', '{"text": 1}\n'), ('torn.jsonl', '{"question"'), ('empty.jsonl', ''), ('list.json', '[1]')):
            (self.folder / name).write_text(content, encoding='utf-8')
            self.assertIn(name, call(MAKE, 'gsm8k', self.folder / name, '--out', self.folder / 'out', code=1).stderr)
        self.assertIn('No such file', call(MAKE, 'gsm8k', self.folder / 'none.jsonl', code=1).stderr)
        self.assertIn('valid-labels.lst', call(MAKE, 'piqa', self.folder / 'wrong.jsonl', code=1).stderr)
        self.assertIn('humaneval', call(MAKE, 'human', code=1).stderr)
        self.assertFalse((self.folder / 'out').exists())
        (self.folder / 'diary').write_text('mine', encoding='utf-8')
        write(self.folder / 'nq.jsonl', FILES['nq'][1])
        self.assertIn('something else', call(MAKE, 'nq', self.folder / 'nq.jsonl', '--out', self.folder / 'diary', code=1).stderr)
        self.assertEqual((self.folder / 'diary').read_text(encoding='utf-8'), 'mine')


class Judges(unittest.TestCase):
    def test_texts_and_numbers(self):
        self.assertAlmostEqual(judge.rouge_l('The cat sat.', 'the cat sat on it'), 6 / 8)
        self.assertEqual((judge.rouge_l('', 'a'), judge.rouge_l('', ''), judge.rouge_l('b a', 'a b')), (0, 1, 0.5))
        self.assertEqual((judge.last_number('of 3, so $1,234.50.'), judge.last_number('-7'), judge.last_number('none')), (1234.5, -7, None))

    def test_the_program_of_an_answer(self):
        code = 'def f(x):\n    """Adds one."""\n'
        whole = 'def f(x):\n    return x + 1\n'
        self.assertEqual(judge.program_of(f'Here:\n```python\n{whole}```\nDone.', code, 'f'), whole)
        self.assertEqual(judge.program_of('    return x + 1\n', code, 'f'), code + '    return x + 1\n')
        self.assertEqual(judge.program_of(f'```\n{whole}', code, 'f'), whole, 'a block that was cut')


class GeneratedCode(unittest.TestCase):
    """It does nothing to its machine."""

    def setUp(self):
        try:
            judge.check_sandbox()
        except RuntimeError as error:
            self.skipTest(str(error))
        seconds, judge.SECONDS = judge.SECONDS, 2
        self.addCleanup(setattr, judge, 'SECONDS', seconds)

    def ran(self, body, tests='def check(candidate):\n    assert candidate(1) == 2'):
        return judge.run_tests(body, tests, 'f')

    def test_passes_or_fails_by_its_tests(self):
        self.assertTrue(self.ran('def f(x):\n    return x + 1').passed)
        self.assertFalse(self.ran('def f(x):\n    return x').passed)
        for early in ('import sys\nsys.exit(0)', 'import os\nos._exit(0)', 'def f(x):\n    raise SystemExit', 'def f(x):\n    import os; os._exit(0)'):
            self.assertFalse(self.ran(early).passed, early)

    def test_is_bounded(self):
        for name, body in {'loop': 'while True: pass', 'memory': 'a = [0] * (1 << 28)', 'output': 'while True: print("x" * 100000)', 'sleep': 'import time\ntime.sleep(100)',
                           'forks': 'import os\nwhile True:\n    try: os.fork()\n    except OSError: pass'}.items():
            with self.subTest(name):
                self.assertFalse(self.ran(f'{body}\ndef f(x):\n    return x + 1').passed)
        left = 'import os, time\nif os.fork() == 0:\n    os.setsid()\n    for fd in range(9):\n        try: os.close(fd)\n        except OSError: pass\n    time.sleep(1000)\n'
        self.assertTrue(self.ran(left + 'def f(x):\n    return x + 1').passed)
        self.assertNotIn('time.sleep(1000)', subprocess.run(['ps', '-e', '-o', 'args'], capture_output=True, text=True, check=True).stdout)

    def test_reaches_no_file_and_no_network(self):
        with tempfile.TemporaryDirectory(dir=ROOT) as folder:
            for body in (f'open({str(Path(folder) / "x")!r}, "w").write("x")', 'import socket\nsocket.create_connection(("127.0.0.1", 22), 1)',
                         'import socket\nsocket.create_connection(("1.1.1.1", 80), 1)', 'import os\nos.kill(1, 9)\nos.kill(os.getppid(), 9)\nraise OSError'):
                self.assertFalse(self.ran(f'{body}\ndef f(x):\n    return x + 1').passed, body)
            self.assertEqual(os.listdir(folder), [])


class Quality(InAFolder):
    def quality(self, *words, code=0):
        ended = call(QUALITY, *words, code=code)
        return ended.stderr if code == 2 else json.loads(ended.stdout.splitlines()[-1])

    def test_drafts_change_no_answer(self):
        asked = ('--prompts', ROOT / 'bench/prompts/gsm8k.jsonl', '--num-prompts', 2, '--max-tokens', 24, '--target', TARGET)
        asked = tuple(map(str, asked))
        kept = str(self.folder / 'answers.jsonl')
        plain = self.quality(*asked, '--out', kept)
        drafted = self.quality(*asked, '--draft', str(DRAFT), '--against', kept, '--same')
        self.assertEqual(drafted['exact'], plain['exact'])
        self.assertEqual((drafted['other_texts'], drafted['rouge_l_to_them']['mean']), (0, 1))
        answers = read(kept)
        self.assertTrue(all(answer['text'] for answer in answers))
        answers[0]['text'] += ' not'
        Path(kept).write_text(''.join(json.dumps(answer) + '\n' for answer in answers), encoding='utf-8')
        other = self.quality(*asked, '--draft', str(DRAFT), '--against', kept, '--same', code=1)
        self.assertEqual(other['other_texts'], 1)

    def test_choices_by_their_likelihood(self):
        # The answer's own beginning is likelier than a text that no model says.
        (self.folder / 'set.jsonl').write_text(json.dumps({'prompt': 'The cup is on the', 'choices': ['zq xv kj', 'table'], 'choice': 1}) + '\n', encoding='utf-8')
        got = self.quality('--prompts', str(self.folder / 'set.jsonl'), '--target', str(TARGET))
        self.assertEqual((got['metric'], got['right']), ('accuracy', 1))

    def test_wrong_usage_is_refused(self):
        prompts = str(ROOT / 'bench/prompts/mt-bench.jsonl')
        self.assertIn('no field says what is right', self.quality('--prompts', prompts, '--target', str(TARGET), code=2))
        self.assertIn('nothing answers', self.quality('--prompts', prompts, code=2))
        self.assertIn('--same compares', self.quality('--prompts', prompts, '--url', 'http://127.0.0.1:1', '--same', code=2))
        self.assertIn('holds 30', self.quality('--prompts', prompts, '--num-prompts', '31', '--url', 'http://127.0.0.1:1', code=2))
        self.assertIn('did not start', self.quality('--prompts', str(ROOT / 'bench/prompts/gsm8k.jsonl'), '--target', str(self.folder), code=2))


if __name__ == '__main__':
    run_tests()
