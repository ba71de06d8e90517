// Random models of a few thousand parameters, one per family, equal on every machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/base/types.h"
#include "common/engine/model/format/dtype.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {

// "llama" (llama3 rope, tied), "mistral" (sliding window), "qwen2" (biases), "qwen3" (head norms),
// and those whose blocks are not a llama's; odd sizes throughout. Fails the test that calls it if
// anything goes wrong.
ModelConfig small_config(const std::string& architecture);
inline const std::vector<std::string> kSmallLlamas = {"llama", "mistral", "qwen2", "qwen3"};
inline const std::vector<std::string> kSmallModels = {
    "llama", "mistral",   "qwen2",   "qwen3", "gemma3_text", "gemma2",
    "gpt2",  "qwen3_moe", "mixtral", "phi3",  "granite",     "smollm3"};

// Changes the number of layers; new ones are as the last.
void set_layers(ModelConfig& config, std::int32_t layers);

// Writes the model, of that many layers, below `directory` and loads it.
std::shared_ptr<const ModelFiles> small_model(const std::string& directory,
                                              const std::string& architecture, DType dtype,
                                              std::int32_t layers = 2);

// Tokens of their vocabularies, without a pattern.
std::vector<TokenId> some_tokens(int count);

}  // namespace outrider
