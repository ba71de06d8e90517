// A pack: one file with all that a model needs on a device, its matrices ready for the kernels
// (pack/pack_index.h). A layer's matrices lie together, so that they can be streamed in one piece.
//
//   write_model_pack("target.pack", weights, contents);   // model_pack_writer.h
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
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/cpu/cpu_weights.h"
#include "common/model/cpu/pack/pack_index.h"
#include "common/model/format/architecture.h"
#include "common/model/format/model_files.h"

namespace outrider {

inline constexpr const char* kPackConfigName = "config.json";

// Of those that stand in a layer's place of a pack, and not among the tensors.
bool is_layer_matrix(const TensorSpec& spec);

class ModelPack final {
 public:
  // Whether the file begins as a pack does.
  static bool is_pack(const std::string& path);

  // Compares what it reads, config, texts and small tensors, with its checksum. max_context: as in
  // ModelFilesOptions.
  static Result<ModelPack> open(const std::string& path, std::optional<Position> max_context = {});

  // Compares the large tensors with their checksum, which takes as long as reading them: to be done
  // before their first use, in any thread. DATA_LOSS.
  Status check_tensors() const;

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
  bool holds_files(std::uint64_t extent) const;
  Status check_files() const;
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
