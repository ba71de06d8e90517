# /// script
# requires-python = ">=3.11"
# dependencies = ["litellm==1.110.2"]
# ///
"""LiteLLM: chats, whole and streamed, and completions.

SPDX-License-Identifier: Apache-2.0
"""
import os

os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'  # it would fetch prices
import litellm  # noqa: E402

from robot import MESSAGES, MODEL, QUESTION, TOKENS, act_by_chats, at_each_address, check, check_text, raised  # noqa: E402


def run(base):
    common = {'model': f'openai/{MODEL}', 'api_base': base, 'api_key': 'none', 'max_tokens': TOKENS, 'num_retries': 0}
    check_text(litellm.completion(messages=MESSAGES, **common).choices[0].message.content, ''.join(
        chunk.choices[0].delta.content or '' for chunk in litellm.completion(messages=MESSAGES, stream=True, **common)))
    plain = litellm.text_completion(prompt=QUESTION, **{**common, 'model': f'text-completion-openai/{MODEL}'})
    check(plain.choices[0].text, plain)
    raised(litellm.ContextWindowExceededError,
           lambda: litellm.completion(messages=[{'role': 'user', 'content': 'word ' * 20000}], **common))


def act(base):
    act_by_chats(lambda **asked: litellm.completion(model=f'openai/{MODEL}', api_base=base, api_key='none', num_retries=0, **asked))


litellm.telemetry = False
at_each_address(run, act)
