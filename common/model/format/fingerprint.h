// The identities by which edge and server, and two servers, know that they mean the same model.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/model/format/config.h"
#include "common/model/format/weights.h"

namespace outrider {

// 64 hex digits of SHA-256 over what determines the logits: the config (end tokens left out) and
// each needed tensor's name, dtype, shape and content. The same for any sharding, order of keys
// or file names; another for the same weights stored in another dtype.
//
// Tensors over 64 KiB are sampled: 16 blocks of 4 KiB at even distances, first and last included.
// So a 7B model takes a tenth of a second, and another training run, seed or conversion is told
// apart; damage of single bytes may not be.
// `weights` must have passed check_shapes(config), or come from the same GGUF file as `config`. or
// be from the same GGUF file as config.
std::string model_fingerprint(const ModelConfig& config, const Weights& weights);

// What fixes every bit of the logits: its hash is the arithmetic id (docs/row-invariance.md).
struct Arithmetic {
  std::string_view fingerprint;
  std::string_view dtype;           // as computed: "f32", "bf16", "int8", "int4"
  std::string_view kernel_version;  // moves when any kernel's bits do
  std::string_view device_class;    // "cpu", "cuda-sm90", ...
};

// 64 hex digits.
std::string arithmetic_id(const Arithmetic& arithmetic);

}  // namespace outrider
