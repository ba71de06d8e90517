# /// script
# requires-python = ">=3.11"
# dependencies = ["jpl-rosa==1.0.10", "ros-rclpy[fastrtps]==7.1.6"]
# ///
"""ROSA, the ROS agent of JPL: an answer with ROS 2's tools and one of its own offered, whole and streamed.

SPDX-License-Identifier: Apache-2.0
"""
import asyncio

from langchain.agents import tool
from langchain_openai import ChatOpenAI
from rosa import ROSA, RobotSystemPrompts

from robot import AT_ZERO, INSTRUCTIONS, MODEL, QUESTION, TASK, TOKENS, TOOLS, at_each_address, check


@tool
def grasp(cup: bool) -> str:
    """Closes the gripper."""
    return 'done' if cup else 'nothing is there'


def run(base):
    model = ChatOpenAI(base_url=base, api_key='none', model=MODEL, temperature=0, max_tokens=TOKENS, max_retries=0)
    said = ROSA(ros_version=2, llm=model, tools=[grasp], streaming=False).invoke(QUESTION)
    check(said and 'error' not in said, said)

    async def streamed():
        return [event async for event in ROSA(ros_version=2, llm=model, tools=[grasp]).astream(QUESTION)]

    events = asyncio.run(streamed())
    check(events[-1]['type'] == 'final' and events[-1]['content'], events)


def act(base):
    model = ChatOpenAI(base_url=base, api_key='none', model=MODEL, max_retries=0, **AT_ZERO)
    ROSA(ros_version=2, llm=model, tools=[tool(function) for function in TOOLS.values()], streaming=False,
         prompts=RobotSystemPrompts(about_your_capabilities=INSTRUCTIONS)).invoke(TASK)


at_each_address(run, act)
