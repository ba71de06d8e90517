# /// script
# requires-python = ">=3.11"
# dependencies = ["guidellm==0.8.1"]
# ///
"""GuideLLM: a benchmark of either route runs to its end.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from robot import MODEL, TOKENS, at_each_address, check

DRAFT = Path(__file__).resolve().parents[2] / 'models/demo-draft'  # its tokenizer is the target's
REQUESTS = 3


def run(base):
    for form in ('/v1/chat/completions', '/v1/completions'):
        benchmark(base, form)


def benchmark(base, form):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / 'out.json'
        done = subprocess.run(
            [Path(sys.executable).with_name('guidellm'), 'run', '--backend',
             f'kind=openai_http,target={base.removesuffix("/v1")},model={MODEL},request_format={form}', '--profile', 'kind=synchronous',
             '--constraint', f'kind=max_requests,count={REQUESTS}', '--tokenizer', f'kind=huggingface_auto,model={DRAFT}',
             '--data', f'kind=synthetic_text,prompt_tokens=32,output_tokens={TOKENS}', '--output', f'kind=json,path={out}',
             '--disable-console'],
            capture_output=True, text=True, check=False, timeout=600, env={**os.environ, 'HF_HUB_OFFLINE': '1'})
        check(done.returncode == 0 and out.exists(), done.stderr[-3000:] + done.stdout[-3000:])
        requests = json.loads(out.read_text(encoding='utf-8'))['benchmarks'][0]['requests']
        check(len(requests['successful']) >= REQUESTS and not requests['errored'], str(requests)[:3000])


at_each_address(run)
