// Models and optimizer states in files.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "adapters/train/llama.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/engine/model/format/dtype.h"
#include "common/engine/model/format/safetensors_writer.h"

namespace outrider {

// Writes `model` as a Hugging Face directory and copies tokenizer.json and tokenizer_config.json
// from the directory `tokenizer`.
Status save_model(const std::string& directory, const Llama& model, DType dtype,
                  const std::string& tokenizer);

// The same for tensors under Hugging Face's names, without a tokenizer.
Status save_tensors(const std::string& directory, const ModelConfig& config,
                    const NamedTensors& state, DType dtype);
// All tensors except embedding and output matrix, for compose_draft().
Status save_layers(const std::string& directory, const ModelConfig& config,
                   const NamedTensors& state);

// Changes to a loaded model; empty: the model as its files hold it.
struct InitialModel {
  std::vector<std::int32_t> layers = {};  // only these layers, in this order
  std::vector<TokenId> head_tokens = {};  // ModelConfig's
};

// Loads a directory or a GGUF file. Errors: those of load_model_files(); kInvalidArgument for a
// layer that the model does not have.
Result<Llama> load_model(const std::string& path, at::ScalarType compute,
                         const InitialModel& init = {});

// A run that is resumed reads it and goes on with it.
inline constexpr OutputKind kCheckpointFile{
    .name = "a checkpoint of a run", .is_earlier = kSafetensorsFile.is_earlier, .is_state = true};

// f32 tensors as one safetensors file, which replaces the old one at once.
Status write_tensors(const std::string& path, const NamedTensors& tensors);
Result<NamedTensors> read_tensors(const std::string& path);

}  // namespace outrider
