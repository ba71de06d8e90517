// The golden models: small random ones of every family and feature, and the demo models, with
// transformers' logits (make_model_goldens.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/engine/model/format/dtype.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/model.h"

namespace outrider {

struct ModelGolden {
  std::string name;
  std::string config_text;  // as transformers wrote it
  DType storage = DType::kF32;
  int num_shards = 1;
  std::vector<TokenId> ids;
  std::vector<Position> positions;  // whose logits are compared
  std::vector<float> logits;        // [positions, vocab / stride], rounded up
  std::size_t stride = 1;           // the first logit of each that many is kept
};

// All random ones; fails the calling test if they cannot be read.
std::vector<ModelGolden> load_model_goldens();

// The demo models': those of models/NAME, so neither config nor storage is set.
std::vector<ModelGolden> load_demo_goldens();

// A small GGUF file (make_gguf_goldens.py), with the values of its tensors.
struct GgufGolden {
  std::string path;
  ModelGolden model;  // neither config nor storage is set
  struct Tensor {
    std::string type;    // "Q4_1"
    std::string sha256;  // of its values as f32, in the order of the file
  };
  std::map<std::string, Tensor> tensors;  // by their names in the file
};

std::vector<GgufGolden> load_gguf_goldens();

// Some of a large model's logits, as reference_logits.py keeps them in gguf/NAME.npy.
ModelGolden load_sampled_golden(const std::string& name, std::int32_t vocab_size);

// Writes the golden's model with its config as transformers wrote it, in its number of shards.
void write_golden(const std::string& directory, const ModelGolden& golden);

// Writes it with another config; the tensors of equal names and shapes are the same.
void write_changed(const std::string& directory, const ModelGolden& golden,
                   const ModelConfig& config, DType storage);

// max |difference| / max(1, |logit|) between the model's logits and the golden ones.
double distance(Model& model, const ModelGolden& golden);

// The largest distance() of a model that computes the same.
inline constexpr double kGoldenBar = 2e-4;

}  // namespace outrider
