// A pack: one file with all that a model needs on a device, its matrices ready for the kernels
// (pack/pack_index.h). A layer's matrices lie together, so that they can be streamed in one piece.
//
//   write_model_pack("target.pack", weights, {{"tokenizer.json", text}});
//   auto pack = ModelPack::open("target.pack");
//   CpuWeights weights = *pack->weights();   // mapped: what is not touched is not read
//
// A pack is of one dtype and one version of the kernels, whose layout its matrices have.
//
// Thread rule: immutable once opened. Errors: DATA_LOSS naming the file for what is damaged, cut
// short or of another version; FAILED_PRECONDITION for other kernels, with the remedy.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/cpu/cpu_weights.h"
#include "common/model/cpu/pack/pack_index.h"
#include "common/model/cpu/pack/pack_writer.h"
#include "common/model/format/model_files.h"

namespace outrider {

// A small file beside the weights.
struct PackText {
  std::string name;
  std::string content;
};

// What a pack has beside the weights.
struct PackContents {
  std::span<const PackText> texts;
  // The output matrix also as the model's files have it, where it is not the embedding: early exits
  // read it, in a layout of their own.
  bool for_exits = false;
};

// Writes a pack a layer at a time.
//
//   create add_layer(0) .. add_layer(num_layers - 1) add_layer(num_layers): the output matrix
//   finish
//
// Whole or not at all. Errors: RESOURCE_EXHAUSTED with the system's words.
class ModelPackWriter final {
 public:
  static Result<ModelPackWriter> create(const std::string& path);

  Status add_layer(const CpuWeights& weights, std::int32_t layer);
  // weights: their matrices may be gone.
  Status finish(const CpuWeights& weights, const PackContents& contents);

 private:
  explicit ModelPackWriter(std::unique_ptr<PackWriter> writer) : writer_(std::move(writer)) {}

  std::unique_ptr<PackWriter> writer_;
};

Status write_model_pack(const std::string& path, const CpuWeights& weights,
                        const PackContents& contents);

class ModelPack final {
 public:
  // Whether the file begins as a pack does.
  static bool is_pack(const std::string& path);

  // max_context: as in ModelFilesOptions.
  static Result<ModelPack> open(const std::string& path, std::optional<Position> max_context = {});

  const std::string& path() const { return path_; }
  const ModelConfig& config() const { return files_->config; }
  // With the tensors that are no layer's matrices: the embedding, which may be the output matrix;
  // else that one too, if the pack was made for exits.
  const ModelFiles& files() const { return *files_; }
  // A text of write_model_pack(); nothing if there is none of that name.
  std::optional<std::string_view> text(std::string_view name) const;

  // With matrices that point into the mapped file.
  Result<CpuWeights> weights() const;
  // Where that mapping begins: data - base() is an offset of the file.
  const std::byte* base() const { return bytes_.data(); }
  // Of a layer's matrices; index num_layers: of the output matrix.
  const PackExtent& layer_extent(std::int64_t layer) const;

 private:
  ModelPack() = default;
  Status read_tensors(std::map<std::string, TensorView, std::less<>>& tensors) const;
  Status find_layers();
  const PackMatrix* find(std::string_view name) const;
  Result<WeightMatrix> matrix(ModelPart part, std::int32_t layer) const;

  std::string path_;
  std::span<const std::byte> bytes_;
  PackIndex index_;
  std::vector<std::uint64_t> extents_;  // of the layers and the output matrix
  std::shared_ptr<const ModelFiles> files_;
};

}  // namespace outrider
