# /// script
# requires-python = ">=3.11"
# dependencies = ["dspy==3.4.1"]
# ///
"""DSPy: a model by chats, completions and responses, a signature held to a schema, best of several, errors.

SPDX-License-Identifier: Apache-2.0
"""
import os
from typing import Literal

os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'  # it would fetch prices
import dspy  # noqa: E402

from robot import CALL_TOKENS, INSTRUCTIONS, MODEL, QUESTION, TASK, TOKENS, TOOLS, TURNS, at_each_address, check, raised, schema_of  # noqa: E402

CHOICE = {'type': 'object', 'properties': {'action': {'enum': ['move', 'turn']}, 'steps': {'type': 'integer', 'maximum': 9, 'minimum': 1}},
          'required': ['action', 'steps'], 'additionalProperties': False}


class Act(dspy.Signature):
    """Choose what the robot does."""
    task: str = dspy.InputField()
    action: Literal['move', 'turn'] = dspy.OutputField()
    steps: int = dspy.OutputField()


def run(base):
    def model(**more):
        return dspy.LM(f'openai/{MODEL}', api_base=base, api_key='none', cache=False, num_retries=0,
                       **{'max_tokens': TOKENS, 'temperature': 0, **more})

    for form in ('chat', 'text', 'responses'):
        check(model(model_type=form)(QUESTION), form)
    # The package asks for a form only of models that it knows by name.
    with dspy.context(lm=model(max_tokens=CALL_TOKENS, extra_body={'guided_json': CHOICE}), adapter=dspy.JSONAdapter()):
        for module in (dspy.Predict(Act), dspy.BestOfN(dspy.Predict(Act), N=2, reward_fn=lambda _, made: made.steps > 9, threshold=1.0)):
            made = module(task=QUESTION)
            check(made.action in ('move', 'turn') and made.steps in range(1, 10), made)
    several = model(temperature=0.8, n=2)(QUESTION)
    check(len(several) == 2, several)
    raised(dspy.utils.exceptions.ContextWindowExceededError, lambda: model()('word ' * 20000))


def form(**properties):
    return {'type': 'object', 'properties': properties, 'required': list(properties), 'additionalProperties': False}


TEXT = {'type': 'string', 'maxLength': 120}
CALLS = [form(next_thought=TEXT, next_tool_name={'const': name}, next_tool_args=schema_of(tool)['function']['parameters']) for name, tool in TOOLS.items()]
DONE = form(next_thought=TEXT, next_tool_name={'const': 'finish'}, next_tool_args=form())


def act(base):
    """Its agent reads calls from text, and is held to their form as above."""
    model = dspy.LM(f'openai/{MODEL}', api_base=base, api_key='none', cache=False, num_retries=0, max_tokens=CALL_TOKENS, temperature=0,
                    extra_body={'guided_json': {'anyOf': [*CALLS, DONE, form(reasoning=TEXT, answer=TEXT)]}})
    with dspy.context(lm=model, adapter=dspy.JSONAdapter()):
        dspy.ReAct(dspy.Signature('task -> answer', INSTRUCTIONS), tools=list(TOOLS.values()), max_iters=TURNS)(task=TASK)


at_each_address(run, act)
