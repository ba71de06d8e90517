#!/usr/bin/env python3
"""How good answers are, and whether they are the same: asks an edge, and judges each answer by what the prompt set says is right.

  bench/quality/quality.py --prompts bench/prompts/humaneval.jsonl --target TARGET [--draft DRAFT] [-- FLAGS OF outrider-edge serve]
  bench/quality/quality.py --prompts piqa.jsonl --url http://127.0.0.1:8080

bench/prompts/make.py makes sets; what stands beside a prompt decides how its answer is judged:
  "tests"       pass@1: the function passes its tests, in a sandbox (HumanEval, MBPP)
  "answer"      the last number is this one (GSM8K)
  "choices"     the likeliest choice, by the mean log-probability of its tokens, is the right one (PIQA, ARC, OBQA, SciQ)
  "references"  Rouge-L, the best of the references (summaries, translations, questions)
--out keeps the answers; --against compares with kept ones: equal texts, and Rouge-L to them, which says how far the answers of
a lossy way are from the target's own. Everything is greedy, so that lossless ways give equal texts.
The last line is one JSON object. Exit code: 0; 1 if a text differs though --same is given; 2 for wrong usage.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import judge

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / 'tests/soak'))
from edges import Edge, free_port  # noqa: E402
from outcome import bootstrap  # noqa: E402
from programs import eventually  # noqa: E402

START_SECONDS = 300
METRICS = {'tests': 'pass@1', 'answer': 'exact', 'choices': 'accuracy', 'references': 'rouge_l'}


class Refused(Exception):
    """Wrong usage, or a prompt set that a metric cannot judge."""


def read_prompts(path, limit):
    try:
        prompts = [json.loads(line) for line in Path(path).read_text(encoding='utf-8').splitlines() if line.strip()]
    except (OSError, ValueError) as error:
        raise Refused(f'{path}: {error}') from error
    for number, line in enumerate(prompts, 1):
        if not isinstance(line, dict) or not isinstance(line.get('prompt'), str):
            raise Refused(f'{path}:{number}: has no "prompt". Remedy: a set of bench/prompts/make.py')
    if not prompts or limit > len(prompts):
        raise Refused(f'{path}: holds {len(prompts)} prompts, and {limit or "at least one"} are asked for')
    return prompts[:limit or None]


def field_of(prompts, path, may_lack):
    """By which of its fields the set is judged; None where no field says it, which answers that are only compared may lack."""
    for field in METRICS:
        if all(field in prompt for prompt in prompts):
            return field
    if may_lack:
        return None
    raise Refused(f'{path}: no field says what is right: {", ".join(METRICS)}. Remedy: a set that bench/prompts/make.py makes, or --out and --against')


class Asked:
    """An edge's or a server's OpenAI routes."""

    def __init__(self, url, max_tokens):
        self.url, self.max_tokens = url.rstrip('/'), max_tokens

    def post(self, route, body):
        request = urllib.request.Request(self.url + route, json.dumps(body).encode(), {'Content-Type': 'application/json'})
        try:
            with urllib.request.urlopen(request, timeout=3600) as reply:
                return json.load(reply)
        except urllib.error.HTTPError as error:
            raise Refused(f'{route}: {error.code} {error.read().decode(errors="replace")}') from error
        except OSError as error:
            raise Refused(f'{self.url}{route}: {error}') from error

    def chat(self, prompt):
        reply = self.post('/v1/chat/completions', {'messages': [{'role': 'user', 'content': prompt}], 'temperature': 0, 'max_tokens': self.max_tokens})
        return reply['choices'][0]['message']['content'] or ''

    def completion(self, prompt):
        return self.post('/v1/completions', {'prompt': prompt, 'temperature': 0, 'max_tokens': self.max_tokens})['choices'][0]['text']

    def log_probability(self, prompt, choice):
        """The mean of the tokens of the choice behind the prompt."""
        reply = self.post('/v1/completions', {'prompt': f'{prompt} {choice}', 'temperature': 0, 'max_tokens': 0, 'echo': True, 'logprobs': 0})
        told = reply['choices'][0]['logprobs']
        of_choice = [value for value, offset in zip(told['token_logprobs'], told['text_offset']) if offset >= len(prompt) and value is not None]
        if not of_choice:
            raise Refused(f'{self.url}: no log-probabilities came back for a prompt')
        return sum(of_choice) / len(of_choice)


@contextlib.contextmanager
def served(options, flags):
    """The address that answers."""
    if options.url:
        if flags or options.target or options.draft:
            raise Refused('--url asks what runs already. Remedy: --target, --draft and flags where an edge is to be started')
        yield options.url
        return
    port = free_port()
    edge = Edge('serve', '--port', port, *(['--target', options.target] if options.target else []),
                *(['--model', options.draft] if options.draft else ['--strategy', 'ar', '--tokenizer', options.target]), *flags,
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=None)

    def ready():
        if edge.process.poll() is not None:
            raise Refused('outrider-edge serve did not start; what it says is above')
        return urllib.request.urlopen(f'http://127.0.0.1:{port}/health/ready', timeout=5).read()
    try:
        eventually(ready, 'outrider-edge serve is not ready', START_SECONDS)
        yield f'http://127.0.0.1:{port}'
    except AssertionError as error:
        raise Refused(str(error)) from error
    finally:
        edge.interrupt()
        edge.wait()


def interval(values):
    """The mean with its 95 % interval; no interval of a single one."""
    return dict(zip(('mean', 'low', 'high'), bootstrap(values, statistics.fmean)))


def judged(field, prompt, asked, form):
    """The answer's text and how good it is, 0 to 1; None where nothing says it."""
    if field == 'choices':
        told = [asked.log_probability(prompt['prompt'], choice) for choice in prompt['choices']]
        best = told.index(max(told))
        return prompt['choices'][best], float(best == prompt['choice'])
    text = (asked.chat if form == 'chat' else asked.completion)(prompt['code'] if form == 'completion' and 'code' in prompt else prompt['prompt'])
    if field is None:
        return text, None
    if field == 'tests':
        return text, float(judge.run_tests(judge.program_of(text, prompt['code'], prompt['entry_point']), prompt['tests'], prompt['entry_point']).passed)
    if field == 'answer':
        wanted = judge.last_number(str(prompt['answer']))
        return text, float(wanted is not None and judge.last_number(text) == wanted)
    return text, max(judge.rouge_l(text, reference) for reference in prompt['references'])


def compared(path, prompts, texts):
    before = read_prompts(path, len(prompts))
    if [line['prompt'] for line in before] != [prompt['prompt'] for prompt in prompts]:
        raise Refused(f'{path}: its answers are to other prompts. Remedy: the same --prompts and --num-prompts for both')
    others = [line['text'] for line in before]
    return {'other_texts': sum(a != b for a, b in zip(texts, others)),
            'rouge_l_to_them': interval([judge.rouge_l(a, b) for a, b in zip(texts, others)])}


def run(options, flags):
    prompts = read_prompts(options.prompts, options.num_prompts)
    field = field_of(prompts, options.prompts, options.out or options.against)
    if field == 'tests':
        try:
            judge.check_sandbox()
        except RuntimeError as error:
            raise Refused(str(error)) from error
    texts, worth, began = [], [], time.monotonic()
    with served(options, flags) as url:
        asked = Asked(url, options.max_tokens)
        for number, prompt in enumerate(prompts, 1):
            text, value = judged(field, prompt, asked, options.form)
            texts.append(text)
            worth.append(value)
            so_far = f': {METRICS[field]} {sum(worth) / number:.3f}' if field else ''
            print(f'\r{number} of {len(prompts)}{so_far} ', end='', file=sys.stderr)
    print(file=sys.stderr)
    figures = {'check': 'quality', 'prompts': len(prompts), 'seconds': time.monotonic() - began}
    if field:
        figures |= {'metric': METRICS[field], METRICS[field]: interval(worth), 'right': sum(value == 1 for value in worth)}
    if options.out:
        kept = ({'prompt': prompt['prompt'], 'text': text, 'worth': value} for prompt, text, value in zip(prompts, texts, worth))
        Path(options.out).write_text(''.join(json.dumps(line, ensure_ascii=False) + '\n' for line in kept), encoding='utf-8')
    if options.against:
        figures |= compared(options.against, prompts, texts)
    print(json.dumps(figures))
    return 1 if options.same and figures.get('other_texts') else 0


def main():
    words, flags = sys.argv[1:], []
    if '--' in words:
        words, flags = words[:words.index('--')], words[words.index('--') + 1:]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--prompts', required=True, help='a set of bench/prompts/make.py')
    parser.add_argument('--num-prompts', type=int, default=0, help='0: all')
    parser.add_argument('--target', help='the model that answers, on this device; or --server ADDRESS behind --')
    parser.add_argument('--draft', help='a draft for it; without one it decodes plainly')
    parser.add_argument('--url', help='ask a program that runs already')
    parser.add_argument('--form', choices=('chat', 'completion'), default='chat', help='completion: without a chat template')
    parser.add_argument('--max-tokens', type=int, default=512)
    parser.add_argument('--out', help='keeps the answers')
    parser.add_argument('--against', help='kept answers to compare with')
    parser.add_argument('--same', action='store_true', help='fail where a text differs from --against')
    options = parser.parse_args(words)
    if options.num_prompts < 0 or options.max_tokens < 1:
        raise Refused('--num-prompts and --max-tokens: expected positive numbers')
    if not options.url and not options.target and not options.draft:
        raise Refused('nothing answers. Remedy: --target, or --draft with --server behind --, or --url')
    if options.same and not options.against:
        raise Refused('--same compares with --against FILE')
    return run(options, flags)


if __name__ == '__main__':
    try:
        sys.exit(main())
    except Refused as error:
        print(f'quality.py: {error}', file=sys.stderr)
        sys.exit(2)
