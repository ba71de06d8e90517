// The config of a model in a GGUF file, from its keys and, where keys are missing, its tensors.
//
// The architectures of architecture.h. An unsupported feature is refused by name.
//
// Thread rule: free functions. Errors: kInvalidArgument names file, key, value and limits;
// kUnimplemented the architecture or feature and what is supported; kDataLoss a value of a wrong
// type. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "common/base/status.h"
#include "common/engine/gguf/gguf_header.h"
#include "common/engine/model/format/config.h"

namespace outrider {

// The tensor, [head_dim / 2] f32, that divides the rotary frequencies.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";
// The same of a phi3 model, for texts within the original length and for longer ones, which are
// refused.
inline constexpr std::string_view kGgufShortFactors = "rope_factors_short.weight";
inline constexpr std::string_view kGgufLongFactors = "rope_factors_long.weight";

// Embeddings are tied if there is no output matrix; there are biases if the first layer has them.
// End tokens: those that the keys name, and control tokens that end a turn or a text in published
// vocabularies.
Result<ModelConfig> gguf_config(const GgufHeader& file);

}  // namespace outrider
