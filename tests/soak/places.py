"""Places in an answer where a cut may fall: between two tokens of a character, inside a stop string, before the end token.

  tokens = TokenBytes(MODEL)
  for n in mid_characters(tokens, ids): ..       # after ids[:n] a character is incomplete
  n = tokens_shown_by(tokens, record, out, moment)
  kind_of(tokens, whole, n, stop)                # one of KINDS

For models with a byte-level BPE tokenizer, such as the demo pair.
SPDX-License-Identifier: Apache-2.0
"""
import codecs
import json
from pathlib import Path

MID_CHARACTER, IN_STOP, AT_END, ANYWHERE = KINDS = ('mid-character', 'inside a stop string', 'before the end token', 'anywhere')


def _byte_of_character():
    """Byte-level BPE writes each byte as a printable character: printable bytes as themselves, the others from 256 on."""
    plain = [*range(ord('!'), ord('~') + 1), *range(ord('¡'), ord('¬') + 1), *range(ord('®'), ord('ÿ') + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {**{chr(byte): byte for byte in plain}, **{chr(256 + n): byte for n, byte in enumerate(others)}}


class TokenBytes:
    def __init__(self, model):
        tokenizer = json.loads((Path(model) / 'tokenizer.json').read_text(encoding='utf-8'))
        byte_of = _byte_of_character()
        special = {token['id'] for token in tokenizer['added_tokens']}
        self.of_id = {number: bytes(byte_of[c] for c in token)
                      for token, number in tokenizer['model']['vocab'].items() if number not in special}

    def decode(self, ids):
        """(text, whether its last character is incomplete)."""
        decoder = codecs.getincrementaldecoder('utf-8')(errors='replace')
        text = decoder.decode(b''.join(self.of_id.get(number, b'') for number in ids))
        return text, bool(decoder.getstate()[0])


def mid_characters(tokens, ids):
    return [n for n in range(1, len(ids)) if tokens.decode(ids[:n])[1]]


def tokens_shown_by(tokens, record, out, moment):
    """How many tokens had arrived by that moment. out: the output with its times."""
    arrived, so_far = [], 0
    for at, count in zip(record['chunk_ms'], record['chunk_tokens']):
        so_far += count
        arrived.append((at / 1e3, so_far))
    first = next((at for at, count in arrived if tokens.decode(record['ids'][:count])[0]), None)
    if first is None or not out:
        return 0
    start = out[0][0] - first
    return max((count for at, count in arrived if start + at <= moment), default=0)


def kind_of(tokens, whole, n, stop):
    """The kind of a cut after the first n tokens of the answer `whole`."""
    ids = whole['ids']
    text, begun = tokens.decode(ids[:n])
    if begun:
        return MID_CHARACTER
    if stop and n < len(ids) and any(text == whole['text'] + stop[:length] for length in range(1, len(stop))):
        return IN_STOP
    return AT_END if n == len(ids) - 1 and whole['stop_reason'] == 'stop_token' else ANYWHERE
