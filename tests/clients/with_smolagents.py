# /// script
# requires-python = ">=3.11"
# dependencies = ["smolagents[openai]==1.26.0"]
# ///
"""smolagents: a model, whole and streamed, and an agent that must call its tools in each step.

SPDX-License-Identifier: Apache-2.0
"""
from smolagents import AgentGenerationError, OpenAIModel, ToolCallingAgent, tool

from robot import AT_ZERO, INSTRUCTIONS, MODEL, QUESTION, TASK, TOKENS, TOOLS, TURNS, at_each_address, check, check_text, raised

ASKED = [{'role': 'user', 'content': [{'type': 'text', 'text': QUESTION}]}]


@tool
def grasp(cup: bool) -> str:
    """Closes the gripper.

    Args:
        cup: Whether it is the cup.
    """
    return f'{"the cup" if cup else "nothing"} is in the gripper'


def run(base):
    def model(tokens):
        return OpenAIModel(model_id=MODEL, api_base=base, api_key='none', max_tokens=tokens, temperature=0)

    check_text(model(TOKENS)(ASKED).content, ''.join(delta.content or '' for delta in model(TOKENS).generate_stream(ASKED)))
    agent = ToolCallingAgent(tools=[grasp], model=model(60), max_steps=2, verbosity_level=0)
    agent.run(QUESTION)
    calls = [call.name for step in agent.memory.steps for call in getattr(step, 'tool_calls', None) or []]
    check(set(calls) & {'grasp', 'final_answer'}, calls)
    raised(AgentGenerationError, lambda: ToolCallingAgent(tools=[grasp], model=model(TOKENS), verbosity_level=0).run('word ' * 20000))


def act(base):
    model = OpenAIModel(model_id=MODEL, api_base=base, api_key='none', parallel_tool_calls=False, **AT_ZERO)
    ToolCallingAgent(tools=[tool(function) for function in TOOLS.values()], model=model, instructions=INSTRUCTIONS, max_steps=TURNS,
                     verbosity_level=0).run(TASK)


at_each_address(run, act)
