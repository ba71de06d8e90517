// The ids by which edge and server, and two servers, recognise the same model.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/engine/model/format/config.h"
#include "common/engine/model/format/weights.h"

namespace outrider {

// 64 hex digits of SHA-256 over everything that determines the logits: the config (without end
// tokens) and each needed tensor's name, dtype, shape and content. It does not depend on sharding,
// order of keys or file names; it differs for the same weights stored in another dtype.
//
// Tensors over 64 KiB are sampled: 16 blocks of 4 KiB at even distances, first and last included.
// So a 7B model takes a tenth of a second. The samples distinguish training runs, seeds and
// conversions, but may miss damage of single bytes. `weights` must have passed
// arrange(config), or come from the same GGUF file as `config`.
std::string model_fingerprint(const ModelConfig& config, const Weights& weights);

// The fingerprint of a level (level_id()) of a model: it is a model of its own, which computes
// other logits.
std::string level_fingerprint(std::string_view model, std::string_view level);

// Everything that determines the bits of the logits; its hash is the arithmetic id
// (docs/row-invariance.md).
struct Arithmetic {
  std::string_view fingerprint;
  std::string_view dtype;           // as computed: "f32", "bf16", "int8", "int4"
  std::string_view kernel_version;  // changes when any kernel's bits change
  std::string_view device_class;    // "cpu", "cuda-sm90", ...
  std::string_view order = {};      // of units (order_id()); empty: as stored
};

// 64 hex digits.
std::string arithmetic_id(const Arithmetic& arithmetic);

}  // namespace outrider
