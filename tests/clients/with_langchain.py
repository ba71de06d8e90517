# /// script
# requires-python = ">=3.11"
# dependencies = ["langchain-openai==1.7.4"]
# ///
"""LangChain: chats and completions, tools, structured output.

SPDX-License-Identifier: Apache-2.0
"""
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI

from robot import AT_ZERO, CALL_TOKENS, INSTRUCTIONS, MODEL, ONE_CALL, QUESTION, TASK, TOKENS, TOOLS, TURNS, Plan, at_each_address, check, check_text, move, scene


def run(base):
    common = {'base_url': base, 'api_key': 'none', 'model': MODEL, 'temperature': 0, 'max_retries': 0}
    chat = ChatOpenAI(**common, max_tokens=TOKENS, stream_usage=True)
    asked = [('system', 'Be brief.'), ('human', QUESTION)]
    check_text(chat.invoke(asked).content, ''.join(chunk.content for chunk in chat.stream(asked)))
    completion = OpenAI(**common, max_tokens=TOKENS)
    check_text(completion.invoke(QUESTION), ''.join(completion.stream(QUESTION)))
    long = ChatOpenAI(**common, max_tokens=CALL_TOKENS)
    called = long.bind_tools([move], tool_choice='required', parallel_tool_calls=False).invoke(asked)
    check([call['name'] for call in called.tool_calls] == ['move'], called)
    for method in ('function_calling', 'json_schema'):
        check(isinstance(long.with_structured_output(Plan, method=method).invoke(asked), Plan), method)


def act(base):
    tools = {name: tool(function) for name, function in TOOLS.items()}
    model = ChatOpenAI(base_url=base, api_key='none', model=MODEL, max_retries=0, **AT_ZERO).bind_tools(list(tools.values()), **ONE_CALL)
    messages = [('system', INSTRUCTIONS), ('human', TASK)]
    while not scene.is_done() and len(messages) < 2 + 2 * TURNS:
        said = model.invoke(messages)
        messages += [said, *(tools[call['name']].invoke(call) for call in said.tool_calls)]


at_each_address(run, act)
