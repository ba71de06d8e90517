# /// script
# requires-python = ">=3.11"
# dependencies = ["openai-agents==0.24.0"]
# ///
"""OpenAI's agents: a first turn that must call its tool, and a next one that answers; by /v1/responses, as the package does.

SPDX-License-Identifier: Apache-2.0
"""
import asyncio

import openai
from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, ToolsToFinalOutputResult, set_tracing_disabled

from robot import AT_ZERO, CALL_TOKENS, INSTRUCTIONS, MODEL, ONE_CALL, QUESTION, TASK, TOOLS, TURNS, at_each_address, check, check_text, move, moves, scene


def model_at(base):
    return OpenAIResponsesModel(MODEL, openai.AsyncOpenAI(base_url=base, api_key='none', max_retries=0))


def run(base):
    agent = Agent(name='robot', instructions='Be brief.', tools=[function_tool(move)], model=model_at(base),
                  model_settings=ModelSettings(temperature=0, max_tokens=CALL_TOKENS, tool_choice='required', parallel_tool_calls=False,
                                               # The package takes an answer that the limit cuts for a failure.
                                               extra_body={'stop': ['.', ' the', ' is']}))

    async def both():
        whole = await Runner.run(agent, QUESTION, max_turns=3)
        streamed = Runner.run_streamed(agent, QUESTION, max_turns=3)
        async for _ in streamed.stream_events():
            pass
        return whole.final_output, streamed.final_output

    moves.clear()
    check_text(*asyncio.run(both()))
    check(len(moves) == 2 and moves[0] == moves[1], moves)


def act(base):
    agent = Agent(name='robot', instructions=INSTRUCTIONS, tools=[function_tool(tool) for tool in TOOLS.values()], reset_tool_choice=False,
                  tool_use_behavior=lambda *_: ToolsToFinalOutputResult(is_final_output=scene.is_done()), model=model_at(base),
                  model_settings=ModelSettings(**AT_ZERO, **ONE_CALL))
    asyncio.run(Runner.run(agent, TASK, max_turns=TURNS))


set_tracing_disabled(True)
at_each_address(run, act)
