#!/usr/bin/env python3
"""Records of answers (docs/audit.md): honest ones are clean, forged ones are found, and reading again is fast.

  ./run soak audit [--model models/smollm2/SmolLM2-135M-Instruct.Q4_1.gguf] [--tokens 100000] [--forgeries 1000]

Honest tokens come from a server in company of eight clients, from the same with drafts of its own, from an edge that drafts
for it, from flash within a memory budget, from levels (where --elastic names a table), and from the kernels of a GPU by
fibers (--ways). Each forgery is made of one answer of its own, once signed and once without a key, with hashes and
ending made anew, as a forger would. Speed: one session, plain decoding, 300 tokens.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import collections
import concurrent.futures
import hashlib
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from edges import BIN, CLEAN_ENVIRONMENT, DRAFT, ROOT, TARGET, Edge, Server, edge, ending_with_us, free_port, least_budget, pack, read_prompts, wait_until_served
from outcome import Outcome, bootstrap

CLIENTS = 8
ANSWER = 200
SPEED_TOKENS = 300
RUNS = 7


def audit(file, target, *flags):
    """The lines about what is wrong, by answer; and the totals."""
    said = subprocess.run(ending_with_us(BIN / 'outrider-edge', 'audit', file, '--target', target, *flags), text=True,
                          capture_output=True, timeout=3000, check=False, env=CLEAN_ENVIRONMENT)
    last = re.search(r'(\d+) answers, (\d+) tokens and (\d+) digests compared, (\d+) wrong', said.stdout)
    if not last:
        sys.exit(said.stdout + said.stderr)
    wrong = {int(number): why for number, why in re.findall(r'^answer (\d+), line \d+: (.*)$', said.stdout, re.M)}
    speed = re.search(r'([\d.e-]+) ms a token', said.stderr)
    return wrong, [int(word) for word in last.groups()], float(speed.group(1))


def ask(base, prompt, seed, tokens):
    """One answer over HTTP, at a temperature and with settings that hang on the seed."""
    body = {'prompt': prompt, 'max_tokens': tokens, 'ignore_eos': True, 'seed': seed, 'temperature': (0, 0.7, 1.0)[seed % 3],
            **({'presence_penalty': 0.3, 'repetition_penalty': 1.1} if seed % 4 == 0 else {}), 'stop_token_ids': [0]}
    request = urllib.request.Request(f'{base}/v1/completions', json.dumps(body).encode(), {'Content-Type': 'application/json'})
    return json.load(urllib.request.urlopen(request, timeout=600))


def ask_all(base, prompts, answers, tokens, clients):
    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        list(pool.map(lambda i: ask(base, prompts[i % len(prompts)], i, tokens), range(answers)))


def record_at_server(options, prompts, file, tokens, *flags, key=None, answer=ANSWER):
    port = free_port()
    keys = ('--record-key', key) if key else ()
    with Server('--http-port', port, '--record', file, *keys, *flags, model=options.model):
        ask_all(f'http://127.0.0.1:{port}', prompts, max(1, tokens // answer), answer, CLIENTS)


def record_at_edge(options, prompts, file, tokens, *flags):
    port = free_port()
    served = Edge('serve', '--port', port, '--record', file, *flags)
    try:
        wait_until_served(f'http://127.0.0.1:{port}')
        ask_all(f'http://127.0.0.1:{port}', prompts, max(1, tokens // ANSWER), ANSWER, 1)
    finally:
        served.interrupt()
        served.wait()


def honest(options, prompts, folder, outcome):
    """Answers of every way to compute them, each audited on a plain target."""
    draft = ('--model', options.draft) if options.draft else ('--draft-source', 'lookup')

    def flash(file, tokens):
        packed = pack(options.model, 'auto', folder / 'target.pack')
        budget = least_budget(packed, '--draft-source', 'none', '-p', 'x')
        record_at_edge(options, prompts, file, tokens, '--target', packed, '--memory-budget', f'{budget}MiB', '--draft-source', 'none')

    def drafted(file, tokens):
        with Server(model=options.model) as server:
            record_at_edge(options, prompts, file, tokens, '--server', server.address, *draft)

    def levels(file, tokens):
        record_at_edge(options, prompts, file, tokens, '--target', options.model, '--elastic', options.elastic, '--level', '100,60:60',
                       '--draft-source', 'none')

    # With the share of the tokens that each has.
    ways = {'company': (0.6, lambda file, tokens: record_at_server(options, prompts, file, tokens, '--draft-source', 'none')),
            'server-drafts': (0.2, lambda file, tokens: record_at_server(options, prompts, file, tokens)),
            'edge-drafts': (0.1, drafted), 'flash': (0.02, flash), 'levels': (0.08, levels),
            'fibers': (0.02, lambda file, tokens: record_at_server(options, prompts, file, tokens, '--device', 'host-cuda'))}
    counted = outcome.figures['honest'] = {}
    for name in options.ways.split(','):
        share, record = ways[name]
        file = folder / f'{name}.jsonl'
        record(file, round(options.tokens * share))
        wrong, (answers, tokens, digests, _), _ = audit(file, options.model, *(('--elastic', options.elastic) if name == 'levels' else ()))
        counted[name] = {'answers': answers, 'tokens': tokens, 'digests': digests, 'alarms': len(wrong)}
        print(name, counted[name], file=sys.stderr, flush=True)
        for why in wrong.values():
            outcome.fail(f'{name}: {why}')


# --- forgeries: each takes a record's objects, first the terms, and changes one thing -----------------------------------

def forge_token(source, record):
    stretch = source.choice(record[1:])
    at = source.randrange(len(stretch['ids']))
    stretch['ids'][at] = source.choice([token for token in record[0]['prompt'] if token != stretch['ids'][at]])


def forge_order(source, record):
    ids = record[1]['ids']
    pairs = [i for i in range(len(ids) - 1) if ids[i] != ids[i + 1]]
    at = source.choice(pairs)
    ids[at], ids[at + 1] = ids[at + 1], ids[at]


def forge_seed(source, record):
    record[0]['seed'] += source.randint(1, 1000)


def forge_setting(source, record):
    field, value = source.choice((('temperature', 0.5), ('top_k', 2), ('top_p', 0.5), ('min_p', 0.3)))
    record[0][field] = value


def forge_level(_, record):
    record[1]['model'] = record[1]['model'].split('@')[0] + '@60'


def forge_template(source, record):
    record[0]['template_hash'] = hashlib.sha256(str(source.random()).encode()).hexdigest()


def forge_truncation(source, record):
    stretch = record[-1]
    kept = source.randint(1, len(stretch['ids']) - 1)
    begin = stretch['position']
    first = -(-begin // 16)
    stretch['ids'], stretch['tokens'] = stretch['ids'][:kept], kept
    stretch['digests'] = stretch['digests'][:max(0, -(-(begin + kept) // 16) - first)]
    stretch['ending'] = source.choice(('length', 'stop_token', 'stop_string'))


def forge_digest(source, record):
    digests = record[1]['digests']
    at = source.randrange(len(digests))
    digests[at] = f'{int(digests[at], 16) ^ (1 << source.randrange(64)):016x}'


FORGERIES = {'token': forge_token, 'order': forge_order, 'seed': forge_seed, 'setting': forge_setting, 'level': forge_level,
             'template': forge_template, 'truncation': forge_truncation, 'digest': forge_digest}


def lines_of(record):
    """With hashes made anew, and without a signature."""
    first = {'outrider_record': 1, **{key: value for key, value in record[0].items() if key != 'outrider_record'}, 'signer': ''}
    lines = [json.dumps(first, separators=(',', ':'))]
    for stretch in record[1:]:
        stretch = {key: value for key, value in stretch.items() if key != 'signature'}
        stretch['before'] = hashlib.sha256(lines[-1].encode()).hexdigest()
        lines.append(json.dumps(stretch, separators=(',', ':')))
    return lines


def read_records(file):
    records = []
    for line in Path(file).read_text(encoding='utf-8').splitlines():
        if line.startswith('{"outrider_record":'):
            records.append([])
        records[-1].append(line)
    return records


def signed_forgery(lines, forged, source):
    """A forger's work on a signed record: the changed lines, each with the signature that stood there, or a wrong one."""
    out = []
    for before, line in zip(lines, [json.dumps({'outrider_record': 1, **{k: v for k, v in forged[0].items() if k != 'outrider_record'}},
                                               separators=(',', ':'))] + lines_of(forged)[1:]):
        signature = re.search(r',"signature":"([0-9a-f]{128})"}$', before)
        if signature:
            stretch = json.loads(line)
            stretch['before'] = hashlib.sha256(out[-1].encode()).hexdigest()
            said = signature.group(1) if source.random() < 0.5 else f'{source.getrandbits(512):0128x}'
            line = json.dumps(stretch, separators=(',', ':'))[:-1] + f',"signature":"{said}"}}'
        out.append(line)
    return out


def forgeries(options, prompts, folder, outcome):
    made = subprocess.run([BIN / 'outrider-server', 'record-key', 'new', folder / 'key'], check=True, capture_output=True, text=True)
    file = folder / 'signed.jsonl'
    per_answer = 24
    record_at_server(options, prompts, file, (options.forgeries + 50) * per_answer, key=folder / 'key', answer=per_answer)
    source = random.Random(5)
    records = read_records(file)[:options.forgeries]
    kinds = [list(FORGERIES)[i % len(FORGERIES)] for i in range(len(records))]
    plain, signed = folder / 'forged.jsonl', folder / 'forged-signed.jsonl'
    with open(plain, 'w', encoding='utf-8') as bare, open(signed, 'w', encoding='utf-8') as keyed:
        for kind, lines in zip(kinds, records):
            forged = [json.loads(line) for line in lines]
            FORGERIES[kind](source, forged)
            bare.write('\n'.join(lines_of(forged)) + '\n')
            keyed.write('\n'.join(signed_forgery(lines, forged, source)) + '\n')
    found_signed, _, _ = audit(signed, options.model, '--signer', made.stdout.strip())
    found_plain, _, _ = audit(plain, options.model)
    table = collections.defaultdict(lambda: {'made': 0, 'signed_found': 0, 'unsigned_found': 0})
    escaped = collections.Counter()
    for number, (kind, lines) in enumerate(zip(kinds, records), 1):
        table[kind]['made'] += 1
        table[kind]['signed_found'] += number in found_signed
        table[kind]['unsigned_found'] += number in found_plain
        if number not in found_signed:
            outcome.fail(f'signed forgery {number} ({kind}) was not found')
        if number not in found_plain:
            temperature = json.loads(lines[0])['temperature']
            escaped[f'{kind}, {"greedy" if temperature == 0 else "sampled"}'] += 1
    outcome.figures['forgeries'] = dict(table)
    outcome.figures['unsigned_not_found'] = dict(escaped)
    forged_weights(options, prompts, folder, outcome)


def forged_weights(options, prompts, folder, outcome):
    """Records of targets with one flipped bit, which claim to be of the right one. Only of a directory's safetensors."""
    weights = Path(options.model) / 'model.safetensors'
    if not weights.exists():
        return
    source, seen = random.Random(9), collections.Counter()
    right = edge('run', '--target', options.model, '--draft-source', 'none', '-p', prompts[0], '-n', 2, '--record', folder / 'right.jsonl')
    assert right.code == 0, right.err
    names = json.loads((folder / 'right.jsonl').read_text(encoding='utf-8').splitlines()[1])
    size = weights.stat().st_size
    for number in range(options.flipped_bits):
        other = folder / 'other'
        shutil.rmtree(other, ignore_errors=True)
        shutil.copytree(options.model, other)
        content = bytearray(weights.read_bytes())
        content[source.randrange(size // 8, size)] ^= 1 << source.randrange(8)
        (other / 'model.safetensors').write_bytes(content)
        file = folder / f'flipped-{number}.jsonl'
        said = edge('run', '--target', other, '--draft-source', 'none', '-p', prompts[number % len(prompts)], '-n', 60, '--temp', '0.7',
                    '--seed', number, '--record', file)
        if said.code != 0:
            seen['refused at load or in a pass'] += 1
            continue
        record = [json.loads(line) for line in file.read_text(encoding='utf-8').splitlines()]
        for stretch in record[1:]:
            stretch.update(fingerprint=names['fingerprint'], arithmetic_id=names['arithmetic_id'])
        file.write_text('\n'.join(lines_of(record)) + '\n', encoding='utf-8')
        wrong, _, _ = audit(file, options.model)
        why = next(iter(wrong.values()), 'not found')
        seen['found by a digest' if 'digest' in why else 'found by a token' if 'chooses' in why else why] += 1
    outcome.figures['flipped_bits'] = dict(seen)


def speed(options, prompts, folder, outcome):
    """Times a token, each of runs of its own: plain decoding with and without a record, a prompt, and the audit."""
    tokens = ('--temp', '0.7', '--seed', '3', '-n', SPEED_TOKENS, '--ignore-eos', '--draft-source', 'none', '--target', options.model, '--json')
    short = ' '.join(prompts[0].split()[:24])
    long = ' '.join(prompts)[:options.prompt_characters]
    times = collections.defaultdict(list)
    sizes = []
    for run in range(RUNS):
        file = folder / f'speed-{run}.jsonl'
        for name, record in (('plain', ()), ('recorded', ('--record', file))):
            said = edge('run', '-p', short, *tokens, *record)
            assert said.code == 0, said.err
            times[name].append(said.json['decode_ms'] / (len(said.json['ids']) - 1))
        first, *rest = file.read_text(encoding='utf-8').splitlines()
        sizes.append(sum(map(len, rest)) / len(said.json['ids']))
        read = edge('run', '-p', long, *tokens[:5], '1', *tokens[6:])
        assert read.code == 0, read.err
        times['prompt'].append(read.json['ttft_ms'] / read.json['prompt_tokens'])
        wrong, _, each = audit(file, options.model)
        assert not wrong, wrong
        times['audit'].append(each)
        assert first
    pairs = list(zip(times['plain'], times['prompt'], times['audit'], times['recorded']))
    median = statistics.median
    outcome.figures['ms_a_token'] = {name: median(values) for name, values in times.items()}
    outcome.figures['times_faster_than_decoding'] = bootstrap(pairs, lambda some: median(one[0] / one[2] for one in some))
    outcome.hold('the audit\'s speed over that of a prompt', bootstrap(pairs, lambda some: median(one[1] / one[2] for one in some)), 0.85)
    outcome.hold('a token with a record over one without', bootstrap(pairs, lambda some: median(one[3] / one[0] for one in some)), 1.01,
                 at_least=False)
    outcome.figures['bytes_a_token'] = max(sizes)
    if max(sizes) > 16:
        outcome.fail(f'{max(sizes):.1f} bytes a token, at most 16')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--model', default=TARGET, help='the target [the demo target]')
    parser.add_argument('--draft', default=DRAFT, help='the draft; empty: look-up drafts')
    parser.add_argument('--elastic', default=f'{TARGET}/elastic.json', help='its level table; empty: it has no levels')
    parser.add_argument('--prompts', default=ROOT / 'bench/prompts/robot.jsonl')
    parser.add_argument('--tokens', type=int, default=100_000, help='honest ones')
    parser.add_argument('--ways', default='company,server-drafts,edge-drafts,flash,levels,fibers', help='that honest tokens are computed')
    parser.add_argument('--forgeries', type=int, default=1_000)
    parser.add_argument('--flipped-bits', type=int, default=20)
    parser.add_argument('--prompt-characters', type=int, default=1_000, help='of the long prompt whose time a token is the measure')
    parser.add_argument('--parts', default='honest,forgeries,speed')
    options = parser.parse_args()
    prompts = read_prompts(options.prompts, 0)
    outcome = Outcome('audit')
    with tempfile.TemporaryDirectory() as name:
        for part in options.parts.split(','):
            {'honest': honest, 'forgeries': forgeries, 'speed': speed}[part](options, prompts, Path(name), outcome)
    if 'speed' not in options.parts:
        outcome.hold('alarms and forgeries that were missed', (0.0, 0.0, 0.0), 0, at_least=False)
    return outcome.finish()


if __name__ == '__main__':
    sys.exit(main())
