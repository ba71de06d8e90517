// Writes a model as a Hugging Face directory: config.json, generation_config.json and
// model.safetensors, without libtorch.
//
// Thread rule: free functions; a source is called from the calling thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "common/base/status.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {

// Writes the tensor's elements [begin, begin + out.size()), row-major, to `out`.
using TensorSource =
    std::function<void(const TensorSpec& tensor, std::int64_t begin, std::span<float> out)>;

// Begins every config.json and generation_config.json that is written here.
inline constexpr std::string_view kConfigMark = "{\n  \"made_by\": \"outrider\",";

// Writes config.json into a directory, which is made if need be. Refuses a directory that holds
// another program's.
Status write_config(const std::string& directory, const ModelConfig& config,
                    const std::string& dtype);

// Reads the tensors of expected_tensors(config) block by block, so that the model may be larger
// than memory; narrows to `dtype`. Creates the directory if needed. Writes no tokenizer.
Status write_model(const std::string& directory, const ModelConfig& config, DType dtype,
                   const TensorSource& source);

// Reproducible weights of reasonable scale: each element depends on seed, tensor name and index
// alone, on every machine. Matrices are uniform with variance 1 / inputs, biases within 1/2, norms
// within 1/2 of 1, so that each of them affects the logits.
void random_tensor(std::uint64_t seed, const TensorSpec& tensor, std::int64_t begin,
                   std::span<float> out);

inline TensorSource random_source(std::uint64_t seed) {
  return [seed](const TensorSpec& tensor, std::int64_t begin, std::span<float> out) {
    random_tensor(seed, tensor, begin, out);
  };
}

}  // namespace outrider
