"""The demo's question to programs that were not built for this machine.

SPDX-License-Identifier: Apache-2.0
"""
import edges
import programs  # edges.py adds its folder to the path


def answer_demo(folder, models, outcome, look=lambda _: True):
    """The text of the folder's programs, and whether it is right. look is called with the server's HTTP port while it
    serves. models: the path at which these programs see the demo pair."""
    programs.BIN, http = folder, edges.free_port()
    prompt = (edges.ROOT / 'deploy/demo-prompt.txt').read_text(encoding='utf-8').strip()
    with edges.Server('--http-port', http, model=models / 'demo-target') as server:
        common = ('--server', server.address, '-p', prompt, '-n', '200', '--json')
        drafted = edges.edge('run', '--model', models / 'demo-draft', '--strategy', 'mirror', *common)
        plain = edges.edge('run', '--tokenizer', models / 'demo-draft', '--strategy', 'ar', *common)
        if not look(http):
            outcome.fail('the server is not healthy')
    for got in (drafted, plain):
        if got.code != 0:
            outcome.fail(got.err[-500:])
            return None
    if drafted.json['text'] != plain.json['text'] or not drafted.json['spec_decode_num_accepted_tokens']:
        outcome.fail('the answer is not plain decoding\'s text, or no token of it was drafted')
    return plain.json['text']
