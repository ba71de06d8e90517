// Packs a model for streaming, with the tokenizer that it is spoken to with.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/decoding/exits/adapters.h"
#include "common/decoding/request/sampling_defaults.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/model_pack.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

struct PackOptions {
  std::string model;           // a Hugging Face directory or a GGUF file
  std::string out;             // the file; replaced when the new one is whole
  std::string predictor = {};  // directory of what prunes; empty: none
  bool elastic = false;        // level by level, by the table beside the model
  std::string dtype = "auto";  // as stored, "f32", "bf16", "int8", "int4"
  int threads = 0;             // that convert; 0: one per core
  LoadProgress progress = {};
  // Called with messages for the user: what the model loses by its conversion.
  std::function<void(const std::string&)> notice = {};
};

// Errors: those of reading the model; RESOURCE_EXHAUSTED where the disk is full, and no file then.
Status make_pack(const PackOptions& options);

// The files that a pack carries beside the weights: the tokenizer; the adapters of early exits and
// of a predictor, and the model's generation_config.json, if there are any.
Result<Tokenizer> load_tokenizer(const ModelPack& pack);
Result<GenerationDefaults> load_generation_defaults(const ModelPack& pack);
Result<std::optional<ExitAdapters>> load_adapters(const ModelPack& pack);
Result<std::optional<ExitAdapters>> load_predictor(const ModelPack& pack);

}  // namespace outrider
