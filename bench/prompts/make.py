#!/usr/bin/env python3
"""Makes prompt sets, JSON lines with a "prompt", from the files that their publishers give out.

  make.py list                        the sets that it knows: the files that each needs, and its licence
  make.py SET FILE.. [--count N] [--out OUT.jsonl]
                                      one of them, from the user's own files (.jsonl, .json, .csv or text, also .gz): N
                                      prompts (30; 0: all), evenly spaced, in the publisher's order
  make.py DATA                        those beside it, 30 of each. DATA holds gsm8k/train.jsonl, humaneval/HumanEval.jsonl.gz,
                                      spec_bench/mt_bench.jsonl and mbpp/mbpp_sanitized_for_code_generation.jsonl
  make.py DATA OUT                    instead, in the folder OUT, sets whose answers repeat what was asked: translation
                                      (spec_bench/translation.jsonl), extraction (of MT-bench) and edits (of HumanEval's code)

What a right answer is stays with the prompt, for bench/quality/quality.py: "answer" (a number), "references" (texts),
"choices" with the right one's "choice", or "tests" with "entry_point" and the "code" that an answer completes.
Robot prompts are made by outrider-train, half of them instructions that training held out, half reports.

SPDX-License-Identifier: Apache-2.0
"""
import argparse
import csv
import gzip
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get('OUTRIDER_BIN', HERE.parents[1] / 'build/release/bin'))
COUNT = 30
GSM8K_HELD_OUT = 300  # as adapters/data/prompt_sets.h: the last ones, which the demo pair never saw
ROBOT_SEED = 2        # the demo pair was trained on reports of seed 1
WIKITEXT_WORDS = 64   # of a paragraph, before the model goes on
LANGUAGES = {'cs': 'Czech', 'de': 'German', 'en': 'English', 'es': 'Spanish', 'fi': 'Finnish', 'fr': 'French', 'ja': 'Japanese', 'ro': 'Romanian',
             'ru': 'Russian', 'tr': 'Turkish', 'vi': 'Vietnamese', 'zh': 'Chinese'}


class Refused(Exception):
    """A file that is not what its set needs."""


def open_text(path):
    return gzip.open(path, 'rt', encoding='utf-8') if path.suffix == '.gz' else open(path, encoding='utf-8', newline='')


def lines(path):
    with open_text(path) as file:
        return [json.loads(line) for line in file if line.strip()]


def records(path):
    """The file's objects: of JSON lines, of a JSON list, or a table's rows."""
    kind = path.name.removesuffix('.gz').rsplit('.', 1)[-1]
    try:
        if kind == 'csv':
            csv.field_size_limit(1 << 24)
            with open_text(path) as file:
                return list(csv.DictReader(file))
        if kind == 'json':
            with open_text(path) as file:
                found = json.load(file)
            return found if isinstance(found, list) else [found]
        if kind == 'jsonl':
            return lines(path)
    except (ValueError, UnicodeDecodeError, csv.Error) as error:
        raise Refused(f'{path}: {error}') from error
    raise Refused(f"{path}: '.{kind}' is not read. Remedy: the set as .jsonl, .json or .csv")


def texts(path):
    with open_text(path) as file:
        return file.read().splitlines()


def evenly(items, count=COUNT):
    count = min(count or len(items), len(items))
    return [items[i * len(items) // count] for i in range(count)]


def number_of_gsm8k(answer):
    """The number behind the last '####'."""
    return answer.rpartition('####')[2].strip().replace(',', '')


def gsm8k(path):
    return [{'prompt': line['question'], 'answer': number_of_gsm8k(line['answer'])} for line in records(path)]


def function(line):
    """The same prompt as in adapters/data/prompt_sets.cc."""
    return 'Complete this Python function:\n\n' + line['prompt']


def functions(path):
    """Each with its tests, a function check(candidate)."""
    return [{'prompt': function(line), 'code': line['prompt'], 'entry_point': line['entry_point'], 'tests': line['test']}
            for line in records(path)]


def summaries(path):
    return [{'prompt': 'Summarize this article in a few sentences:\n\n' + line['article'], 'references': [line['highlights']]}
            for line in records(path)]


def open_questions(path):
    """Natural Questions in the open form: a question, and the short answers that are right."""
    return [{'prompt': line['question'], 'references': list(line['answer'])} for line in records(path)]


def squad(path):
    found = []
    for article in records(path)[0]['data']:
        for paragraph in article['paragraphs']:
            for question in paragraph['qas']:
                answers = [answer['text'] for answer in question['answers']]
                if answers:  # some have none in version 2
                    found.append({'prompt': f"{paragraph['context']}\n\n{question['question']}", 'references': answers})
    return found


def truthful(path):
    return [{'prompt': row['Question'], 'references': [answer.strip() for answer in row['Correct Answers'].split(';') if answer.strip()]}
            for row in records(path)]


def translations(*paths):
    """One file of objects with a "translation", or two texts, a sentence a line, whose endings name the languages."""
    if len(paths) == 1:
        pairs = [list(line['translation'].items()) for line in records(paths[0])]
    else:
        codes = [path.name.removesuffix('.gz').rsplit('.', 1)[-1] for path in paths]
        source, target = texts(paths[0]), texts(paths[1])
        if len(source) != len(target):
            raise Refused(f'{paths[0]} has {len(source)} lines, {paths[1]} {len(target)}. Remedy: two files of one text')
        pairs = [[(codes[0], one), (codes[1], other)] for one, other in zip(source, target)]
    return [{'prompt': f'Translate {LANGUAGES.get(a, a)} to {LANGUAGES.get(b, b)}: {text}', 'references': [wanted]}
            for (a, text), (b, wanted) in pairs]


def wikitext(path):
    """Beginnings of paragraphs, which the model continues; the rest of each is its reference."""
    found = []
    for line in texts(path):
        words = line.split()
        if len(words) >= 2 * WIKITEXT_WORDS and not line.lstrip().startswith('='):
            found.append({'prompt': ' '.join(words[:WIKITEXT_WORDS]), 'references': [' '.join(words[WIKITEXT_WORDS:])]})
    return found


def alpaca(path):
    found = []
    for line in records(path):
        more = f"\n\n{line['input']}" if line.get('input') else ''
        found.append({'prompt': line['instruction'] + more, 'references': [line['output']]})
    return found


def piqa(path, labels):
    right = texts(labels)
    found = records(path)
    if len(found) != len(right):
        raise Refused(f'{path} has {len(found)} questions, {labels} {len(right)} answers. Remedy: two files of one part')
    return [{'prompt': line['goal'], 'choices': [line['sol1'], line['sol2']], 'choice': int(label)} for line, label in zip(found, right)]


def multiple_choice(path):
    """ARC and OpenBookQA."""
    found = []
    for line in records(path):
        question = line['question']
        labels = [choice['label'] for choice in question['choices']]
        found.append({'prompt': question['stem'], 'choices': [choice['text'] for choice in question['choices']],
                      'choice': labels.index(line['answerKey'])})
    return found


def sciq(path):
    return [{'prompt': line['question'], 'choices': [line['correct_answer'], *(line[f'distractor{i}'] for i in (1, 2, 3))], 'choice': 0}
            for line in records(path)]


@dataclass(frozen=True)
class Source:
    read: Callable
    files: tuple
    licence: str


SETS = {
    'alpaca': Source(alpaca, ('alpaca_data.json',), 'CC-BY-NC-4.0: for measuring at home, not for a product or for training'),
    'arc': Source(multiple_choice, ('ARC-Challenge-Test.jsonl or ARC-Easy-Test.jsonl',), 'CC-BY-SA-4.0'),
    'cnn-dailymail': Source(summaries, ('test.csv or .jsonl with "article" and "highlights"',), "Apache-2.0 for the set; the articles are the newspapers'"),
    'gsm8k': Source(gsm8k, ('test.jsonl or train.jsonl',), 'MIT'),
    'humaneval': Source(functions, ('HumanEval.jsonl.gz',), 'MIT'),
    'iwslt': Source(translations, ('a .jsonl with "translation", or two texts such as tst.de and tst.en',), 'CC-BY-NC-ND-4.0: its talks may not be passed on changed'),
    'mbpp': Source(functions, ('mbpp_sanitized_for_code_generation.jsonl',), 'CC-BY-4.0'),
    'nq': Source(open_questions, ('NQ-open.dev.jsonl',), 'CC-BY-SA-3.0'),
    'obqa': Source(multiple_choice, ('test.jsonl',), 'Apache-2.0'),
    'piqa': Source(piqa, ('valid.jsonl', 'valid-labels.lst'), 'AFL-3.0'),
    'sciq': Source(sciq, ('test.json',), 'CC-BY-NC-3.0: for measuring at home, not for a product or for training'),
    'squad': Source(squad, ('dev-v1.1.json or dev-v2.0.json',), 'CC-BY-SA-4.0'),
    'truthfulqa': Source(truthful, ('TruthfulQA.csv',), 'Apache-2.0'),
    'wikitext': Source(wikitext, ('wiki.test.tokens, or any text',), 'CC-BY-SA-3.0'),
    'wmt': Source(translations, ('a .jsonl with "translation", or two texts such as newstest.de and newstest.en',), "its news is for research; see the year's page"),
}


def robot():
    def made(*flags):
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run([BIN / 'outrider-train', 'data-robot', '--seed', str(ROBOT_SEED), '--count', str(COUNT // 2), *flags,
                            '--out', file.name], check=True)
            return [{'prompt': line['prompt']} for line in lines(Path(file.name))]
    both = zip(made('--split', 'heldout'), made('--task', 'report'))
    return [prompt for pair in both for prompt in pair]


EDITS = (
    'Rename the function {name} to new_{name}.',
    'Add a comment above every loop.',
    'Shorten the docstring to one line.',
)


def edit(number, line):
    """A whole function to be given back with one change."""
    ask = EDITS[number % len(EDITS)].format(name=line['entry_point'])
    return f'{ask} Write the whole code.\n\n```python\n{line["prompt"]}{line["canonical_solution"]}```'


def first_turns(path, category=None):
    return [{'prompt': line['turns'][0]} for line in lines(path) if category in (None, line['category'])]


def repeating(data):
    humaneval = lines(data / 'humaneval/HumanEval.jsonl.gz')
    return {
        'translation': evenly(first_turns(data / 'spec_bench/translation.jsonl')),
        'extraction': first_turns(data / 'spec_bench/mt_bench.jsonl', 'extraction'),
        'edits': [{'prompt': edit(i, line)} for i, line in enumerate(evenly(humaneval))],
    }


def kept(data):
    sets = {
        'gsm8k': gsm8k(data / 'gsm8k/train.jsonl')[-GSM8K_HELD_OUT:],
        'humaneval': functions(data / 'humaneval/HumanEval.jsonl.gz'),
        'mbpp': functions(data / 'mbpp/mbpp_sanitized_for_code_generation.jsonl'),
        'mt-bench': first_turns(data / 'spec_bench/mt_bench.jsonl'),
        'robot': robot(),
    }
    return {name: evenly(prompts) for name, prompts in sets.items()}


def text_of(prompts):
    return ''.join(json.dumps(prompt, ensure_ascii=False) + '\n' for prompt in prompts)


def holds_prompts(path):
    try:
        return all('prompt' in line for line in lines(path))
    except (ValueError, TypeError):
        return False


def make_set(name, files, count):
    source = SETS[name]
    if len(files) not in ((1, 2) if source.read is translations else (len(source.files),)):
        raise Refused(f"'{name}' is made from {' and '.join(source.files)}, and {len(files)} files were named")
    try:
        prompts = source.read(*map(Path, files))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise Refused(f"{files[0]}: {error!r}: it does not have the fields of '{name}'. Remedy: {' and '.join(source.files)}") from error
    except OSError as error:
        raise Refused(f'{error.filename}: {error.strerror}') from error
    if not prompts:
        raise Refused(f'{files[0]}: holds no prompt')
    return evenly(prompts, count)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], usage='make.py list | SET FILE.. | DATA [OUT]')
    parser.add_argument('what')
    parser.add_argument('files', nargs='*')
    parser.add_argument('--count', type=int, default=COUNT)
    parser.add_argument('--out')
    options = parser.parse_args()
    if options.what == 'list':
        for name, source in SETS.items():
            print(f"{name:14} {' and '.join(source.files)}; {source.licence}")
    elif options.what in SETS:
        if options.count < 0:
            raise Refused(f'--count {options.count}: expected 0, which is all, or more')
        out = Path(options.out or f'{options.what}.jsonl')
        if out.exists() and not holds_prompts(out):
            raise Refused(f'{out}: holds something else than prompts. Remedy: --out with another name')
        prompts = make_set(options.what, options.files, options.count)
        out.write_text(text_of(prompts), encoding='utf-8')
        print(f'{len(prompts)} prompts in {out} ({SETS[options.what].licence})', file=sys.stderr)
    elif len(options.files) < 2 and Path(options.what).is_dir():
        data, out = Path(options.what), Path(options.files[0]) if options.files else HERE
        out.mkdir(parents=True, exist_ok=True)
        for name, prompts in (repeating if options.files else kept)(data).items():
            (out / f'{name}.jsonl').write_text(text_of(prompts), encoding='utf-8')
    else:
        raise Refused(f"'{options.what}' is neither a set nor a folder. Remedy: one of {', '.join(SETS)}")


if __name__ == '__main__':
    try:
        main()
    except Refused as error:
        sys.exit(f'make.py: {error}')
