#!/usr/bin/env python3
"""Writes the prompt sets beside it from the published files, by one rule: 30 of each, evenly spaced.

  bench/prompts/make.py DATA      DATA holds gsm8k/train.jsonl, humaneval/HumanEval.jsonl.gz, spec_bench/mt_bench.jsonl
                                  and mbpp/mbpp_sanitized_for_code_generation.jsonl, as they were published
  bench/prompts/make.py DATA OUT  instead, in the folder OUT, sets whose answers repeat what was asked: translation
                                  (spec_bench/translation.jsonl), extraction (of MT-bench) and edits (of HumanEval's code)

Robot prompts are made by outrider-train, half of them instructions that training held out, half reports.

SPDX-License-Identifier: Apache-2.0
"""
import gzip
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BIN = Path(os.environ.get('OUTRIDER_BIN', HERE.parents[1] / 'build/release/bin'))
COUNT = 30
GSM8K_HELD_OUT = 300  # as adapters/data/prompt_sets.h: the last ones, which the demo pair never saw
ROBOT_SEED = 2        # the demo pair was trained on reports of seed 1


def lines(path):
    opened = gzip.open(path, 'rt', encoding='utf-8') if path.suffix == '.gz' else open(path, encoding='utf-8')
    with opened as file:
        return [json.loads(line) for line in file]


def evenly(items):
    return [items[i * len(items) // COUNT] for i in range(COUNT)]


def robot():
    def made(*flags):
        with tempfile.NamedTemporaryFile() as file:
            subprocess.run([BIN / 'outrider-train', 'data-robot', '--seed', str(ROBOT_SEED), '--count', str(COUNT // 2), *flags,
                            '--out', file.name], check=True)
            return [line['prompt'] for line in lines(Path(file.name))]
    both = zip(made('--split', 'heldout'), made('--task', 'report'))
    return [prompt for pair in both for prompt in pair]


def function(line):
    """The same prompt as in adapters/data/prompt_sets.cc."""
    return 'Complete this Python function:\n\n' + line['prompt']


EDITS = (
    'Rename the function {name} to new_{name}.',
    'Add a comment above every loop.',
    'Shorten the docstring to one line.',
)


def edit(number, line):
    """A whole function to be given back with one change."""
    ask = EDITS[number % len(EDITS)].format(name=line['entry_point'])
    return f'{ask} Write the whole code.\n\n```python\n{line["prompt"]}{line["canonical_solution"]}```'


def repeating(data):
    mt_bench = lines(data / 'spec_bench/mt_bench.jsonl')
    humaneval = lines(data / 'humaneval/HumanEval.jsonl.gz')
    return {
        'translation': evenly([line['turns'][0] for line in lines(data / 'spec_bench/translation.jsonl')]),
        'extraction': [line['turns'][0] for line in mt_bench if line['category'] == 'extraction'],
        'edits': [edit(i, line) for i, line in enumerate(evenly(humaneval))],
    }


def kept(data):
    sets = {
        'gsm8k': [line['question'] for line in lines(data / 'gsm8k/train.jsonl')[-GSM8K_HELD_OUT:]],
        'humaneval': [function(line) for line in lines(data / 'humaneval/HumanEval.jsonl.gz')],
        'mbpp': [function(line) for line in lines(data / 'mbpp/mbpp_sanitized_for_code_generation.jsonl')],
        'mt-bench': [line['turns'][0] for line in lines(data / 'spec_bench/mt_bench.jsonl')],
        'robot': robot(),
    }
    return {name: evenly(prompts) for name, prompts in sets.items()}


def main():
    data = Path(sys.argv[1])
    out, sets = (Path(sys.argv[2]), repeating(data)) if len(sys.argv) == 3 else (HERE, kept(data))
    out.mkdir(parents=True, exist_ok=True)
    for name, prompts in sets.items():
        text = ''.join(json.dumps({'prompt': prompt}, ensure_ascii=False) + '\n' for prompt in prompts)
        (out / f'{name}.jsonl').write_text(text, encoding='utf-8')


if __name__ == '__main__':
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main()
