# /// script
# requires-python = ">=3.11"
# dependencies = ["llm==0.36"]
# ///
"""llm: prompts, a system prompt, a conversation, a schema, a tool, completions, errors, by its command line.

SPDX-License-Identifier: Apache-2.0
"""
import json
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

from robot import AT_ZERO, INSTRUCTIONS, MODEL, QUESTION, TASK, TOKENS, TURNS, Plan, at_each_address, check, check_text, scene

MODELS = f'''
- {{model_id: chat, model_name: {MODEL}, api_base: "%s", supports_tools: true, supports_schema: true}}
- {{model_id: plain, model_name: {MODEL}, api_base: "%s", completion: true}}
'''
FUNCTIONS = '''
import atexit as _atexit, json as _json, pathlib as _pathlib, sys as _sys
_sys.path.insert(0, %r)
from robot import grasp, look, scene as _scene, turn
_scene.begin()
_atexit.register(lambda: _pathlib.Path(%r).write_text(_json.dumps(vars(_scene))))
'''
LENGTH = ('-o', 'max_tokens', str(TOKENS))


@contextmanager
def command_line(base):
    """llm(words..): the output of the command, whose models are at the address."""
    with tempfile.TemporaryDirectory() as folder:
        def llm(*words, code=0):
            done = subprocess.run([Path(sys.executable).with_name('llm'), *words], check=False, capture_output=True, text=True,
                                  timeout=300, env={**os.environ, 'LLM_USER_PATH': folder, 'OPENAI_API_KEY': 'none'})
            check(done.returncode == code, done.stdout + done.stderr)
            return done.stdout + done.stderr

        (Path(folder) / 'extra-openai-models.yaml').write_text(MODELS % (base, base), encoding='utf-8')
        yield llm


def run(base):
    with command_line(base) as llm:
        settings = ('-m', 'chat', '-s', 'Be brief.', '-o', 'temperature', '0', *LENGTH)
        check_text(llm(QUESTION, *settings, '--no-stream'), llm(QUESTION, *settings))
        check(llm('-c', 'And now?', *LENGTH), 'no answer in a conversation')
        Plan.model_validate_json(llm(QUESTION, '-m', 'chat', '--schema', json.dumps(Plan.model_json_schema())))
        check(llm(QUESTION, '-m', 'chat', '--functions', 'def move(x: int) -> str:\n    "Moves."\n    return "done"', *LENGTH), 'no answer')
        check(llm(QUESTION, '-m', 'plain', *LENGTH), 'no completion')
        check('context' in llm('word ' * 20000, '-m', 'chat', code=1), 'no reason')


def act(base):
    """The command calls the tools itself, so it keeps the scene."""
    with command_line(base) as llm, tempfile.NamedTemporaryFile() as kept:
        functions = FUNCTIONS % (str(Path(__file__).parent), kept.name)
        settings = [word for name, value in AT_ZERO.items() for word in ('-o', name, str(value))]
        llm(TASK, '-m', 'chat', '-s', INSTRUCTIONS, '--functions', functions, '--chain-limit', str(TURNS), *settings)
        vars(scene).update(json.loads(Path(kept.name).read_text(encoding='utf-8')))


at_each_address(run, act)
