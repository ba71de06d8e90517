#!/usr/bin/env python3
"""Third-party clients with both programs, as their users run them: openai with strict validation, langchain-openai
for chats and completions, openai-agents with a tool, litellm, and GuideLLM. Each must have all its requests answered.

  ./run clients

Prints one JSON object last; exit code 1 if a client failed.
SPDX-License-Identifier: Apache-2.0
"""
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / 'tests/e2e'))
from programs import DRAFT, Edge, Server, free_port, wait_until_served  # noqa: E402
from tools_test import TEMPLATE  # noqa: E402

MODEL = 'robot'
QUESTION = 'Pick up the red cup.'
MESSAGES = [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': QUESTION}]
TOKENS = 12
GUIDELLM_REQUESTS = 3


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def openai_strict(base):
    import openai
    client = openai.OpenAI(base_url=base, api_key='none', max_retries=0, _strict_response_validation=True)
    check([model.id for model in client.models.list()] == [MODEL], 'the list of models')
    check(client.models.retrieve(MODEL).id == MODEL, 'the model')
    chat = {'model': MODEL, 'messages': MESSAGES, 'max_tokens': TOKENS, 'seed': 2**64 - 1, 'user': 'ada'}
    whole = client.chat.completions.create(**chat)
    text = ''.join(chunk.choices[0].delta.content or '' for chunk in
                   client.chat.completions.create(**chat, stream=True, stream_options={'include_usage': True}) if chunk.choices)
    check(text == whole.choices[0].message.content and text, f'{text!r} streamed, {whole!r} whole')
    check(whole.usage.prompt_tokens_details.cached_tokens >= 0, 'cached tokens')
    plain = {'model': MODEL, 'prompt': QUESTION, 'max_tokens': TOKENS}
    whole = client.completions.create(**plain)
    # The package's own type of a chunk requires a finish_reason in each, which OpenAI sends only in the last.
    lenient = openai.OpenAI(base_url=base, api_key='none', max_retries=0)
    text = ''.join(chunk.choices[0].text for chunk in lenient.completions.create(**plain, stream=True))
    check(text == whole.choices[0].text and text, f'{text!r} streamed, {whole!r} whole')
    with_raised(openai.NotFoundError, lambda: client.models.retrieve('another'))
    both = client.chat.completions.create(**chat, n=2)
    check([choice.index for choice in both.choices] == [0, 1], both)
    with_raised(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=MESSAGES, n=500))


def with_raised(kind, act):
    try:
        act()
    except kind:
        return
    raise AssertionError(f'no {kind.__name__}')


def langchain(base):
    from langchain_openai import ChatOpenAI, OpenAI
    common = {'base_url': base, 'api_key': 'none', 'model': MODEL, 'max_tokens': TOKENS, 'temperature': 0, 'max_retries': 0}
    chat = ChatOpenAI(**common, stream_usage=True)
    asked = [('system', 'Be brief.'), ('human', QUESTION)]
    whole = chat.invoke(asked).content
    check(whole and ''.join(chunk.content for chunk in chat.stream(asked)) == whole, f'chat: {whole!r}')
    completion = OpenAI(**common)
    whole = completion.invoke(QUESTION)
    check(whole and ''.join(completion.stream(QUESTION)) == whole, f'completion: {whole!r}')


def openai_agents(base):
    """An agent whose first turn must call its tool, and whose next one answers; by /v1/responses, as the package does."""
    from typing import Literal

    import openai
    from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
    set_tracing_disabled(True)
    moves = []

    def move(to: Literal['base', 'door', 'table']) -> str:
        """Moves the robot."""
        moves.append(to)
        return 'done'

    client = openai.AsyncOpenAI(base_url=base, api_key='none', max_retries=0)
    agent = Agent(name='robot', instructions='Be brief.', tools=[function_tool(move)], model=OpenAIResponsesModel(MODEL, client),
                  model_settings=ModelSettings(temperature=0, max_tokens=200, tool_choice='required', parallel_tool_calls=False,
                                                # The package takes an answer that the limit cuts for a failure.
                                                extra_body={'stop': ['.', ' the', ' is']}))

    async def both():
        whole = await Runner.run(agent, QUESTION, max_turns=3)
        streamed = Runner.run_streamed(agent, QUESTION, max_turns=3)
        async for _ in streamed.stream_events():
            pass
        return whole.final_output, streamed.final_output

    whole, streamed = asyncio.run(both())
    check(whole and whole == streamed, f'{streamed!r} streamed, {whole!r} whole')
    check(len(moves) == 2 and moves[0] == moves[1], moves)


def litellm_client(base):
    os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'  # it would fetch prices
    import litellm
    litellm.telemetry = False
    common = {'model': f'openai/{MODEL}', 'api_base': base, 'api_key': 'none', 'max_tokens': TOKENS, 'num_retries': 0}
    whole = litellm.completion(messages=MESSAGES, **common).choices[0].message.content
    text = ''.join(chunk.choices[0].delta.content or '' for chunk in litellm.completion(messages=MESSAGES, stream=True, **common))
    check(whole and text == whole, f'{text!r} streamed, {whole!r} whole')
    plain = litellm.text_completion(prompt=QUESTION, **{**common, 'model': f'text-completion-openai/{MODEL}'})
    check(plain.choices[0].text, plain)


def guidellm(base):
    for form in ('/v1/chat/completions', '/v1/completions'):
        guidellm_once(base, form)


def guidellm_once(base, form):
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / 'out.json'
        done = subprocess.run(
            [Path(sys.executable).with_name('guidellm'), 'run', '--backend',
             f'kind=openai_http,target={base.removesuffix("/v1")},model={MODEL},request_format={form}', '--profile', 'kind=synchronous',
             '--constraint', f'kind=max_requests,count={GUIDELLM_REQUESTS}', '--tokenizer', f'kind=huggingface_auto,model={DRAFT}',
             '--data', f'kind=synthetic_text,prompt_tokens=32,output_tokens={TOKENS}', '--output', f'kind=json,path={out}',
             '--disable-console'],
            capture_output=True, text=True, check=False, timeout=600, env={**os.environ, 'HF_HUB_OFFLINE': '1'})
        check(done.returncode == 0 and out.exists(), done.stderr[-3000:] + done.stdout[-3000:])
        requests = json.loads(out.read_text(encoding='utf-8'))['benchmarks'][0]['requests']
        check(len(requests['successful']) >= GUIDELLM_REQUESTS and not requests['errored'], str(requests)[:3000])


CLIENTS = {'openai': openai_strict, 'langchain-openai': langchain, 'openai-agents': openai_agents, 'litellm': litellm_client, 'guidellm': guidellm}


def main():
    failed, answered = [], []
    http = free_port()
    folder = tempfile.TemporaryDirectory()
    template = Path(folder.name) / 'tools.jinja'
    template.write_text(TEMPLATE, encoding='utf-8')
    with folder, Server('--http-port', http, '--served-model-name', MODEL, '--chat-template', template) as server:
        port = free_port()
        edge = Edge('serve', '--model', DRAFT, '--server', server.address, '--port', port, '--served-model-name', MODEL)
        wait_until_served(f'http://127.0.0.1:{port}')
        for program, base in (('outrider-server', f'http://127.0.0.1:{http}/v1'), ('outrider-edge', f'http://127.0.0.1:{port}/v1')):
            for name, run in CLIENTS.items():
                try:
                    run(base)
                    answered.append(f'{name} at {program}')
                    print(f'{name} at {program}: everything answered', file=sys.stderr)
                except Exception:  # any exception of the client
                    failed.append(f'{name} at {program}')
                    print(f'{name} at {program}: FAILED\n{traceback.format_exc()}', file=sys.stderr)
        edge.interrupt()
        edge.wait()
    print(json.dumps({'check': 'clients', 'passed': not failed, 'answered': answered, 'failed': failed}))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
