#!/usr/bin/env python3
"""Third-party clients with both programs, as their users run them: each with_NAME.py beside this file is one of them,
names its wheels, and runs in an environment of its own. Each must have all its requests answered, or refused as it asks.

  ./run clients              all of them
  ./run clients NAME..       these, as llama_index
  ./run clients --task       each that can require a call does a robot's task by three tools, with the models of ./run model qwen-coder

Otherwise the models are the demo pair with a context of 16,384 tokens, as ROSA begins with 12,000. Prints one JSON object last;
exit code 1 if a client failed.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / 'e2e'))
from programs import DRAFT, ROOT, TARGET, Edge, Server, free_port, wait_until_served  # noqa: E402
from tools_test import TEMPLATE  # noqa: E402

NAMES = sorted(path.stem.removeprefix('with_') for path in HERE.glob('with_*.py'))
CONTEXT = 16384
SECONDS = 1800  # for a client, whose wheels may have to be fetched
UV = ROOT / '.venv-clients/bin/uv'
QWEN = [ROOT / f'models/qwen-coder/Qwen2.5-Coder-{size}-Instruct-Q4_K_M.gguf' for size in ('1.5B', '0.5B')]


def with_long_context(model, folder):
    """The model in a folder, with a context that is longer than the one that it was trained for. Its exits and levels,
    which are for the model as it is, stay behind."""
    for name in ('model.safetensors', 'tokenizer.json', 'tokenizer_config.json', 'generation_config.json'):
        (folder / name).symlink_to(model / name)
    config = json.loads((model / 'config.json').read_text(encoding='utf-8'))
    (folder / 'config.json').write_text(json.dumps({**config, 'max_position_embeddings': CONTEXT}), encoding='utf-8')
    return folder


def demo_pair(here):
    """The folders of the demo pair with a long context, and the server's flags that give it a template with tools."""
    folders = [here / part for part in ('target', 'draft')]
    for folder in folders:
        folder.mkdir()
    template = here / 'tools.jinja'
    template.write_text(TEMPLATE, encoding='utf-8')
    return *map(with_long_context, (TARGET, DRAFT), folders), ('--chat-template', template)


def acts(name):
    """Whether the client has the task."""
    return 'def act(' in (HERE / f'with_{name}.py').read_text(encoding='utf-8')


def answered(name, arguments):
    command = [UV, 'run', '--no-project', '--quiet', '--script', HERE / f'with_{name}.py', *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=SECONDS)
    print(f'{name}: everything answered. {"; ".join(done.stdout.splitlines())}' if done.returncode == 0 else f'{name}: FAILED\n{done.stdout[-2000:]}{done.stderr[-6000:]}',
          file=sys.stderr, flush=True)
    return done.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('names', nargs='*', metavar='NAME', help=', '.join(NAMES))
    parser.add_argument('--task', action='store_true', help='a task of a robot, by three tools')
    options = parser.parse_args()
    names = options.names or [name for name in NAMES if not options.task or acts(name)]
    if unknown := set(names) - set(NAMES):
        parser.error(f'no client is called {", ".join(sorted(unknown))}; these are known: {", ".join(NAMES)}')
    if options.task and (idle := [name for name in names if not acts(name)]):
        parser.error(f'{", ".join(idle)}: cannot require a call, or has no tools')
    if options.task and not all(path.exists() for path in QWEN):
        parser.error('--task needs the models of ./run model qwen-coder')
    http, port = free_port(), free_port()
    with tempfile.TemporaryDirectory() as here:
        target, draft, flags = (*QWEN, ()) if options.task else demo_pair(Path(here))
        with Server('--http-port', http, '--served-model-name', 'robot', *flags, model=target) as server:
            edge = Edge('serve', '--model', draft, '--server', server.address, '--port', port, '--served-model-name', 'robot')
            bases = [f'http://127.0.0.1:{http}/v1', f'http://127.0.0.1:{port}/v1']
            wait_until_served(bases[1].removesuffix('/v1'))
            arguments = (['--task'] if options.task else []) + bases
            failed = [name for name in names if not answered(name, arguments)]
            edge.interrupt()
            edge.wait()
    print(json.dumps({'check': 'task' if options.task else 'clients', 'passed': not failed, 'clients': names, 'failed': failed}))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
