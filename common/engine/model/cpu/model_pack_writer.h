// Writes packs (model_pack.h).
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/pack/pack_writer.h"

namespace outrider {

// A small file beside the weights.
struct PackText {
  std::string name;
  std::string content;
};

// Contents of a pack besides the weights.
struct PackContents {
  std::span<const PackText> texts;
  // Includes the output matrix in the type of the model's files, if it is not the embedding: early
  // exits read it in a layout of their own.
  bool for_exits = false;
};

// Writes a pack a layer at a time.
//
//   create add_layer(0) .. add_layer(num_layers - 1) add_layer(num_layers): the output matrix
//   finish
//
// The file is written completely or not at all. Errors: RESOURCE_EXHAUSTED with the system's
// reason.
class ModelPackWriter final {
 public:
  static Result<ModelPackWriter> create(const std::string& path);

  Status add_layer(const CpuWeights& weights, std::int32_t layer);
  // weights: their matrices need not exist any more.
  Status finish(const CpuWeights& weights, const PackContents& contents);

 private:
  explicit ModelPackWriter(std::unique_ptr<PackWriter> writer) : writer_(std::move(writer)) {}

  std::unique_ptr<PackWriter> writer_;
};

Status write_model_pack(const std::string& path, const CpuWeights& weights,
                        const PackContents& contents);

}  // namespace outrider
