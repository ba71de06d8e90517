// The config of a model in a GGUF file, from its keys and, where these are silent, its tensors.
//
// Architectures llama (also Mistral), qwen2 and qwen3. What we do not compute is refused by name.
//
// Thread rule: free functions. Errors: kInvalidArgument names file, key, value and limits;
// kUnimplemented the architecture or feature and what is supported; kDataLoss a value of a wrong
// type. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/gguf/gguf_header.h"
#include "common/model/format/config.h"

namespace outrider {

// The tensor, [head_dim / 2] f32, by which the rotary frequencies are divided.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

// Embeddings are tied where there is no output matrix, and biases are there if the first layer has
// them. End tokens: those that the keys name, and control tokens that end a turn or a text in
// published vocabularies.
Result<ModelConfig> gguf_config(const GgufHeader& file);

}  // namespace outrider
