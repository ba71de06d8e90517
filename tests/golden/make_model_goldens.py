#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes model/cases.json and model/NAME.npy: the logits of small random models and of the demo
models by transformers.

Run by hand, with torch, transformers and numpy installed:

    python3 tests/golden/make_model_goldens.py

No random weights are stored: random_tensor() of common/engine/model/format/model_writer.h gives the same ones from the
tensors' names, and the test writes the model directories itself.
"""
import json
import pathlib

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

HERE = pathlib.Path(__file__).resolve().parent / "model"
MODELS = HERE.parents[2] / "models"
SEED = 1
VOCAB = 80
GOLDEN = np.uint64(0x9E3779B97F4A7C15)
STORAGE = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def mix(z):
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def random_tensor(name, shape):
    name_hash = 0xCBF29CE484222325
    for byte in name.encode():
        name_hash = ((name_hash ^ byte) * 0x100000001B3) % 2**64
    is_norm = name.endswith("norm.weight")
    scale = 0.5 if is_norm or name.endswith(".bias") else 1.0
    if len(shape) == 2 and name != "model.embed_tokens.weight":
        scale = np.sqrt(3.0 / shape[1])
    with np.errstate(over="ignore"):
        stream = mix(np.uint64(name_hash) + np.uint64(SEED) * GOLDEN)
        counter = np.arange(1, int(np.prod(shape)) + 1, dtype=np.uint64)
        bits = mix(stream + counter * GOLDEN) >> np.uint64(40)
    values = (1.0 if is_norm else 0.0) + (bits.astype(np.float64) * 2.0**-23 - 1.0) * scale
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def token_ids(length, vocab):
    return [(i * i * 7 + i * 13 + 5) % vocab for i in range(length)]


BASE = {
    "vocab_size": VOCAB, "hidden_size": 48, "intermediate_size": 88, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 512,
    "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu", "tie_word_embeddings": False,
    "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0,
}
LLAMA = {**BASE, "model_type": "llama", "architectures": ["LlamaForCausalLM"]}
MISTRAL = {**BASE, "model_type": "mistral", "architectures": ["MistralForCausalLM"], "sliding_window": None}
QWEN2 = {**BASE, "model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
QWEN3 = {**BASE, "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "head_dim": 12}
GEMMA3 = {**BASE, "model_type": "gemma3_text", "architectures": ["Gemma3ForCausalLM"], "head_dim": 20,
          "num_key_value_heads": 1, "hidden_activation": "gelu_pytorch_tanh", "tie_word_embeddings": True,
          "query_pre_attn_scalar": 24, "sliding_window": 21, "rope_theta": 1000000.0, "rope_local_base_freq": 500.0}
GEMMA3.pop("hidden_act")
GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": VOCAB, "n_embd": 48, "n_layer": 3,
        "n_head": 4, "n_positions": 128, "layer_norm_epsilon": 1e-5, "eos_token_id": 2, "bos_token_id": 1}
EXPERTS = {**BASE, "model_type": "qwen3_moe", "architectures": ["Qwen3MoeForCausalLM"], "head_dim": 16,
           "num_key_value_heads": 2, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
MIXTRAL = {**BASE, "model_type": "mixtral", "architectures": ["MixtralForCausalLM"], "num_key_value_heads": 2,
           "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 21}
PHI3 = {**BASE, "model_type": "phi3", "architectures": ["Phi3ForCausalLM"], "num_key_value_heads": 2,
        "original_max_position_embeddings": 512}
LONG_ROPE = {"type": "longrope", "short_factor": [1.0, 1.5, 2.0, 3.0, 4.0, 6.0], "long_factor": [8.0] * 6}
GRANITE = {**BASE, "model_type": "granite", "architectures": ["GraniteForCausalLM"], "embedding_multiplier": 3.0,
           "residual_multiplier": 0.5, "attention_multiplier": 0.125, "logits_scaling": 4.0}
SMOLLM3 = {**BASE, "model_type": "smollm3", "architectures": ["SmolLM3ForCausalLM"], "num_key_value_heads": 2,
           "no_rope_layers": [1, 0, 1]}
YARN_ROPE = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}

# name: (config, type of the stored weights, shards)
CASES = {
    "llama": (LLAMA, "F32", 1),
    "llama_tied_gqa": ({**LLAMA, "num_key_value_heads": 2, "tie_word_embeddings": True}, "F32", 1),
    "llama_biases": ({**LLAMA, "attention_bias": True, "mlp_bias": True, "num_key_value_heads": 1}, "F32", 1),
    "llama_eps": ({**LLAMA, "rms_norm_eps": 0.05}, "F32", 1),
    "llama_theta": ({**LLAMA, "rope_theta": 500.0}, "F32", 1),
    "llama_linear": ({**LLAMA, "rope_scaling": {"type": "linear", "factor": 4.0}}, "F32", 1),
    "llama_llama3": ({**LLAMA, "rope_theta": 500000.0, "rope_scaling": LLAMA3_ROPE}, "F32", 1),
    "llama_dynamic": ({**LLAMA, "max_position_embeddings": 96,
                       "rope_scaling": {"type": "dynamic", "factor": 2.0}}, "F32", 1),
    "llama_head_dim": ({**LLAMA, "head_dim": 20, "num_key_value_heads": 2}, "F32", 1),
    "llama_sharded": ({**LLAMA, "num_key_value_heads": 2}, "F32", 3),
    "llama_f16": (LLAMA, "F16", 1),
    "llama_bf16": ({**LLAMA, "num_key_value_heads": 2}, "BF16", 2),
    "mistral": ({**MISTRAL, "num_key_value_heads": 2}, "F32", 1),
    "mistral_window": ({**MISTRAL, "num_key_value_heads": 2, "sliding_window": 21}, "F32", 1),
    "qwen2": ({**QWEN2, "num_key_value_heads": 2, "tie_word_embeddings": True, "rope_theta": 1000000.0}, "F32", 1),
    "qwen2_window": ({**QWEN2, "use_sliding_window": True, "sliding_window": 17, "max_window_layers": 1}, "F32", 1),
    "qwen3": ({**QWEN3, "num_key_value_heads": 2, "head_dim": 16, "tie_word_embeddings": True}, "F32", 1),
    "qwen3_bias_window": ({**QWEN3, "attention_bias": True, "use_sliding_window": True, "sliding_window": 9,
                           "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}, "F32", 1),
}
CASES |= {
    "llama_yarn": ({**LLAMA, "rope_scaling": YARN_ROPE}, "F32", 1),
    "llama_gelu": ({**LLAMA, "hidden_act": "gelu"}, "F32", 1),
    "gemma3": ({**GEMMA3, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}, "F32", 1),
    "gemma3_linear": ({**GEMMA3, "sliding_window_pattern": 2, "final_logit_softcapping": 4.0,
                       "rope_scaling": {"rope_type": "linear", "factor": 8.0}}, "F32", 1),
    "gemma2": ({**GEMMA3, "model_type": "gemma2", "architectures": ["Gemma2ForCausalLM"], "rope_theta": 500.0,
                "attn_logit_softcapping": 6.0, "final_logit_softcapping": 4.0}, "F32", 1),
    "gpt2": (GPT2, "F32", 1),
    "gpt2_relu": ({**GPT2, "activation_function": "relu", "n_inner": 88, "scale_attn_weights": False}, "F16", 2),
    "qwen3_moe": (EXPERTS, "F32", 1),
    "qwen3_moe_norm": ({**EXPERTS, "num_experts_per_tok": 3, "norm_topk_prob": True}, "BF16", 2),
    "mixtral": (MIXTRAL, "F32", 1),
    "phi3": ({**PHI3, "head_dim": 16, "partial_rotary_factor": 0.5, "sliding_window": 21}, "F32", 1),
    "phi3_long": ({**PHI3, "original_max_position_embeddings": 128, "rope_scaling": LONG_ROPE}, "F32", 1),
    "granite": (GRANITE, "F32", 1),
    "smollm3": (SMOLLM3, "F32", 1),
}
LENGTH = 96
# Early rows, rows on both sides of the windows' ends, and the last.
POSITIONS = [0, 1, 7, 16, 17, 21, 33, 64, 95]
DEMO_MODELS = ["demo-target", "demo-draft"]
DEMO_POSITIONS = [0, 30, 95]


def stored_values(name, shape, kind):
    """A parameter's values: transformers keeps the experts of a layer in two tensors, files do not."""
    stem, _, part = name.rpartition(".experts.")
    if not stem:
        return random_tensor(name.replace(".mlp.gate.", ".block_sparse_moe.gate.") if kind == "mixtral" else name, shape)
    gate, up, down = "gate_proj", "up_proj", "down_proj"
    if kind == "mixtral":
        stem, gate, up, down = stem.replace(".mlp", ".block_sparse_moe"), "w1", "w3", "w2"
    parts, rows = ((gate, up), shape[1] // 2) if part == "gate_up_proj" else ((down,), shape[1])
    return torch.stack([torch.cat([random_tensor(f"{stem}.experts.{e}.{p}.weight", (rows, shape[2])) for p in parts])
                        for e in range(shape[0])])


def logits_of(config, storage):
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
    tied = config.tie_word_embeddings
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if tied and name == "lm_head.weight":
                continue
            values = stored_values(name, tuple(parameter.shape), config.model_type)
            parameter.copy_(values.to(STORAGE[storage]).float())
        return logits_at(model, token_ids(LENGTH, VOCAB), POSITIONS)


def logits_at(model, ids, positions):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0][positions].numpy().astype(np.float32)


def demo_case(name):
    """The stored weights as they are, computed in f32."""
    model = AutoModelForCausalLM.from_pretrained(MODELS / name, attn_implementation="eager",
                                                 dtype=torch.float32).eval()
    ids = token_ids(LENGTH, model.config.vocab_size)
    np.save(HERE / f"{name}.npy", logits_at(model, ids, DEMO_POSITIONS))
    return {"name": name, "ids": ids, "positions": DEMO_POSITIONS}


def main():
    torch.set_num_threads(1)
    HERE.mkdir(exist_ok=True)
    cases = []
    for number, (name, (raw, storage, shards)) in enumerate(CASES.items()):
        config = AutoConfig.for_model(**json.loads(json.dumps(raw)))
        np.save(HERE / f"{name}.npy", logits_of(config, storage))
        # Every other config in the words of transformers 5, the rest in those of transformers 4.
        text = json.loads(config.to_json_string(use_diff=True)) if number % 2 else raw
        text.pop("transformers_version", None)
        cases.append({"name": name, "storage": storage, "shards": shards, "config": text})
    (HERE / "cases.json").write_text(json.dumps(
        {"seed": SEED, "ids": token_ids(LENGTH, VOCAB), "positions": POSITIONS, "cases": cases,
         "demo": [demo_case(name) for name in DEMO_MODELS]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
