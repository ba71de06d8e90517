// Models and optimizer states in files.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "adapters/train/llama.h"
#include "common/base/status.h"
#include "common/model/format/dtype.h"

namespace outrider {

// Writes `model` as a Hugging Face directory and copies tokenizer.json and tokenizer_config.json
// from the directory `tokenizer`.
Status save_model(const std::string& directory, const Llama& model, DType dtype,
                  const std::string& tokenizer);

// A model directory of the kind that Llama supports. Errors: those of load_model_files(), and
// kUnimplemented for another architecture.
Result<Llama> load_model(const std::string& directory, at::ScalarType compute);

// f32 tensors as one safetensors file, never half written.
Status write_tensors(const std::string& path, const NamedTensors& tensors);
Result<NamedTensors> read_tensors(const std::string& path);

}  // namespace outrider
