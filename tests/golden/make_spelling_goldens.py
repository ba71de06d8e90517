#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes text/spellings.json: small made-up tokenizers of every kind, and what Hugging Face makes of texts.

Run by hand, with requirements.txt beside this file installed:

    python3 tests/golden/make_spelling_goldens.py                  writes the file
    python3 tests/golden/make_spelling_goldens.py dump CASE TEXT   prints the ids of each line

A case is a vocabulary and what it changes in it. For each text it has the first 16 hex digits of the
SHA-256 of all lines' ids (little-endian int32, -1 after each line), and of the lines that decoding gives.
"""
import hashlib
import io
import itertools
import json
import pathlib
import struct
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from make_text_goldens import LLAMA3_SPLIT, QWEN2_SPLIT, code_points, lines_of
from versions import made_with

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE / "text/spellings.json"
OWN_TEXTS = ["multilingual.txt", "emoji.txt", "code.txt"]
TEXTS = [*OWN_TEXTS, "probes", "single-bytes"]
# Cases that see every character of Unicode 14, which takes a while.
EVERY_CHARACTER = ["digits-False-True", "gguf-default", "metaspace-▁-always-True", "pieces"]
GPT2_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
BEHAVIORS = ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]

PROBES = [
    "", " ", "  ", "a", " a", "a ", "  a  ", "hello world", "  two  spaces  ", "\n\n\tx\r\ny", "▁", "▁a ▁ b▁", "_a _ b_",
    "1", "12", "123", "1234", "a1b22c333d4444", "1 2 3", "3.14159", "٣٤٥ ½ Ⅷ ²³", "x²+y³=z", "日本語、テスト。", "¿qué?",
    "!!!", "a!!b", "!a!", "...and...", "$5 + 6 = <11> ^ `x` | ~", "don't I'll WE'RE they'd", "(a)(b)", "a,b;c:d",
    "<s>", "x<s>y", "<tool> a", "a <tool>b<tool> <tool>", " <tool> ", "</s></s>", "abab ababab", "thethe the",
    "Ünï\u0301cödé \u00c5\u212b ﬁ", "e\u0301", "👩‍👩‍👧 🇩🇪", "\x00\x01\x7f", "\u200b\u200d", "\U0003ffff\U000f0000\U0010fffd",
    "a" * 50, "ab " * 20, "0" * 20, "-" * 20, "<0x41> <0xFF>", "Ġ Ċ â", "naïve ² é", "1/2 ¼", "A.B.C.", "\u3000x\u3000",
]


def byte_lines():
    """Each byte alone and among letters, digits and spaces; what is no UTF-8 becomes U+FFFD."""
    for byte in range(256):
        one = bytes([byte])
        for line in (one, b"a" + one + b"b " + one + b" 1" + one + one):
            yield line.decode("utf-8", "replace") + "\n"


def read_lines(text):
    if text == "probes":
        return PROBES
    if text == "single-bytes":
        return list(byte_lines())
    return list(code_points()) if text == "code-points" else lines_of(text)


def added(token_id, content, special=True):
    return {"id": token_id, "content": content, "single_word": False, "lstrip": False, "rstrip": False,
            "normalized": False, "special": special}


def bpe(vocab, merges, **changes):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": vocab, "merges": merges} | changes


def train(texts, size, pre_tokenizer, alphabet=(), specials=()):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=size, initial_alphabet=list(alphabet), special_tokens=list(specials),
                                  show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    return model["vocab"], model["merges"]


def byte_level(**changes):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True} | changes


def sequence(*steps):
    return {"type": "Sequence", "pretokenizers": list(steps)}


def split(pattern, behavior, invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def tokenizer_of(model, decoder, tokens, normalizer=None, pre_tokenizer=None):
    return {"version": "1.0", "added_tokens": tokens, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "post_processor": None, "decoder": decoder, "model": model}


SP_DECODER = {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"},
    {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
SP_NORMALIZER = {"type": "Sequence", "normalizers": [
    {"type": "Prepend", "prepend": "▁"}, {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]}


def sentencepiece_pieces(lines):
    """Text, score and type of each piece of a small BPE model."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=out, model_type="bpe", vocab_size=760, byte_fallback=True,
        character_coverage=0.98, normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<tool>"], minloglevel=2)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(out.getvalue())
    return [[piece.piece, piece.score, piece.type] for piece in proto.pieces]


def merges_of(pieces):
    vocab = {text: i for i, (text, _, kind) in enumerate(pieces) if kind == 1}
    merges = []
    for text, score, kind in pieces:
        splits = [(text[:i], text[i:]) for i in range(1, len(text))] if kind == 1 else []
        known = [(a, b, score) for a, b in splits if a in vocab and b in vocab]
        merges += sorted(known, key=lambda m: (vocab[m[0]], vocab[m[1]]))
    merges.sort(key=lambda m: (m[2], len(m[0]), len(m[1])), reverse=True)
    return [[a, b] for a, b, _ in merges]


def make_vocabularies():
    texts = [line for text in OWN_TEXTS for line in read_lines(text)]
    plain = [line for line in read_lines("code.txt") + texts if line.isascii()]
    bytes_decoder = byte_level(add_prefix_space=True)
    no_regex = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocab, merges = train(texts, 400, no_regex, pre_tokenizers.ByteLevel.alphabet())
    names = ["<s>", "</s>", "<tool>"]
    tokens = [added(len(vocab) + i, name, special=name != "<tool>") for i, name in enumerate(names)]
    vocabularies = {"bytes": tokenizer_of(bpe(vocab, merges), bytes_decoder, tokens)}
    specials = ["<unk>", "<s>", "</s>", "<tool>"]
    tokens = [added(i, name, special=name != "<tool>") for i, name in enumerate(specials)]
    vocab, merges = train(plain, 160, no_regex, specials=specials)
    vocabularies["lacking"] = tokenizer_of(bpe(vocab, merges), bytes_decoder, tokens)
    marks = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="always")
    vocab, merges = train([*plain, "_ab _the _a"], 200, marks, specials=specials)
    model = bpe(vocab, merges, unk_token="<unk>", fuse_unk=True)
    vocabularies["marks"] = tokenizer_of(model, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always",
                                                 "split": True}, tokens)
    pieces = sentencepiece_pieces(texts)
    tokens = [added(i, text, special=kind != 4) for i, (text, _, kind) in enumerate(pieces) if kind in (2, 3, 4)]
    model = bpe({piece[0]: i for i, piece in enumerate(pieces)}, merges_of(pieces), unk_token="<unk>", fuse_unk=True,
                byte_fallback=True)
    vocabularies["pieces"] = tokenizer_of(model, SP_DECODER, tokens, normalizer=SP_NORMALIZER)
    return vocabularies, pieces


def pre(name, *steps):
    return name, "bytes", {"pre_tokenizer": steps[0] if len(steps) == 1 else sequence(*steps)}


def byte_level_cases():
    digits = {"type": "Digits", "individual_digits": True}
    runs = {"type": "Digits", "individual_digits": False}
    after = byte_level(use_regex=False)
    yield pre("plain", after)
    for prefix, regex in itertools.product([False, True], repeat=2):
        flags = byte_level(add_prefix_space=prefix, use_regex=regex, trim_offsets=prefix)
        for name, step in (("digits", digits), ("digit-runs", runs)):
            yield pre(f"{name}-{prefix}-{regex}", step, flags)
        yield pre(f"bytes-{prefix}-{regex}", flags)
    for behavior in BEHAVIORS:
        punctuation = {"type": "Punctuation", "behavior": behavior}
        yield pre(f"punctuation-{behavior}", punctuation, after)
        yield pre(f"punctuation-{behavior}-bytes", punctuation, byte_level(add_prefix_space=True))
        for invert, (kind, pattern) in itertools.product([False, True], [
                ("String", " "), ("String", "the"), ("String", "."), ("Regex", r"\s+"), ("Regex", r"[0-9]{2}|[a-c]"),
                ("Regex", QWEN2_SPLIT)]):
            yield pre(f"split-{kind}-{pattern[:9]}-{behavior}-{invert}", split(pattern, behavior, invert, kind), after)
    yield pre("punctuation-default", {"type": "Punctuation"}, after)
    yield pre("falcon", {"type": "Punctuation", "behavior": "Contiguous"}, byte_level(), runs,
              split("[0-9][0-9][0-9]", "Isolated"))
    yield pre("split-after-bytes", after, split("Ġ", "MergedWithNext", kind="String"))
    yield pre("nested", sequence(digits, sequence({"type": "Punctuation"})), byte_level())
    yield pre("metaspace-bytes", {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}, after)
    yield pre("spaces-removed-first", split(" ", "Removed", kind="String"),
              {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}, after)


def gguf_cases():
    """The families that GGUF files name, spelled as Hugging Face's files of the family are."""
    after = byte_level(use_regex=False)
    yield pre("gguf-smollm", {"type": "Digits", "individual_digits": True}, byte_level())
    name, vocabulary, changes = pre("gguf-llama-bpe", split(LLAMA3_SPLIT, "Isolated"), after)
    yield name, vocabulary, changes | {"model": {"ignore_merges": True}}
    name, vocabulary, changes = pre("gguf-qwen2", split(QWEN2_SPLIT, "Isolated"), after)
    yield name, vocabulary, changes | {"normalizer": {"type": "NFC"}}
    yield pre("gguf-gpt-2", byte_level())
    yield pre("gguf-default", split(r"[\p{P}\$\+<=>\^~\|]+", "Isolated"), split(GPT2_SPLIT, "Isolated"),
              {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]", "Isolated"), after)


def lacking_cases():
    fallback = {f"<0x{byte:02X}>": 200 + byte for byte in range(256)}
    some = {f"<0x{byte:02X}>": 200 + byte for byte in range(0x80, 0xC4)}
    for name, model in {
            "nothing": {}, "unknown": {"unk_token": "<unk>"}, "fused": {"unk_token": "<unk>", "fuse_unk": True},
            "fallback": {"byte_fallback": True, "vocab": fallback},
            "some-fallback": {"byte_fallback": True, "vocab": some, "unk_token": "<unk>", "fuse_unk": True},
            "some-unfused": {"byte_fallback": True, "vocab": some, "unk_token": "<unk>"}}.items():
        yield f"lacking-{name}", "lacking", {"pre_tokenizer": byte_level(), "model": model}
        yield f"marks-{name}", "marks", {"pre_tokenizer": {"type": "Metaspace", "replacement": "▁"},
                                         "model": {"unk_token": None, "fuse_unk": False} | model}


def metaspace_cases():
    for mark, scheme, cut in itertools.product("▁_", ["always", "first", "never"], [True, False]):
        step = {"type": "Metaspace", "replacement": mark, "prepend_scheme": scheme, "split": cut}
        yield f"metaspace-{mark}-{scheme}-{cut}", "marks", {"pre_tokenizer": step, "decoder": step}
        yield f"metaspace-{mark}-{scheme}-{cut}-seq", "marks", {
            "pre_tokenizer": sequence({"type": "Digits", "individual_digits": False}, step, {"type": "Punctuation"})}
    old = {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True}
    yield "metaspace-old", "marks", {"pre_tokenizer": old, "decoder": old}
    both = old | {"add_prefix_space": False, "prepend_scheme": "never"}
    yield "metaspace-both", "marks", {"pre_tokenizer": both, "decoder": both}
    for behavior in BEHAVIORS:
        yield f"marks-split-{behavior}", "marks", {
            "pre_tokenizer": sequence(split(" ", behavior, kind="String"), old)}
    yield "gemma", "pieces", {
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
        "pre_tokenizer": split(" ", "MergedWithPrevious", kind="String"),
        "decoder": {"type": "Sequence", "decoders": SP_DECODER["decoders"][:3]}}
    yield "pieces", "pieces", {}
    yield "pieces-first", "pieces", {"normalizer": None, "pre_tokenizer": {
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}}


def make_cases():
    for cases in (byte_level_cases, gguf_cases, lacking_cases, metaspace_cases):
        yield from cases()


def changed(vocabulary, changes):
    """`changes` over the vocabulary; in the model they are merged, and so are its tokens."""
    model = dict(vocabulary["model"])
    for key, value in changes.get("model", {}).items():
        model[key] = model[key] | value if key == "vocab" else value
    return vocabulary | changes | {"model": model}


def load(vocabulary, changes):
    return Tokenizer.from_str(json.dumps(changed(vocabulary, changes)))


def hash_of(parts):
    sha = hashlib.sha256()
    for part in parts:
        sha.update(part)
    return sha.hexdigest()[:16]


def hashes(tokenizer, texts):
    for text in texts:
        ids = [e.ids for e in tokenizer.encode_batch(read_lines(text), add_special_tokens=False)]
        decoded = tokenizer.decode_batch(ids, skip_special_tokens=True)
        yield hash_of(struct.pack(f"<{len(line) + 1}i", *line, -1) for line in ids)
        yield hash_of((line + "\0").encode() for line in decoded)


def write():
    vocabularies, pieces = make_vocabularies()
    golden = {"made_with": made_with("tokenizers", "sentencepiece"), "probes": PROBES, "pieces": pieces, "vocabularies": vocabularies, "cases": []}
    for name, vocabulary, changes in make_cases():
        texts = TEXTS + (["code-points"] if name in EVERY_CHARACTER else [])
        found = list(hashes(load(vocabularies[vocabulary], changes), texts))
        golden["cases"].append({"name": name, "vocabulary": vocabulary, "changes": changes, "texts": texts,
                                "ids": found[::2], "decoded": found[1::2]})
        print(name, flush=True)
    lines = [f' {json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}' for key, value in golden.items()
             if key != "cases"]
    cases = ",\n  ".join(json.dumps(case, ensure_ascii=False) for case in golden["cases"])
    GOLDEN.write_text("{\n" + ",\n".join(lines) + f',\n "cases": [\n  {cases}\n ]\n}}\n')


def dump(name, text):
    golden = json.loads(GOLDEN.read_text())
    case = next(case for case in golden["cases"] if case["name"] == name)
    tokenizer = load(golden["vocabularies"][case["vocabulary"]], case["changes"])
    for line in read_lines(text):
        ids = tokenizer.encode(line, add_special_tokens=False).ids
        print(json.dumps(line), *ids, json.dumps(tokenizer.decode(ids)))


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "dump":
        dump(*sys.argv[2:4])
    else:
        write()
