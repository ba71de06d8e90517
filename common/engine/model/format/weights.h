// The tensors of a model, mapped from its files, not copied, under the names of Hugging Face.
//
// From a directory: `model.safetensors`, or the shards that `model.safetensors.index.json` names,
// all of them plain file names inside the directory. From GGUF: one file or its parts. Headers,
// offsets and shapes are checked before anything is allocated for them (safetensors.h,
// common/engine/gguf).
//
// Ownership: views point into the mapping and are valid during the life of their Weights. Thread
// rule: immutable after loading; read from any thread. Page faults read the disk: keep the
// mapping's first use off latency-critical threads.
//
// A file may be cut short while it is mapped. check_unchanged() finds that, and costs one fstat
// per file: call it before each pass. What a pass copies by read_row() may be cut at any time; in
// the mapping itself, reading past the new end is a SIGBUS. Replacing a file by rename is harmless:
// the mapping keeps the old one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mapped_file.h"
#include "common/base/status.h"
#include "common/engine/gguf/gguf_file.h"
#include "common/engine/model/format/config.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {

class Weights final {
 public:
  // Errors: kNotFound, kInvalidArgument or kDataLoss naming the file and, where there is one, the
  // tensor.
  static Result<Weights> open(const std::string& directory);
  // `config` is that of the same file (gguf_config.h). kDataLoss if a tensor that it requires is
  // missing, or if there is one that the model does not have.
  static Result<Weights> from_gguf(GgufFile file, const ModelConfig& config);

  // Tensors of a mapped file of another kind, read and checked by the caller. Those that a pack
  // stores in another form may be missing.
  static Weights from_views(std::unique_ptr<MappedFile> file, TensorMap tensors);

  // nullptr if there is none of that name.
  const TensorView* find(std::string_view name) const;
  // For a tensor of expected_tensors(), present once arrange() has passed.
  const TensorView& at(std::string_view name) const;

  // Row `index` of one of these matrices as f32. It is copied out of its file first: kDataLoss
  // where reading the mapping would be a SIGBUS.
  Status read_row(const TensorView& matrix, std::int64_t index, std::span<float> out) const;

  // By name.
  const TensorMap& tensors() const { return tensors_; }
  // The bytes of all tensors together.
  std::int64_t num_bytes() const;

  // Replaces the directory's tensors by the model's, which are views of them (stored_tensors.h,
  // quantized_tensors.h).
  // Every tensor that `config` requires must exist with its shape, and there must be no other:
  // ignoring one would silently compute another model. After an error only the message is valid.
  Status arrange(const ModelConfig& config);

  // Gives the units of each layer another order; no value moves. order: [layers], checked
  // (elastic_table.h).
  void reorder(const ModelConfig& config, std::span<const LayerOrder> order);

  // No NaN and no infinity; reads everything. The error names the tensor and the element.
  Status check_finite() const;

  // kDataLoss if a mapped file has changed its size since it was opened.
  Status check_unchanged() const;

  // Forgets the pages of every file (mapped_file.h).
  void forget_pages() const;

 private:
  Weights() = default;
  Status add_file(const std::string& path);
  Status add_shards(const std::string& directory);
  void reorder_layer(const ModelConfig& config, std::int32_t layer, const LayerOrder& order);
  Status take_leftovers(const ModelConfig& config, const TensorMap& left) const;
  Status check_tied(const TensorView& head) const;

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::optional<GgufFile> gguf_;
  TensorMap tensors_;
};

}  // namespace outrider
