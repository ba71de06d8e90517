// A pack: one file with all that a model needs on a device, its matrices ready for the kernels
// (pack/pack_index.h). A layer's matrices lie together, so that they can be streamed in one piece.
//
//   write_model_pack("target.pack", weights, contents);   // model_pack_writer.h
//   auto pack = ModelPack::open("target.pack");
//   CpuWeights weights = *pack->weights();   // mapped: what is not touched is not read
//
// A pack is of one dtype and one version of the kernels, whose layout its matrices have.
//
// A stranger may have written it: nothing of the index is believed that the file or the model's
// config says too.
//
// Thread rule: immutable once opened. Errors: DATA_LOSS naming file, field and value for what is
// damaged, cut short, of another version or not as write_model_pack() writes it;
// FAILED_PRECONDITION for other kernels; both with the remedy.
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

#include "common/base/mapped_file.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/cpu/cpu_weights.h"
#include "common/model/cpu/pack/pack_index.h"
#include "common/model/format/architecture.h"
#include "common/model/format/model_files.h"

namespace outrider {

inline constexpr const char* kPackConfigName = "config.json";

// A pack's tensors in the order of the file: all but the layers' matrices.
struct PackTensors {
  std::vector<TensorSpec> small;  // beside the texts
  std::vector<TensorSpec> large;  // in the last extent: the embedding, and the output matrix
};
// with_head: an output matrix that is not the embedding is there as the model's files have it.
PackTensors pack_tensors(const ModelConfig& config, bool with_head);

class ModelPack final {
 public:
  // Whether the file begins as a pack does.
  static bool is_pack(const std::string& path);

  // Checks every field of the index, against the file, and against the model whose config it holds;
  // compares what it reads, config, texts and small tensors, with its checksum. max_context: as in
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
  const PackExtent& layer_extent(std::int64_t layer) const {
    return index_.extents.at(static_cast<std::size_t>(layer));
  }

 private:
  ModelPack() = default;
  Status check_arithmetic() const;
  Status check_texts() const;
  Status check_matrices(const ModelConfig& config) const;
  Status read_tensors(const ModelConfig& config,
                      std::map<std::string, TensorView, std::less<>>& tensors) const;
  const PackExtent& extent_from_end(std::size_t number) const;

  std::string path_;
  std::span<const std::byte> bytes_;
  PackIndex index_;
  std::vector<std::string> arithmetic_;  // dtype, arithmetic, kernels
  std::shared_ptr<const ModelFiles> files_;
};

}  // namespace outrider
