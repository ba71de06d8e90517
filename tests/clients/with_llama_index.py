# /// script
# requires-python = ">=3.11"
# dependencies = ["llama-index-llms-openai-like==0.8.1"]
# ///
"""LlamaIndex: chats and completions, tools, structured output by tools and by a schema, an agent, errors.

SPDX-License-Identifier: Apache-2.0
"""
import asyncio

import openai
from llama_index.core.agent.workflow import FunctionAgent
from llama_index.core.llms import ChatMessage
from llama_index.core.prompts import PromptTemplate
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from robot import AT_ZERO, CALL_TOKENS, INSTRUCTIONS, MODEL, QUESTION, TASK, TOKENS, TOOLS, TURNS, Plan, at_each_address, check, check_text, move, raised, scene

ASKED = [ChatMessage(role='system', content='Be brief.'), ChatMessage(role='user', content=QUESTION)]


def run(base):
    def model(tokens=TOKENS, is_chat_model=True, **more):
        return OpenAILike(model=MODEL, api_base=base, api_key='none', max_tokens=tokens, temperature=0, max_retries=0,
                          context_window=16384, is_chat_model=is_chat_model, **more)

    chat, plain = model(is_function_calling_model=True), model(is_chat_model=False)
    check_text(chat.chat(ASKED).message.content, ''.join(chunk.delta or '' for chunk in chat.stream_chat(ASKED)))
    check_text(plain.complete(QUESTION).text, ''.join(chunk.delta or '' for chunk in plain.stream_complete(QUESTION)))
    call_a_tool(chat, model(CALL_TOKENS, is_function_calling_model=True))
    plan = PromptTemplate('Plan: {task}')
    for by_schema in (False, True):
        long = model(CALL_TOKENS, is_function_calling_model=True, should_use_structured_outputs=by_schema)
        made = long.structured_predict(Plan, plan, llm_kwargs={} if by_schema else {'tool_required': True}, task=QUESTION)
        check(isinstance(made, Plan), made)

    async def act():
        return await FunctionAgent(tools=[move], llm=model(is_function_calling_model=True), system_prompt='Be brief.').run(QUESTION)

    check(str(asyncio.run(act())), 'the agent is silent')
    error = raised(openai.BadRequestError, lambda: chat.chat([ChatMessage(role='user', content='word ' * 20000)]))
    check(error.code == 'context_length_exceeded', error)


def call_a_tool(chat, long):
    """The call that is required, whole and streamed, and the answer to its result."""
    tool = FunctionTool.from_defaults(fn=move)
    asked = {'tools': [tool], 'user_msg': QUESTION, 'tool_required': True, 'allow_parallel_tool_calls': False}
    said = long.chat_with_tools(**asked)
    call, = long.get_tool_calls_from_response(said)
    streamed, = long.get_tool_calls_from_response(list(long.stream_chat_with_tools(**asked))[-1])
    check(call.tool_name == 'move' and call.tool_kwargs == streamed.tool_kwargs, (call, streamed))
    result = ChatMessage(role='tool', content='done', additional_kwargs={'tool_call_id': call.tool_id})
    check(chat.chat_with_tools([tool], chat_history=[*ASKED, said.message, result]).message.content, 'no answer to the result')


def act(base):
    model = OpenAILike(model=MODEL, api_base=base, api_key='none', max_retries=0, context_window=16384, is_chat_model=True,
                       is_function_calling_model=True, **AT_ZERO)

    tools = {name: FunctionTool.from_defaults(fn=function) for name, function in TOOLS.items()}
    said = [ChatMessage(role='system', content=INSTRUCTIONS), ChatMessage(role='user', content=TASK)]
    while not scene.is_done() and len(said) < 2 + 2 * TURNS:
        answer = model.chat_with_tools(list(tools.values()), chat_history=said, tool_required=True, allow_parallel_tool_calls=False)
        call, = model.get_tool_calls_from_response(answer)
        result = tools[call.tool_name](**call.tool_kwargs).content
        said += [answer.message, ChatMessage(role='tool', content=result, additional_kwargs={'tool_call_id': call.tool_id})]


at_each_address(run, act)
