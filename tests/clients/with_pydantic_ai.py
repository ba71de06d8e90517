# /// script
# requires-python = ">=3.11"
# dependencies = ["pydantic-ai-slim[openai]==2.68.0"]
# ///
"""Pydantic AI: text and plans, by calls and by a schema, whole and streamed, by chats and by responses.

SPDX-License-Identifier: Apache-2.0
"""
import asyncio

from pydantic import BaseModel
from pydantic_ai import Agent, ModelHTTPError, NativeOutput, ToolOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from robot import AT_ZERO, CALL_TOKENS, INSTRUCTIONS, MODEL, QUESTION, TASK, TOOLS, Plan, at_each_address, check, check_text, move, raised


def run(base):
    for kind in (OpenAIChatModel, OpenAIResponsesModel):
        def agent(**more):
            model = kind(MODEL, provider=OpenAIProvider(base_url=base, api_key='none'))
            return Agent(model, system_prompt='Be brief.', model_settings={'max_tokens': CALL_TOKENS, 'temperature': 0}, **more)

        async def streamed(made):
            async with made.run_stream(QUESTION) as answer:
                return await answer.get_output()

        check_text(agent().run_sync(QUESTION).output, asyncio.run(streamed(agent())))
        for output in (Plan, ToolOutput(Plan), NativeOutput(Plan)):
            check(isinstance(agent(output_type=output).run_sync(QUESTION).output, Plan), output)
        check(isinstance(asyncio.run(streamed(agent(output_type=Plan, tools=[move]))), Plan), 'streamed')
        error = raised(ModelHTTPError, lambda: agent().run_sync('word ' * 20000))
        check(error.status_code == 400, error)


class Answer(BaseModel):
    """Tells the user that the gripper holds the thing. This ends the task."""
    text: str


def act(base):
    model = OpenAIChatModel(MODEL, provider=OpenAIProvider(base_url=base, api_key='none'))
    # A type of output that is a tool makes the package require a call in each turn.
    Agent(model, system_prompt=INSTRUCTIONS, tools=list(TOOLS.values()), output_type=ToolOutput(Answer),
          model_settings={**AT_ZERO, 'parallel_tool_calls': False}).run_sync(TASK)


at_each_address(run, act)
