# /// script
# requires-python = ">=3.11"
# dependencies = ["openai==3.57.0"]
# ///
"""The official client: models, chats and completions, whole and streamed, choices, errors.

SPDX-License-Identifier: Apache-2.0
"""
import openai

from robot import MESSAGES, MODEL, QUESTION, TOKENS, act_by_chats, at_each_address, check, check_text, raised


def run(base):
    client = openai.OpenAI(base_url=base, api_key='none', max_retries=0, _strict_response_validation=True)
    check([model.id for model in client.models.list()] == [MODEL], 'the list of models')
    check(client.models.retrieve(MODEL).id == MODEL, 'the model')
    chat = {'model': MODEL, 'messages': MESSAGES, 'max_tokens': TOKENS, 'seed': 2**64 - 1, 'user': 'ada'}
    whole = client.chat.completions.create(**chat)
    check_text(whole.choices[0].message.content, ''.join(
        chunk.choices[0].delta.content or '' for chunk in
        client.chat.completions.create(**chat, stream=True, stream_options={'include_usage': True}) if chunk.choices))
    check(whole.usage.prompt_tokens_details.cached_tokens >= 0, 'cached tokens')
    plain = {'model': MODEL, 'prompt': QUESTION, 'max_tokens': TOKENS}
    # The package's own type of a chunk requires a finish_reason in each, which OpenAI sends only in the last.
    lenient = openai.OpenAI(base_url=base, api_key='none', max_retries=0)
    check_text(client.completions.create(**plain).choices[0].text,
               ''.join(chunk.choices[0].text for chunk in lenient.completions.create(**plain, stream=True)))
    raised(openai.NotFoundError, lambda: client.models.retrieve('another'))
    both = client.chat.completions.create(**chat, n=2)
    check([choice.index for choice in both.choices] == [0, 1], both)
    raised(openai.BadRequestError, lambda: client.chat.completions.create(model=MODEL, messages=MESSAGES, n=500))


def act(base):
    client = openai.OpenAI(base_url=base, api_key='none', max_retries=0)
    act_by_chats(lambda **asked: client.chat.completions.create(model=MODEL, **asked))


at_each_address(run, act)
