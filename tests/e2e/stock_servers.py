"""Servers that speak as vLLM's and llama-cpp-python's (0.3.36) do, for a model that recites one text.

  with VllmServer(prompt, text) as server: edge('run', '--server', server.address, '--server-api', 'vllm', ..)

The model is a pure function of the ids before, as a real one at temperature 0. Faults are functions that a request meets.
SPDX-License-Identifier: Apache-2.0
"""
import functools
import http.server
import json
import subprocess
import threading
import time

from programs import BIN, DRAFT


@functools.lru_cache(maxsize=None)
def ids_of(text):
    """The ids by which the demo pair's tokenizer reads a text, special tokens included."""
    done = subprocess.run([BIN / 'outrider-edge', 'tokenize', '--tokenizer', DRAFT, '--whole'], input=text.encode(),
                          capture_output=True, check=True)
    return tuple(json.loads(done.stdout))


def printable_bytes():
    """The characters by which byte-level tokenizers write bytes that do not print."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in own]
    return {chr(byte): byte for byte in own} | {chr(256 + i): byte for i, byte in enumerate(others)}


@functools.lru_cache(maxsize=None)
def vocabulary():
    """The bytes of each id, and the ids of special tokens, which have none."""
    described = json.loads((DRAFT / 'tokenizer.json').read_text(encoding='utf-8'))
    of_character = printable_bytes()
    texts = {id: bytes(of_character[c] for c in piece) for piece, id in described['model']['vocab'].items()}
    special = {token['id'] for token in described['added_tokens'] if token['special']}
    return texts | {id: b'' for id in special}, special


def bytes_of(ids):
    texts, _ = vocabulary()
    return b''.join(texts[id] for id in ids)


def shown(ids):
    return bytes_of(ids).decode('utf-8', errors='ignore')


END = '<|im_end|>'


class Reply(Exception):
    """The answer of a fault in place of the server's: status, body, headers; status None: it closes."""

    def __init__(self, status, body='', headers=None):
        super().__init__(status)
        self.status, self.body, self.headers = status, body, headers or {}


def is_judged(body):
    return bool(body.get('echo')) or body.get('prompt_logprobs') is not None


class StockServer:
    """On the loopback. requests: the bodies of completions. before, after: called with the number of a completion and its
    body or its reply; they may raise a Reply or change the reply."""
    model = 'reciter'
    token_seconds, judge_seconds = 0.002, 0  # of a token that it writes, and of a prompt that it judges

    def __init__(self, prompt, text, before=None, after=None):
        self.prompt, self.script = ids_of(prompt), (*ids_of(text), *ids_of(END))
        self.before, self.after = before or (lambda number, body: None), after or (lambda number, reply: None)
        self.requests, self.connections = [], 0
        self.level = range(0)  # numbers of the answer's tokens that a batch of tokens takes for others, by a hair
        self.key = None
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            disable_nagle_algorithm = True

            def setup(self):
                outer.connections += 1
                super().setup()

            def answer(self, act):
                try:
                    if outer.key and self.headers['Authorization'] != f'Bearer {outer.key}':
                        raise Reply(401, json.dumps({'error': {'message': 'Invalid API key'}}))
                    reply = Reply(200, json.dumps(act()))
                except Reply as fault:
                    reply = fault
                if reply.status is None:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in {'Content-Type': 'application/json', 'Content-Length': len(reply.body.encode()), **reply.headers}.items():
                    self.send_header(name, str(value))
                self.end_headers()
                self.wfile.write(reply.body.encode())

            def do_GET(self):
                self.answer(lambda: outer.models())

            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
                self.answer(lambda: outer.post(self.path, body))

            def log_message(self, *_):
                pass

        self.http = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        self.http.daemon_threads = True
        self.address = f'127.0.0.1:{self.http.server_port}'
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()

    def follow(self, ids):
        """The token that the model chooses behind these."""
        said = tuple(ids[len(self.prompt):])
        return self.script[len(said)] if said == self.script[:len(said)] and len(said) < len(self.script) else self.script[0]

    def leaders(self, ids):
        """The two likeliest tokens behind these with their log-probabilities, as they are computed in a batch."""
        token = self.follow(ids)
        other = next(id for id in self.script if id != token and id not in vocabulary()[1] and shown([id]))
        return {other: -0.25, token: -0.35} if len(ids) - len(self.prompt) in self.level else {token: -0.25, other: -2.5}

    def write(self, ids, count):
        """(the tokens of an answer, whether it ends there)."""
        said = []
        while True:
            token = self.follow([*ids, *said])
            if token in vocabulary()[1]:
                return said, True
            said.append(token)
            time.sleep(self.token_seconds)
            if len(said) >= count and bytes_of(said).decode('utf-8', errors='ignore').encode() == bytes_of(said):
                return said, False

    def post(self, path, body):
        if path != '/v1/completions':
            return self.other(path, body)
        number = len(self.requests)
        self.requests.append(body)
        self.before(number, body)
        if is_judged(body):
            time.sleep(self.judge_seconds)
        reply = self.complete(body)
        return self.after(number, reply) or reply

    def other(self, path, body):
        raise Reply(404, json.dumps({'detail': 'Not Found'}))


class VllmServer(StockServer):
    api = 'vllm'

    def models(self):
        return {'object': 'list', 'data': [{'id': self.model, 'object': 'model', 'max_model_len': 1024}]}

    def other(self, path, body):
        ids = ids_of(body['prompt'])
        return {'count': len(ids), 'max_model_len': 1024, 'tokens': self.tokenize(ids)}

    def tokenize(self, ids):
        return list(ids)

    def place(self, ids, i):
        leaders = self.leaders(ids[:i]) if i >= len(self.prompt) else {ids[i]: -0.25}
        ranked = {str(id): {'logprob': logprob, 'rank': rank, 'decoded_token': ''} for rank, (id, logprob) in enumerate(leaders.items(), 1)}
        return {str(ids[i]): {'logprob': -4.5, 'rank': 9, 'decoded_token': ''}} | ranked

    def complete(self, body):
        ids = body['prompt']
        said, ended = self.write(ids, body['max_tokens'])
        tokens = [*said, *ids_of(END)] if ended else said
        choice = {'index': 0, 'text': shown(said), 'finish_reason': 'stop' if ended else 'length',
                  'logprobs': {'tokens': [f'token_id:{id}' for id in tokens], 'token_logprobs': [-0.25] * len(tokens)}}
        if body.get('prompt_logprobs') is not None:
            choice['prompt_logprobs'] = [None] + [self.place(ids, i) for i in range(1, len(ids))]
        return {'id': 'cmpl-1', 'object': 'text_completion', 'model': body['model'], 'choices': [choice],
                'usage': {'prompt_tokens': len(ids), 'completion_tokens': len(tokens)}}


class LlamaCppServer(StockServer):
    """Lists of log-probabilities are late by one place, and end one place early, as the real server's are where a text begins
    without its beginning-of-text token."""
    api = 'llama-cpp'

    def models(self):
        return {'object': 'list', 'data': [{'id': self.model, 'object': 'model', 'owned_by': 'me', 'permissions': []}]}

    def complete(self, body):
        ids = list(ids_of(body['prompt']))
        said, ended = self.write(ids, body['max_tokens'])
        text = shown(said)
        choice = {'index': 0, 'text': body['prompt'] + text if body.get('echo') else text, 'logprobs': None,
                  'finish_reason': 'stop' if ended else 'length'}
        if body.get('logprobs') is not None:
            choice['logprobs'] = self.logprobs([*ids, *said], len(ids))
        return {'id': 'cmpl-1', 'object': 'text_completion', 'model': self.model, 'choices': [choice],
                'usage': {'prompt_tokens': len(ids), 'completion_tokens': len(said), 'total_tokens': len(ids) + len(said)}}

    def logprobs(self, ids, prompt):
        rows = len(ids) - 1 if len(ids) > prompt else len(ids)  # the last token of an answer was not read
        pieces = [shown([id]) for id in ids[:rows]]
        places = []
        for i in range(rows):
            leaders = self.leaders(ids[:i + 1]) if i + 1 >= len(self.prompt) else {ids[i + 1]: -0.25}
            places.append({pieces[i]: -4.5} | {shown([id]): logprob for id, logprob in leaders.items()})
        return {'tokens': pieces, 'text_offset': [0] * rows, 'token_logprobs': [None] + [-2.5] * (rows - 1),
                'top_logprobs': [None, *places[1:]]}
