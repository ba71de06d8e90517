// The golden models: small random ones of every family and feature, and the demo models, with
// transformers' logits (make_model_goldens.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/model/format/dtype.h"
#include "common/model/format/weights.h"
#include "common/model/model.h"

namespace outrider {

struct ModelGolden {
  std::string name;
  std::string config_text;  // as transformers wrote it
  DType storage = DType::kF32;
  int num_shards = 1;
  std::vector<TokenId> ids;
  std::vector<Position> positions;  // whose logits are compared
  std::vector<float> logits;        // [positions, vocab]
};

// All random ones; fails the calling test if they cannot be read.
std::vector<ModelGolden> load_model_goldens();

// The demo models': those of models/NAME, so neither config nor storage is set.
std::vector<ModelGolden> load_demo_goldens();

// Writes the golden's model with its config as transformers wrote it, in its number of shards.
void write_golden(const std::string& directory, const ModelGolden& golden);

// Writes it with another config; the tensors of equal names and shapes are the same.
void write_changed(const std::string& directory, const ModelGolden& golden,
                   const ModelConfig& config, DType storage);

// max |difference| / max(1, |logit|) between the model's logits and the golden ones.
double distance(Model& model, const ModelGolden& golden);

// What distance() may be at most for a model that computes the same.
inline constexpr double kGoldenBar = 2e-4;

}  // namespace outrider
