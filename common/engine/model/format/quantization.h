// How the matrices of a quantised Hugging Face directory are stored: `quantization_config` of
// config.json, read and checked.
//
// Which matrices are quantised is seen from the files (quantized_tensors.h), not from
// `modules_to_not_convert`, which programs match in different ways.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace outrider {

enum class QuantMethod : std::uint8_t {
  kNone,
  kAwq,   // 4 bits in groups along the inputs, as AutoAWQ's "gemm" version packs them
  kGptq,  // 2, 3, 4 or 8 bits in groups along the inputs, which may be in any order
  kFp8,   // E4M3 numbers with a scale per matrix, output or block
};

// The spelling of quantization_config: "awq", "gptq", "fp8"; "" for kNone.
std::string_view to_string(QuantMethod method);

struct StoredQuantization {
  QuantMethod method = QuantMethod::kNone;
  // Used by AWQ and GPTQ.
  int bits = 0;
  std::int64_t group_size = 0;   // inputs that share a scale; 0: all of them
  bool zeros_less_one = false;   // zero points are stored less one: GPTQ's format 1
  bool needs_group_ids = false;  // an input's group is in g_idx
  // Used by FP8: outputs and inputs that share a scale; 0: a scale per matrix or per output.
  std::int64_t block_rows = 0;
  std::int64_t block_columns = 0;
};

}  // namespace outrider
