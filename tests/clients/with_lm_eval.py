# /// script
# requires-python = ">=3.11"
# dependencies = ["lm-eval[api]==0.4.13", "transformers"]
# ///
"""lm-eval: a task of its own form, scored by log-probabilities (local-completions) and by answers.

The right choice of each question is the model's own greedy answer, so that the accuracy is known: 1.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from robot import MODEL, TOKENS, at_each_address, check

ROOT = Path(__file__).resolve().parents[2]
QUESTIONS = [json.loads(line)['prompt'] for line in (ROOT / 'bench/prompts/robot.jsonl').read_text(encoding='utf-8').splitlines()][:8]
TASK = {'dataset_path': 'json', 'test_split': 'test', 'doc_to_text': '{{question}}', 'target_delimiter': ''}
TASKS = [
    {'task': 'choices', 'output_type': 'multiple_choice', 'doc_to_choice': '{{choices}}', 'doc_to_target': 'answer',
     'metric_list': [{'metric': 'acc'}]},
    {'task': 'answers', 'output_type': 'generate_until', 'doc_to_target': '{{choices[answer]}}', 'metric_list': [{'metric': 'exact_match'}],
     'generation_kwargs': {'until': ['\n'], 'max_gen_toks': TOKENS, 'do_sample': False}}]


def answer(base, question):
    body = {'prompt': question, 'max_tokens': TOKENS, 'temperature': 0, 'stop': '\n'}
    request = urllib.request.Request(f'{base}/completions', json.dumps(body).encode(), {'Content-Type': 'application/json'})
    with urllib.request.urlopen(request, timeout=120) as reply:
        return json.load(reply)['choices'][0]['text']


def write_tasks(base, folder):
    answers = [answer(base, question) for question in QUESTIONS]
    data = folder / 'test.jsonl'
    with data.open('w', encoding='utf-8') as file:
        for question, right in zip(QUESTIONS, answers):
            choices = [other for other in dict.fromkeys(answers) if other != right][:3]
            choices.insert(1, right)
            file.write(json.dumps({'question': question, 'choices': choices, 'answer': 1}) + '\n')
    for task in TASKS:  # JSON is YAML
        (folder / f'{task["task"]}.yaml').write_text(json.dumps({**TASK, 'dataset_kwargs': {'data_files': {'test': str(data)}}, **task}),
                                                     encoding='utf-8')


def run(base):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_tasks(base, folder)
        model = f'model={MODEL},base_url={base}/completions,tokenizer={ROOT / "models/demo-draft"},max_retries=1,max_length=1024'
        done = subprocess.run([Path(sys.executable).with_name('lm_eval'), 'run', '--model', 'local-completions', '--model_args', model,
                               '--tasks', 'choices,answers', '--include_path', folder, '--batch_size', '4', '--output_path', folder / 'out'],
                              check=False, capture_output=True, text=True, timeout=900,
                              env={**os.environ, 'HF_HUB_OFFLINE': '1', 'HF_DATASETS_OFFLINE': '1', 'HF_HOME': name})
        check(done.returncode == 0, done.stderr[-3000:])
        results = json.loads(next(folder.glob('out/**/*.json')).read_text(encoding='utf-8'))['results']
        check(results['choices']['acc,none'] == results['answers']['exact_match,none'] == 1, results)


at_each_address(run)
