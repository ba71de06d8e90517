#!/usr/bin/env python3
"""A server on this machine's GPU: whether it writes what a server on its CPU writes, and how fast.

  python3 bench/gpu/server_check.py [--bin build/release/bin] [--json gpu-server.json] [--shape-7b]

Needs outrider-server built with OUTRIDER_GPU, outrider-edge, and the demo pair. Edges with a draft, with look-up and
without drafts answer the same prompts from both servers. Then OpenAI clients decode plainly, 1, 16 and 64 at once.
--shape-7b does the same with random weights of Mistral 7B's shape and the demo tokenizer, which it writes to --folder
(13 GB): their texts mean nothing, their times do. Exit code: 0 if no text differs, 1 if one does.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import array
import http.client
import json
import random
import shutil
import statistics
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = ROOT / 'models/demo-target'
DRAFT = ROOT / 'models/demo-draft'
CLIENTS = (1, 16, 64)
ROUNDS = 3
TOKENS = 64


class Server:
    def __init__(self, programs, model, port, *flags, seconds=60):
        self.port = port
        self.process = subprocess.Popen(
            [programs / 'outrider-server', '--model', model, '--port', str(port), '--http-port', str(port + 1),
             '--max-concurrent-sessions', '128', '--max-calls-per-peer', '1024', '--cache-dir', 'none', '--draft-source', 'none', '--generation-config', 'none',
             *flags],
            stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        began = time.monotonic()
        while time.monotonic() - began < seconds and self.process.poll() is None:
            try:
                urllib.request.urlopen(f'http://127.0.0.1:{port + 1}/health/ready', timeout=1).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        self.process.kill()
        raise SystemExit(f'no server of {model} with {flags} after {seconds} s. Remedy: start it by hand to see why')

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def ids_of(programs, server, prompt, tokens, temperature, *flags):
    done = subprocess.run(
        [programs / 'outrider-edge', 'run', '--server', f'127.0.0.1:{server.port}', '--state-dir', 'none', '-p', prompt,
         '-n', str(tokens), '--temp', str(temperature), '--seed', '5', '--generation-config', 'none',
         '--json', *flags],
        capture_output=True, text=True, check=True, timeout=300)
    return json.loads(done.stdout.splitlines()[-1])['ids']


def compare_texts(programs, cpu, gpu, prompts, tokens):
    """Answers that are the same, and those that are not."""
    none = ('--tokenizer', DRAFT, '--draft-source', 'none')
    same, other = 0, []
    for index, prompt in enumerate(prompts):
        for temperature in (0, 0.7):
            wanted = ids_of(programs, cpu, prompt, tokens, temperature, *none)
            for flags in (none, ('--model', DRAFT), ('--tokenizer', DRAFT)):
                if ids_of(programs, gpu, prompt, tokens, temperature, *flags) == wanted:
                    same += 1
                else:
                    other.append([index, temperature, *map(str, flags)])
    return {'same': same, 'different': other}


def complete(server, prompt, answers, index):
    connection = http.client.HTTPConnection('127.0.0.1', server.port + 1, timeout=300)
    connection.request('POST', '/v1/completions', json.dumps(
        {'model': 'm', 'prompt': prompt, 'max_tokens': TOKENS, 'temperature': 0, 'ignore_eos': True, 'stream': True,
         'stream_options': {'include_usage': True}}), {'Content-Type': 'application/json'})
    first, tokens, text = None, 0, ''
    for line in connection.getresponse():
        if not line.startswith(b'data: {'):
            continue
        chunk = json.loads(line[6:])
        tokens = (chunk.get('usage') or {}).get('completion_tokens', tokens)
        if chunk.get('choices') and chunk['choices'][0]['text']:
            first = first or time.monotonic()
            text += chunk['choices'][0]['text']
    answers[index] = {'first': first, 'end': time.monotonic(), 'tokens': tokens, 'text': text}


def load(server, prompts, clients):
    answers = [None] * clients
    threads = [threading.Thread(target=complete, args=(server, prompts[i % len(prompts)], answers, i)) for i in range(clients)]
    began = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    per_token = [(a['end'] - a['first']) * 1e3 / (a['tokens'] - 1) for a in answers]
    return {'tokens_per_s': sum(a['tokens'] for a in answers) / seconds, 'tpot_ms': statistics.median(per_token)}


def load_rounds(server, prompts):
    """By number of clients, medians over rounds; the first round fills caches and is left out."""
    rounds = {clients: [] for clients in CLIENTS}
    for _ in range(ROUNDS + 1):
        for clients in CLIENTS:
            rounds[clients].append(load(server, prompts, clients))
    return {str(clients): {figure: round(statistics.median(one[figure] for one in figures[1:]), 2) for figure in figures[0]}
            for clients, figures in rounds.items()}


def write_7b(folder):
    """Random bf16 weights of Mistral 7B's shape: a block of drawn values, again and again."""
    hidden, inner, layers, keys, vocabulary = 4096, 14336, 32, 1024, 3072
    folder.mkdir(parents=True, exist_ok=True)
    for name in ('tokenizer.json', 'tokenizer_config.json', 'generation_config.json'):
        shutil.copy(TARGET / name, folder / name)
    config = json.loads((TARGET / 'config.json').read_text(encoding='utf-8'))
    config.update(hidden_size=hidden, intermediate_size=inner, num_hidden_layers=layers, num_attention_heads=32,
                  num_key_value_heads=8, head_dim=128, vocab_size=vocabulary, max_position_embeddings=4096)
    (folder / 'config.json').write_text(json.dumps(config), encoding='utf-8')
    shapes = {'model.embed_tokens': (vocabulary, hidden), 'model.norm': (hidden,)}
    for layer in range(layers):
        for name, shape in {'input_layernorm': (hidden,), 'post_attention_layernorm': (hidden,),
                            'self_attn.q_proj': (hidden, hidden), 'self_attn.k_proj': (keys, hidden),
                            'self_attn.v_proj': (keys, hidden), 'self_attn.o_proj': (hidden, hidden),
                            'mlp.gate_proj': (inner, hidden), 'mlp.up_proj': (inner, hidden),
                            'mlp.down_proj': (hidden, inner)}.items():
            shapes[f'model.layers.{layer}.{name}'] = shape
    header, end = {}, 0
    for name, shape in shapes.items():
        size = 2 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name + '.weight'] = {'dtype': 'BF16', 'shape': shape, 'data_offsets': [end, end + size]}
        end += size
    head = json.dumps(header).encode()
    head += b' ' * (-len(head) % 8)
    draw = random.Random(1)
    values = [struct.unpack('>H', struct.pack('>f', draw.gauss(0, 0.02))[:2])[0] for _ in range(1 << 16)]
    block = array.array('H', draw.choices(values, k=(1 << 22) + 12345)).tobytes()
    with open(folder / 'model.safetensors', 'wb') as file:
        file.write(struct.pack('<Q', len(head)) + head)
        for shape in shapes.values():
            if len(shape) == 1:
                file.write(array.array('H', [0x3f80] * shape[0]).tobytes())  # ones
                continue
            for begin in range(0, 2 * shape[0] * shape[1], len(block)):
                file.write(block[:2 * shape[0] * shape[1] - begin])


def main():
    flags = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    flags.add_argument('--bin', type=Path, default=ROOT / 'build/release/bin', help='folder of the programs')
    flags.add_argument('--json', type=Path, help='write the figures here')
    flags.add_argument('--dtype', nargs='+', default=['bf16', 'int8'], help='of the demo target')
    flags.add_argument('--device', default='cuda', help='of the server that is checked')
    flags.add_argument('--num-prompts', type=int, default=16)
    flags.add_argument('--tokens', type=int, default=TOKENS, help='of each answer that is compared')
    flags.add_argument('--only-texts', action='store_true', help='compare answers, and measure nothing')
    flags.add_argument('--shape-7b', action='store_true', help='also load with a 7B shape, in int8')
    flags.add_argument('--folder', type=Path, default=Path('/tmp/outrider-7b'), help='where the 7B shape is written')
    options = flags.parse_args()
    lines = (ROOT / 'bench/prompts/robot.jsonl').read_text(encoding='utf-8').splitlines()
    prompts = [json.loads(line)['prompt'] for line in lines]
    figures = {}
    for dtype in options.dtype:
        with Server(options.bin, TARGET, 8110, '--dtype', dtype) as cpu, \
                Server(options.bin, TARGET, 8120, '--dtype', dtype, '--device', options.device) as gpu:
            texts = compare_texts(options.bin, cpu, gpu, prompts[:options.num_prompts], options.tokens)
            figures[f'demo {dtype}'] = {'texts': texts, 'plain': {} if options.only_texts else load_rounds(gpu, prompts)}
        print(f"demo target, {dtype}: {texts['same']} answers as the CPU's, {len(texts['different'])} others")
    if options.shape_7b:
        write_7b(options.folder)
        with Server(options.bin, options.folder, 8130, '--dtype', 'int8', '--device', options.device,
                    '--max-model-len', '1024', seconds=300) as gpu:
            figures['7B shape int8'] = {'plain': load_rounds(gpu, prompts)}
    for name, one in figures.items():
        for clients, row in one['plain'].items():
            print(f"{name}: {clients} plain clients, {row['tokens_per_s']:.0f} tokens/s, {row['tpot_ms']:.2f} ms a token")
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1), encoding='utf-8')
    return 1 if any(one.get('texts', {}).get('different') for one in figures.values()) else 0


if __name__ == '__main__':
    sys.exit(main())
