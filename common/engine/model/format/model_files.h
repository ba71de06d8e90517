// A model on disk in any format. Only this module distinguishes a GGUF file from a directory.
//
//   auto files = load_model_files("models/demo-target", {});      // a Hugging Face directory
//   auto files = load_model_files("SmolLM2-135M.Q4_1.gguf", {});  // or a directory that holds one
//   const TensorView& q = (*files)->weights.at(weight_name(ModelPart::kQuery, 0));
//
// Thread rule: immutable after loading; read from any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/engine/model/format/config.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/format/weights.h"

namespace outrider {

// A loaded and checked model, from which a backend is made.
struct ModelFiles {
  std::string name;  // the directory's last component, or the GGUF file's name without ".gguf"
  ModelConfig config;
  Weights weights;
  std::string fingerprint;  // fingerprint.h
  // Whose order `weights` have; null: as stored.
  std::shared_ptr<const ElasticTable> elastic = nullptr;
};

struct ModelFilesOptions {
  bool check_finite = false;
  // Lowers config.max_positions. Less than 1 and more than the model's own are refused.
  std::optional<Position> max_context = {};
  bool ignore_eos = false;  // clears config.stop_ids
  // A level table, by whose order the units of the layers are read; empty: as stored.
  std::string elastic = {};
};

// `path`: a Hugging Face directory, a GGUF file, one of its parts, or a directory that holds one.
Result<std::shared_ptr<const ModelFiles>> load_model_files(const std::string& path,
                                                           const ModelFilesOptions& options);

// Applies ModelFilesOptions::max_context.
Status limit_context(std::optional<Position> max_context, ModelConfig& config);

// The same model's config alone.
Result<ModelConfig> load_config(const std::string& path);

// INVALID_ARGUMENT if a model's embedding has fewer rows than its tokenizer has tokens: a text
// could contain a token that the model cannot compute. tokens, rows: numbers of ids.
Status check_vocabulary(const std::string& path, TokenId tokens, TokenId rows);

// The folder of the files that belong to the model at `path`: the directory itself, or the file's
// folder.
std::string folder_of_model(const std::string& path);

}  // namespace outrider
