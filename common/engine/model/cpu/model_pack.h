// A pack: one file with everything that a model needs on a device, its matrices in the kernels'
// layout (pack/pack_index.h). A layer's matrices are contiguous, so that they can be streamed in
// one piece, except its experts: each is a piece of its own. Of an elastic model, a layer is a
// piece for each level, from the smallest on (level_parts.h): a level is the first of them.
//
//   write_model_pack("target.pack", weights, contents);   // model_pack_writer.h
//   auto pack = ModelPack::open("target.pack");
//   CpuWeights weights = *pack->weights();   // mapped: unused parts are not read
//
// A pack has one dtype, and the layout of one version of the kernels.
//
// Packs are not trusted: each value of the index is checked against the file and the model's
// config.
//
// Thread rule: immutable once opened. Errors: DATA_LOSS naming file, field and value for a pack
// that is damaged, cut short, of another version or not as write_model_pack() writes it;
// FAILED_PRECONDITION for other kernels; both with the remedy. SPDX-License-Identifier: Apache-2.0
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

#include "common/base/mapped_file.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/level_parts.h"
#include "common/engine/model/cpu/pack/pack_index.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {

inline constexpr const char* kPackConfigName = "config.json";

// A pack's tensors in the order of the file, without the layers' matrices.
struct PackTensors {
  std::vector<TensorSpec> small;  // stored beside the texts
  std::vector<TensorSpec> large;  // in the last extent: the embedding, and the output matrix
};
// with_head: includes an output matrix that is not the embedding, in the type of the model's files.
PackTensors pack_tensors(const ModelConfig& config, bool with_head);

class ModelPack final {
 public:
  // Whether the file has a pack's magic number.
  static bool is_pack(const std::string& path);

  // Checks every field of the index against the file and the config in it; checks the checksum of
  // config, texts and small tensors. max_context: as in ModelFilesOptions.
  static Result<ModelPack> open(const std::string& path, std::optional<Position> max_context = {});

  // Checks the checksum of the large tensors, which takes as long as reading them. Call it before
  // their first use, from any thread. DATA_LOSS.
  Status check_tensors() const;

  const std::string& path() const { return path_; }
  const ModelConfig& config() const { return files_->config; }
  // The files with the tensors that are not in layers: the embedding, and the output matrix if it
  // is another one and the pack was made for exits.
  const ModelFiles& files() const { return *files_; }
  // A text of write_model_pack(); nothing for another name.
  std::optional<std::string_view> text(std::string_view name) const;
  std::vector<std::string> text_names() const;

  // Weights whose matrices point into the mapped file.
  Result<CpuWeights> weights() const;
  // The start of the mapping: data - base() is an offset in the file.
  const std::byte* base() const { return bytes_.data(); }
  // The extent of a layer's matrices without its experts; index num_layers: of the output matrix.
  // place: of the extents of a layer's levels, the smallest level's first.
  const PackExtent& layer_extent(std::int64_t layer, std::size_t place = 0) const {
    return extent(layer, place);
  }
  const PackExtent& expert_extent(std::int64_t layer, std::int32_t expert) const {
    return extent(layer, 1 + static_cast<std::size_t>(expert));
  }
  // Null: it has no levels.
  const ElasticTable* elastic() const { return elastic_.get(); }

 private:
  ModelPack() = default;
  Status check_arithmetic() const;
  Status check_texts() const;
  Status read_elastic(const ModelConfig& config);
  Status check_matrices(const ModelConfig& config) const;
  Status check_matrix(const PackMatrix& matrix, const std::string& name, std::size_t extent,
                      const std::vector<std::int64_t>& shape) const;
  Status check_matrix_count(std::size_t wanted, std::int32_t layers) const;
  Status check_level_parts(const ModelConfig& config) const;
  std::vector<LinearWeights> matrices_by_level(std::size_t layer,
                                               std::vector<PackMatrix>::const_iterator& next) const;
  Status read_tensors(const ModelConfig& config,
                      std::map<std::string, TensorView, std::less<>>& tensors) const;
  const PackExtent& extent_from_end(std::size_t number) const;
  // The number of a layer's first extent: those of its experts, or of its further levels, follow.
  // num_layers stands for the output matrix.
  std::size_t extent_number(const ModelConfig& config, std::int64_t layer) const {
    const std::size_t in_layer =
        elastic_ ? elastic_->levels.size() : 1 + static_cast<std::size_t>(config.experts.count);
    return static_cast<std::size_t>(layer) * in_layer;
  }
  const PackExtent& extent(std::int64_t layer, std::size_t place) const {
    return index_.extents.at(extent_number(config(), layer) + place);
  }

  std::string path_;
  std::span<const std::byte> bytes_;
  PackIndex index_;
  std::vector<std::string> arithmetic_;          // dtype, arithmetic, kernels
  std::shared_ptr<const ElasticTable> elastic_;  // null: it has no levels
  std::vector<std::vector<LevelPart>> parts_;    // by layer, where it has levels
  std::shared_ptr<const ModelFiles> files_;
};

}  // namespace outrider
