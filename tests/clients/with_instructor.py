# /// script
# requires-python = ">=3.11"
# dependencies = ["instructor==1.17.0"]
# ///
"""Instructor: a plan in each of its modes, in parts, as a list, and again where a validator refuses the first.

SPDX-License-Identifier: Apache-2.0
"""
from typing import Literal

import instructor
import openai
from instructor import Mode
from instructor.exceptions import InstructorRetryException
from pydantic import BaseModel, Field, field_validator

from robot import AT_ZERO, CALL_TOKENS, INSTRUCTIONS, MESSAGES, MODEL, TASK, TOOLS, TURNS, Plan, Step, at_each_address, check, raised, scene


def run(base):
    def client(mode):
        made = instructor.from_openai(openai.OpenAI(base_url=base, api_key='none', max_retries=0), mode=mode)
        limit = 'max_output_tokens' if mode == Mode.RESPONSES_TOOLS else 'max_tokens'
        return made, {'model': MODEL, 'messages': MESSAGES[1:], 'temperature': 0, 'max_retries': 1, limit: CALL_TOKENS}

    made, asked = client(Mode.TOOLS)
    check(list(made.create_iterable(response_model=Step, **asked)), 'no steps')
    again(made, asked)
    error = raised(InstructorRetryException, lambda: made.create(response_model=Plan, **{**asked, 'n': 500}))
    check("'n' must be at most" in str(error), error)
    for mode in (Mode.TOOLS, Mode.TOOLS_STRICT, Mode.FUNCTIONS, Mode.JSON_SCHEMA, Mode.RESPONSES_TOOLS):
        made, asked = client(mode)
        check(isinstance(made.create(response_model=Plan, **asked), Plan), mode)
        check(list(made.create_partial(response_model=Plan, **asked))[-1].steps, mode)


def again(made, asked):
    refused = []

    class Fussy(Step):
        @field_validator('steps')
        @classmethod
        def not_at_once(cls, steps):
            if not refused:
                refused.append(steps)
                raise ValueError('think again')
            return steps

    check(made.create(response_model=Fussy, **{**asked, 'max_retries': 3}) and refused, 'the validator refused nothing')


class Call(BaseModel):
    """A call of one of the robot's tools."""
    tool: Literal['look', 'turn', 'grasp']
    degrees: int = Field(description='for turn; positive is to the left')
    thing: str = Field(description='for grasp')


def act(base):
    made = instructor.from_openai(openai.OpenAI(base_url=base, api_key='none', max_retries=0))
    messages = [{'role': 'system', 'content': INSTRUCTIONS}, {'role': 'user', 'content': TASK}]
    while not scene.is_done() and len(messages) < 2 + 2 * TURNS:
        call = made.create(response_model=Call, model=MODEL, messages=messages, max_retries=1, **AT_ZERO)
        arguments = {'look': (), 'turn': (call.degrees,), 'grasp': (call.thing,)}[call.tool]
        result = TOOLS[call.tool](*arguments)
        messages += [{'role': 'assistant', 'content': call.model_dump_json()}, {'role': 'user', 'content': result}]


at_each_address(run, act)
