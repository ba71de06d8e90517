# /// script
# requires-python = ">=3.11"
# dependencies = ["aisuite[openai]==0.2.0", "docstring-parser==0.18.0"]
# ///
"""aisuite: chats, whole and streamed, turns with a tool, errors.

SPDX-License-Identifier: Apache-2.0
"""
import aisuite

from robot import AT_ZERO, CALL_TOKENS, INSTRUCTIONS, MESSAGES, MODEL, ONE_CALL, TASK, TOKENS, TOOLS, TURNS, at_each_address, check, check_text, raised

TOLD = []


def grasp(cup: bool) -> str:
    """Closes the gripper.

    Args:
        cup (bool): Whether it is the cup.
    """
    TOLD.append(cup)
    return 'done'


def run(base):
    client = aisuite.Client({'openai': {'api_key': 'none', 'base_url': base}})
    asked = {'model': f'openai:{MODEL}', 'messages': MESSAGES, 'temperature': 0}

    def create(**more):
        return client.chat.completions.create(**asked, **more)

    check_text(create(max_tokens=TOKENS).choices[0].message.content, ''.join(
        chunk.choices[0].delta.content or '' for chunk in create(max_tokens=TOKENS, stream=True)))
    TOLD.clear()
    create(tools=[grasp], max_turns=2, max_tokens=CALL_TOKENS, tool_choice='required', parallel_tool_calls=False)
    check(TOLD, 'no call')
    error = raised(aisuite.provider.LLMError, lambda: create(n=500))
    check("'n' must be at most" in str(error), error)


def act(base):
    client = aisuite.Client({'openai': {'api_key': 'none', 'base_url': base}})
    messages = [{'role': 'system', 'content': INSTRUCTIONS}, {'role': 'user', 'content': TASK}]
    client.chat.completions.create(model=f'openai:{MODEL}', messages=messages, tools=list(TOOLS.values()), max_turns=TURNS, **AT_ZERO, **ONE_CALL)


at_each_address(run, act)
