# /// script
# requires-python = ">=3.11"
# dependencies = ["haystack-ai==3.4.1"]
# ///
"""Haystack: chats and responses, whole and streamed, tools, an agent, structured output, errors.

SPDX-License-Identifier: Apache-2.0
"""
import openai
from haystack.components.agents import Agent
from haystack.components.generators.chat import OpenAIChatGenerator, OpenAIResponsesChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.tools import create_tool_from_function
from haystack.utils import Secret

from robot import AT_ZERO, CALL_TOKENS, INSTRUCTIONS, MODEL, ONE_CALL, QUESTION, TASK, TOKENS, TOOLS, TURNS, Plan, at_each_address, check, check_text, move, raised

ASKED = [ChatMessage.from_system('Be brief.'), ChatMessage.from_user(QUESTION)]


def run(base):
    tool = create_tool_from_function(move)
    for kind, limit, form in ((OpenAIChatGenerator, 'max_tokens', 'response_format'),
                              (OpenAIResponsesChatGenerator, 'max_output_tokens', 'text_format')):
        def generator(tokens=TOKENS, settings=None, **more):
            return kind(api_key=Secret.from_token('none'), model=MODEL, api_base_url=base, max_retries=0,
                        generation_kwargs={limit: tokens, 'temperature': 0, **(settings or {})}, **more)

        pieces = []
        streaming = generator(streaming_callback=lambda chunk: pieces.append(chunk.content))
        whole, = generator().run(ASKED)['replies']
        check_text(whole.text, streaming.run(ASKED)['replies'][0].text)
        check_text(whole.text, ''.join(pieces))
        must_call = {'tool_choice': 'required', 'parallel_tool_calls': False}
        called, = generator(CALL_TOKENS, must_call, tools=[tool]).run(ASKED)['replies']
        check([call.tool_name for call in called.tool_calls] == ['move'], called)
        result = ChatMessage.from_tool('done', origin=called.tool_call)
        check(generator(tools=[tool]).run([*ASKED, called, result])['replies'][0].text, 'no answer to the result')
        Plan.model_validate_json(generator(CALL_TOKENS, {form: Plan}).run(ASKED)['replies'][0].text)
        check(Agent(chat_generator=generator(), tools=[tool], max_agent_steps=2).run(ASKED)['last_message'].text, 'the agent is silent')
        raised(openai.BadRequestError, lambda: generator().run([ChatMessage.from_user('word ' * 20000)]))


def act(base):
    generator = OpenAIChatGenerator(api_key=Secret.from_token('none'), model=MODEL, api_base_url=base, max_retries=0,
                                    tools_strict=True, generation_kwargs={**AT_ZERO, **ONE_CALL})
    Agent(chat_generator=generator, tools=[create_tool_from_function(tool) for tool in TOOLS.values()], system_prompt=INSTRUCTIONS,
          exit_conditions=['grasp'], max_agent_steps=TURNS).run([ChatMessage.from_user(TASK)])


at_each_address(run, act)
