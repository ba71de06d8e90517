#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes gguf/NAME.gguf, gguf/NAME.npy and gguf/cases.json: small models of every architecture and
tensor type, the hashes of their tensors by the package gguf, and their logits by transformers.

Run by hand, with gguf, torch, transformers, accelerate and numpy installed:

    python3 tests/golden/make_gguf_goldens.py

transformers reads the files itself, so names, order of rows and keys are held against its reading
of the format. Where it does not know a feature of a file (rope factors, Mistral's window), the
weights that it read are computed under a config with that feature. Types that the package cannot
quantise are random blocks with scales of sound size.
"""
import hashlib
import json
import pathlib

import gguf
import numpy as np
import torch
from gguf.quants import dequantize, quantize
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent / "gguf"
Type = gguf.GGMLQuantizationType
LENGTH = 96
POSITIONS = [0, 1, 7, 21, 33, 64, 95]
SMALL = {"hidden": 64, "inner": 96, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16, "vocab": 80, "tied": False}
WIDE = {**SMALL, "hidden": 256, "inner": 256, "heads": 8, "kv_heads": 4, "head_dim": 32}
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 32}

# name: (architecture, shape, types in turn for the matrices, type of the embedding, features)
CASES = {
    "llama_f32": ("llama", {**SMALL, "kv_heads": 4}, [Type.F32], Type.F32, {}),
    "llama_halves": ("llama", SMALL, [Type.F16, Type.BF16], Type.F16, {}),
    "llama_q4": ("llama", {**SMALL, "tied": True}, [Type.Q4_1, Type.Q4_0], Type.Q8_0, {}),
    "llama_k": ("llama", {**WIDE, "layers": 3, "tied": True}, [Type.Q4_K, Type.Q5_K, Type.Q6_K], Type.Q6_K,
                {"rope": LLAMA3}),
    "mistral": ("llama", SMALL, [Type.Q8_0, Type.Q5_1], Type.Q5_0, {"window": 21}),
    "qwen2": ("qwen2", {**SMALL, "tied": True}, [Type.Q5_0, Type.Q5_1, Type.Q8_0], Type.Q8_0, {}),
    "qwen2_k": ("qwen2", WIDE, [Type.Q6_K, Type.Q4_K], Type.Q4_K, {}),
    "qwen3": ("qwen3", {**SMALL, "head_dim": 128}, [Type.Q4_0, Type.Q8_0, Type.BF16], Type.F16, {}),
    "llama_iq4": ("llama", {**WIDE, "layers": 1, "tied": True}, [Type.IQ4_NL, Type.IQ4_XS], Type.IQ4_NL, {}),
    "qwen2_low_k": ("qwen2", {**WIDE, "layers": 1}, [Type.Q2_K, Type.Q3_K], Type.Q3_K, {}),
    "gemma3": ("gemma3", {**SMALL, "layers": 6, "kv_heads": 1, "tied": True}, [Type.Q8_0, Type.Q5_1], Type.Q8_0, {}),
    "gpt2": ("gpt2", {**SMALL, "inner": 256, "kv_heads": 4, "tied": True}, [Type.Q8_0, Type.F16], Type.F16, {}),
}
# d*s*q has about this size in a block of random bytes.
RANDOM_SIZES = {Type.Q2_K: 7 * 1.5, Type.Q3_K: 16 * 2, Type.Q4_K: 30 * 8, Type.Q5_K: 30 * 16, Type.Q6_K: 60 * 20,
                Type.IQ4_NL: 60, Type.IQ4_XS: 16 * 60}


def random_matrix(random, rows, columns, type_, scale):
    if type_ in RANDOM_SIZES:
        return random_blocks(random, rows, columns, type_, scale)
    values = (random.uniform(-1, 1, (rows, columns)) * scale).astype(np.float32)
    return values if type_ == Type.F32 else quantize(values, type_)


def random_blocks(random, rows, columns, type_, scale):
    elements, size = gguf.GGML_QUANT_SIZES[type_]
    blocks = random.integers(0, 256, (rows * columns // elements, size), dtype=np.uint8)
    scale = scale / 2.5  # random bits spread the values so much wider than a uniform matrix

    def put(at, value):
        factors = (value * random.uniform(0.5, 1.5, len(blocks))).astype(np.float16)
        blocks[:, at:at + 2] = factors.view(np.uint8).reshape(-1, 2)

    # Where d lies, and m of x = d * s * q - m * n.
    place = {Type.Q6_K: 208, Type.Q2_K: 80, Type.Q3_K: 108}.get(type_, 0)
    put(place, scale / RANDOM_SIZES[type_])
    if type_ in (Type.Q4_K, Type.Q5_K):
        put(2, scale / 30)
    elif type_ == Type.Q2_K:
        put(82, scale / 7)
    return blocks.reshape(rows, columns // elements * size)


def rope_factors(head_dim, theta, rope):
    """Returns the factors that converters of Llama 3.1 write: wavelengths' stretch, as in its published code."""
    frequencies = 1.0 / theta ** (np.arange(0, head_dim, 2) / head_dim)
    wavelengths = 2 * np.pi / frequencies
    original = rope["original_max_position_embeddings"]
    low, high = original / rope["low_freq_factor"], original / rope["high_freq_factor"]
    share = (original / wavelengths - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
    between = 1 / ((1 - share) / rope["factor"] + share)
    return np.where(wavelengths < high, 1.0, np.where(wavelengths > low, rope["factor"], between)).astype(np.float32)


def matrices_of(architecture, shape):
    """The matrices of a layer: name, rows, columns, whether with a bias."""
    hidden, inner = shape["hidden"], shape["inner"]
    q, kv = shape["heads"] * shape["head_dim"], shape["kv_heads"] * shape["head_dim"]
    if architecture == "gpt2":
        return (("attn_qkv", 3 * hidden, hidden, True), ("attn_output", hidden, hidden, True),
                ("ffn_up", inner, hidden, True), ("ffn_down", hidden, inner, True))
    biased = architecture == "qwen2"
    return (("attn_q", q, hidden, biased), ("attn_k", kv, hidden, biased), ("attn_v", kv, hidden, biased),
            ("attn_output", hidden, q, False), ("ffn_gate", inner, hidden, False), ("ffn_up", inner, hidden, False),
            ("ffn_down", hidden, inner, False))


def write_tensors(architecture, shape, embedding, matrix, vector):
    hidden = shape["hidden"]

    def norm(name):
        vector(f"{name}.weight", hidden, 1)
        if architecture == "gpt2":
            vector(f"{name}.bias", hidden, 0)

    matrix("token_embd.weight", shape["vocab"], hidden, embedding, 1.0)
    if architecture == "gpt2":
        matrix("position_embd.weight", 1024, hidden, Type.F16, 1.0)
    norm("output_norm")
    if not shape["tied"]:
        matrix("output.weight", shape["vocab"], hidden)
    for layer in range(shape["layers"]):
        at = f"blk.{layer}."
        norm(at + "attn_norm")
        norm(at + "ffn_norm")
        if architecture == "gemma3":
            norm(at + "post_attention_norm")
            norm(at + "post_ffw_norm")
        for part, rows, columns, biased in matrices_of(architecture, shape):
            matrix(f"{at}{part}.weight", rows, columns)
            if biased:
                vector(f"{at}{part}.bias", rows, 0)
        if architecture in ("qwen3", "gemma3"):
            vector(at + "attn_q_norm.weight", shape["head_dim"], 1)
            vector(at + "attn_k_norm.weight", shape["head_dim"], 1)


def write_file(name, architecture, shape, types, embedding, features, random):
    writer = gguf.GGUFWriter(HERE / f"{name}.gguf", architecture)
    theta = 500000.0 if "rope" in features else 10000.0
    writer.add_name("golden")  # another with "mistral" in it would be taken for that architecture
    writer.add_block_count(shape["layers"])
    writer.add_context_length(1024 if architecture == "gpt2" else 512)  # as many as transformers takes
    writer.add_embedding_length(shape["hidden"])
    writer.add_feed_forward_length(shape["inner"])
    writer.add_head_count(shape["heads"])
    writer.add_head_count_kv(shape["kv_heads"])
    writer.add_key_length(shape["head_dim"])
    writer.add_value_length(shape["head_dim"])
    writer.add_rope_dimension_count(shape["head_dim"])
    writer.add_rope_freq_base(theta)
    if architecture == "gpt2":
        writer.add_layer_norm_eps(1e-5)
    else:
        writer.add_layer_norm_rms_eps(1e-5)
    if architecture == "gemma3":
        writer.add_sliding_window(21)
    writer.add_vocab_size(shape["vocab"])
    if "window" in features:
        writer.add_sliding_window(features["window"])
    writer.add_tokenizer_model("gpt2")  # transformers wants to see how many tokens there are
    writer.add_token_list([f"t{i}" for i in range(shape["vocab"])])
    writer.add_eos_token_id(2)
    number = 0

    def matrix(tensor, rows, columns, type_=None, scale=None):
        nonlocal number
        type_, number = type_ or types[number % len(types)], number + (type_ is None)
        data = random_matrix(random, rows, columns, type_, scale or np.sqrt(3.0 / columns))
        writer.add_tensor(tensor, data, raw_dtype=type_)

    def vector(tensor, size, middle):
        writer.add_tensor(tensor, (middle + random.uniform(-0.5, 0.5, size)).astype(np.float32))

    if "rope" in features:
        writer.add_tensor("rope_freqs.weight", rope_factors(shape["head_dim"], theta, features["rope"]))
    write_tensors(architecture, shape, embedding, matrix, vector)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hashes_of(name):
    """SHA-256 of each tensor's values as f32, in the order of the file."""
    reader = gguf.GGUFReader(HERE / f"{name}.gguf")
    return {tensor.name: [tensor.tensor_type.name,
                          hashlib.sha256(dequantize(tensor.data, tensor.tensor_type).astype("<f4").tobytes()).hexdigest()]
            for tensor in reader.tensors}


def model_of(name, features):
    read = AutoModelForCausalLM.from_pretrained(HERE, gguf_file=f"{name}.gguf", dtype=torch.float32,
                                                attn_implementation="eager")
    if read.config.model_type == "gemma3_text":  # transformers leaves the scale at that of heads of 256
        for layer in read.model.layers:
            layer.self_attn.scaling = read.config.head_dim ** -0.5
    if not features:
        return read.eval()
    values = read.config.to_dict()
    for key in ("model_type", "architectures", "rope_parameters", "rope_scaling"):
        values.pop(key, None)
    kind = "mistral" if "window" in features else "llama"
    values["sliding_window"] = features.get("window")
    values["rope_theta"] = 500000.0 if "rope" in features else 10000.0
    if "rope" in features:
        values["rope_parameters"] = {**features["rope"], "rope_theta": values["rope_theta"]}
    config = AutoConfig.for_model(kind, **values)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    model.load_state_dict(read.state_dict())
    return model.eval()


def main():
    torch.set_num_threads(1)
    HERE.mkdir(exist_ok=True)
    cases = []
    for number, (name, (architecture, shape, types, embedding, features)) in enumerate(CASES.items()):
        write_file(name, architecture, shape, types, embedding, features, np.random.default_rng(number))
        ids = [(i * i * 7 + i * 13 + 5) % shape["vocab"] for i in range(LENGTH)]
        with torch.no_grad():
            logits = model_of(name, features)(torch.tensor([ids]), use_cache=False).logits[0]
        np.save(HERE / f"{name}.npy", logits[POSITIONS].numpy().astype(np.float32))
        cases.append({"name": name, "ids": ids, "positions": POSITIONS, "tensors": hashes_of(name)})
    (HERE / "cases.json").write_text(json.dumps({"cases": cases}) + "\n")


if __name__ == "__main__":
    main()
