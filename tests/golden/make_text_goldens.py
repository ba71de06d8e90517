#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes text/ids.txt and text/chats.json: what Hugging Face tokenizers and transformers say.

Run by hand, with requirements.txt beside this file installed, the data folder beside the
project, and SmolLM2's GGUF file named by OUTRIDER_SMOLLM2:

    python3 tests/golden/make_text_goldens.py                         writes both files
    python3 tests/golden/make_text_goldens.py dump FAMILY TEXT [N]    prints the ids of each line (from line N)

The families are put together here and again in family_tokenizers.h, from the same vocabularies.
ids.txt names the library's version, then has a line per family, text and block of 500 lines: the first 16 hex digits of the SHA-256
of the blocks' ids (little-endian int32, -1 after each line).
"""
import hashlib
import json
import os
import pathlib
import struct
import sys
import unicodedata

from tokenizers import Tokenizer
from versions import made_with

HERE = pathlib.Path(__file__).resolve().parent
DATA = HERE.parents[2] / "shared" / "data"
TOKENIZERS = DATA / "tokenizers"
BLOCK = 500

QWEN2_SPLIT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3_SPLIT = QWEN2_SPLIT.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)


def added(token_id, content):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": True}


def byte_level(vocab, merges, normalizer, pattern, tokens, post=None, ignore_merges=False):
    return {
        "version": "1.0",
        "added_tokens": tokens,
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}]},
        "post_processor": post,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "ignore_merges": ignore_merges, "vocab": vocab, "merges": merges},
    }


def starts_with(token, token_id):
    return {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [token_id], "tokens": [token]}}}


def gpt2():
    return json.loads((TOKENIZERS / "gpt2/tokenizer.json").read_text())


def qwen2():
    model = gpt2()["model"]
    tokens = [added(50256, "<|endoftext|>"), added(50257, "<|im_start|>"), added(50258, "<|im_end|>")]
    return byte_level(model["vocab"], model["merges"], {"type": "NFC"}, QWEN2_SPLIT, tokens)


def llama3():
    vocab = json.loads((TOKENIZERS / "llama3.2/encoder.json").read_text())
    merges = (TOKENIZERS / "llama3.2/vocab.bpe").read_text().split("\n")
    merges = [m for m in merges if m and not m.startswith("#version")]
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    tokens = [added(128000 + i, name) for i, name in enumerate(names)]
    return byte_level(vocab, merges, None, LLAMA3_SPLIT, tokens, starts_with(names[0], 128000), True)


def sentencepiece_vocabulary():
    from sentencepiece import sentencepiece_model_pb2
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString((TOKENIZERS / "llama2/tokenizer.model").read_bytes())
    vocab = {p.piece: i for i, p in enumerate(proto.pieces)}
    merges = []
    for p in proto.pieces:
        splits = [(p.piece[:i], p.piece[i:]) for i in range(1, len(p.piece))]
        known = [(a, b, p.score) for a, b in splits if a in vocab and b in vocab]
        merges += sorted(known, key=lambda m: (vocab[m[0]], vocab[m[1]]))
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return vocab, [[a, b] for a, b, _ in merges]


def llama2(metaspace=False):
    vocab, merges = sentencepiece_vocabulary()
    space = {"String": " "}
    return {
        "version": "1.0",
        "added_tokens": [added(0, "<unk>"), added(1, "<s>"), added(2, "</s>")],
        "normalizer": None if metaspace else {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": space, "content": "▁"}]},
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
        if metaspace else None,
        "post_processor": starts_with("<s>", 1),
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
            {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
                  "vocab": vocab, "merges": merges},
    }


def smollm2():
    from gguf import GGUFReader
    fields = GGUFReader(os.environ["OUTRIDER_SMOLLM2"]).fields
    tokens, types, merges = (fields[f"tokenizer.ggml.{key}"].contents() for key in ("tokens", "token_type", "merges"))
    specials = [added(i, tokens[i]) for i, kind in enumerate(types) if kind == 3]
    vocab = {token: i for i, token in enumerate(tokens)}
    tokenizer = byte_level(vocab, merges, None, "", specials)
    tokenizer["pre_tokenizer"]["pretokenizers"] = [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
    return tokenizer


FAMILIES = {"gpt2": gpt2, "qwen2": qwen2, "llama3": llama3, "llama2": llama2,
            "llama2-metaspace": lambda: llama2(metaspace=True), "smollm2": smollm2}


def code_points():
    """Every assigned character of Unicode 14 between letters, digits and spaces, 16 to a line.

    Tokenizers built with a younger Unicode than PCRE2's read younger characters differently.
    """
    assert unicodedata.unidata_version == "14.0.0", "needs Python 3.11"
    codes = [c for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Co", "Cs") and c != 0x0A]
    for i in range(0, len(codes), 16):
        yield "".join(f"a{chr(c)}b {chr(c)} 1{chr(c)}{chr(c)}'{chr(c)}" for c in codes[i:i + 16]) + "\n"


def lines_of(name):
    if name == "code-points":
        return list(code_points())
    path = HERE / "text" / name if (HERE / "text" / name).exists() else DATA / "prompts" / name
    text = path.read_bytes().decode("utf-8")
    return [line + "\n" for line in text.split("\n")]


TEXTS = ["multilingual.txt", "emoji.txt", "code.txt", "code-points", "text/tinyshakespeare.txt",
         "text/war-and-peace.txt", "wikitext/wikitext-2-valid.txt", "wikitext/wikitext-2-test.txt"]


def encode_lines(tokenizer, lines):
    return [e.ids for e in tokenizer.encode_batch(lines)]


def block_hashes(ids):
    for first in range(0, len(ids), BLOCK):
        packed = b"".join(struct.pack(f"<{len(line) + 1}i", *line, -1) for line in ids[first:first + BLOCK])
        yield hashlib.sha256(packed).hexdigest()[:16]


def write_ids():
    versions = made_with("tokenizers")
    with open(HERE / "text/ids.txt", "w") as out:
        out.write(f"made-with tokenizers {versions['tokenizers']}\n")
        for family, make in FAMILIES.items():
            tokenizer = Tokenizer.from_str(json.dumps(make()))
            tokenizer.encode_special_tokens = True  # text is text
            for text in TEXTS:
                hashes = list(block_hashes(encode_lines(tokenizer, lines_of(text))))
                out.write(f"{family} {text} {' '.join(hashes)}\n")
                print(family, text, len(hashes), flush=True)


# The published chat templates of the families, as in their tokenizer_config.json; that of Vicuna is
# FastChat's conversation form written as Jinja.
VICUNA_SYSTEM = ("A chat between a curious user and an artificial intelligence assistant. The assistant gives "
                 "helpful, detailed, and polite answers to the user's questions.")
TEMPLATES = {
    "llama2": (
        "llama2", "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}{% set system_message = "
        "messages[0]['content'] %}{% else %}{% set loop_messages = messages %}{% set system_message = false %}{% endif %}"
        "{% for message in loop_messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
        "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}"
        "{% if loop.index0 == 0 and system_message != false %}{% set content = '<<SYS>>\\n' + system_message + "
        "'\\n<</SYS>>\\n\\n' + message['content'] %}{% else %}{% set content = message['content'] %}{% endif %}"
        "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
        "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"),
    "llama3": (
        "llama3", "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = "
        "'<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}"
        "{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}"
        "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"),
    "vicuna": (
        "llama2", "{{ bos_token }}{% if messages[0]['role'] != 'system' %}{{ " + json.dumps(VICUNA_SYSTEM) + " + ' ' }}"
        "{% endif %}{% for message in messages %}{% if message['role'] == 'system' %}{{ message['content'] + ' ' }}"
        "{% elif message['role'] == 'user' %}{{ 'USER: ' + message['content'] + ' ' }}"
        "{% else %}{{ 'ASSISTANT: ' + message['content'] + eos_token }}{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"),
    "chatml": (
        "qwen2", "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
        "{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
        "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
        "{{ '<|im_start|>assistant\n' }}{% endif %}"),
    "zephyr": (
        "llama2", "{% for message in messages %}\n{% if message['role'] == 'user' %}\n{{ '<|user|>\n' + "
        "message['content'] + eos_token }}\n{% elif message['role'] == 'system' %}\n{{ '<|system|>\n' + "
        "message['content'] + eos_token }}\n{% elif message['role'] == 'assistant' %}\n{{ '<|assistant|>\n'  + "
        "message['content'] + eos_token }}\n{% endif %}\n{% if loop.last and add_generation_prompt %}\n"
        "{{ '<|assistant|>' }}\n{% endif %}\n{% endfor %}"),
}
SPECIALS = {"llama2": ("<s>", "</s>"), "llama3": ("<|begin_of_text|>", "<|eot_id|>"), "qwen2": (None, "<|im_end|>")}

CONVERSATIONS = [
    [("user", "Hello, who are you?")],
    [("system", "You drive a robot. Be brief."), ("user", "  Pick up the red cup.  ")],
    [("user", "Hi"), ("assistant", "Hello! How can I help?"), ("user", "2+2?\nAnswer in words.")],
    [("system", "Sei höflich 😀"), ("user", "Wie geht's?"), ("assistant", " Gut, danke. "), ("user", "日本語で?"),
     ("assistant", "はい。"), ("user", "\n\nthe end\n")],
    [("system", "s"), ("user", "  ")],
]


def write_chats():
    from transformers import PreTrainedTokenizerFast
    chats = []
    for name, (family, template) in TEMPLATES.items():
        bos, eos = SPECIALS[family]
        tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer.from_str(json.dumps(FAMILIES[family]())),
                                            bos_token=bos, eos_token=eos, chat_template=template)
        for conversation in CONVERSATIONS:
            messages = [{"role": role, "content": content} for role, content in conversation]
            for prompt in (False, True):
                text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=prompt)
                ids = tokenizer(text, add_special_tokens=False)["input_ids"]
                chats.append({"template": name, "messages": messages, "add_generation_prompt": prompt,
                              "text": text, "ids": ids})
    configs = {name: {"family": family, "bos_token": SPECIALS[family][0], "eos_token": SPECIALS[family][1],
                      "chat_template": template} for name, (family, template) in TEMPLATES.items()}
    golden = {"made_with": made_with("tokenizers", "transformers", "jinja2"), "configs": configs, "chats": chats}
    (HERE / "text/chats.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


def dump(family, text, first=0):
    tokenizer = Tokenizer.from_str(json.dumps(FAMILIES[family]()))
    tokenizer.encode_special_tokens = True
    lines = lines_of(text)[int(first):]
    for line, ids in zip(lines, encode_lines(tokenizer, lines)):
        print(json.dumps(line), *ids)


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "dump":
        dump(*sys.argv[2:])
    else:
        write_chats()
        write_ids()
