# /// script
# requires-python = ">=3.11"
# dependencies = ["rai-core==2.12.1", "ros-rclpy[fastrtps]==7.1.6"]
# ///
"""RAI, an agent of robots: its model by its own configuration, its ReAct agent with a tool, errors.

SPDX-License-Identifier: Apache-2.0
"""
import base64
import os
import tempfile
from pathlib import Path

import openai
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from rai import get_llm_model
from rai.agents.langchain.core import create_react_runnable
from rai.messages import HumanMultimodalMessage

from robot import AT_ZERO, INSTRUCTIONS, MODEL, QUESTION, TASK, TOKENS, TOOLS, at_each_address, check, raised

MODELS = f'simple_model = "{MODEL}"\ncomplex_model = "{MODEL}"\nembeddings_model = "{MODEL}"\n'


@tool
def grasp(cup: bool) -> str:
    """Closes the gripper."""
    return 'done' if cup else 'nothing is there'


def configured(base, **settings):
    """The model at the address."""
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / 'config.toml'
        config.write_text('[vendor]\n' + MODELS.replace(MODEL, 'openai') + '[openai]\n' + MODELS + f'base_url = "{base}"\n',
                          encoding='utf-8')
        return get_llm_model('simple_model', config_path=str(config), max_retries=0, **settings)


def run(base):
    model = configured(base, temperature=0, max_tokens=TOKENS)
    check(model.invoke([HumanMultimodalMessage(content=QUESTION)]).content, 'no answer')
    agent = create_react_runnable(llm=model, system_prompt='Be brief.', tools=[grasp])
    check(agent.invoke({'messages': [HumanMessage(QUESTION)]})['messages'][-1].content, 'the agent is silent')
    image = HumanMultimodalMessage(content=QUESTION, images=[base64.b64encode(b'no image').decode()])
    error = raised(openai.BadRequestError, lambda: model.invoke([image]))
    check('messages[].content' in str(error), error)


def act(base):
    agent = create_react_runnable(llm=configured(base, **AT_ZERO), system_prompt=INSTRUCTIONS, tools=[tool(function) for function in TOOLS.values()])
    agent.invoke({'messages': [HumanMessage(TASK)]})


os.environ['OPENAI_API_KEY'] = 'none'
at_each_address(run, act)
