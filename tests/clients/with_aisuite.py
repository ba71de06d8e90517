# /// script
# requires-python = ">=3.11"
# dependencies = ["aisuite[openai]==0.2.0", "docstring-parser==0.18.0"]
# ///
"""aisuite: chats, whole and streamed, turns with a tool, errors.

SPDX-License-Identifier: Apache-2.0
"""
import aisuite

from robot import CALL_TOKENS, MESSAGES, MODEL, TOKENS, at_each_address, check, check_text, raised

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


at_each_address(run)
