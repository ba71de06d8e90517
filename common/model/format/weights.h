// The tensors of a model directory, mapped from safetensors files, not copied.
//
// `model.safetensors`, or the shards that `model.safetensors.index.json` names, all of them plain
// file names inside the directory. Headers, offsets and shapes are checked before anything is
// mapped or allocated (safetensors.h).
//
//   auto files = load_model_files("models/demo-target", {});
//   const TensorView& q = (*files)->weights.at("model.layers.0.self_attn.q_proj.weight");
//
// Ownership: views point into the mapping and live as long as their Weights. Thread rule: immutable
// after loading; read from any thread. Page faults read the disk: keep the mapping's first touch
// off latency-critical threads.
//
// Files cut short while mapped: reading past the new end would be a SIGBUS. check_unchanged() costs
// one fstat per file and belongs before each pass, so that a cut file is an error in all but the
// window of the pass itself. A file replaced by rename is harmless: the mapping keeps the old one.
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
#include "common/model/format/config.h"
#include "common/model/format/dtype.h"
#include "common/model/format/mapped_file.h"

namespace outrider {

// A tensor, row-major and contiguous, aligned to its element.
struct TensorView {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;
  std::size_t num_bytes = 0;

  std::int64_t num_elements() const {
    return static_cast<std::int64_t>(num_bytes / dtype_size(dtype));
  }
};

// Writes the tensor's elements [begin, begin + out.size()) as f32; exact for every DType.
void widen(const TensorView& tensor, std::int64_t begin, std::span<float> out);

class Weights final {
 public:
  // Errors: kNotFound, kInvalidArgument or kDataLoss naming the file and, where there is one, the
  // tensor.
  static Result<Weights> open(const std::string& directory);

  // nullptr if there is none of that name.
  const TensorView* find(std::string_view name) const;
  // For a tensor of expected_tensors(), present once check_shapes() has passed.
  const TensorView& at(std::string_view name) const;

  // By name.
  const std::map<std::string, TensorView, std::less<>>& tensors() const { return tensors_; }
  // Of all tensors together.
  std::int64_t num_bytes() const;

  // Every tensor that `config` needs is there with its shape, and there is none that such a model
  // does not know: leaving one unused would compute another model in silence.
  Status check_shapes(const ModelConfig& config) const;

  // No NaN and no infinity; reads everything. The error names the tensor and the element.
  Status check_finite() const;

  // kDataLoss if a mapped file has changed its size since it was opened.
  Status check_unchanged() const;

 private:
  Weights() = default;
  Status add_file(const std::string& path);
  Status add_shards(const std::string& directory);
  Status check_tied(const TensorView& head) const;

  std::vector<std::unique_ptr<MappedFile>> files_;
  std::map<std::string, TensorView, std::less<>> tensors_;
};

// A loaded and checked model directory: what a backend is made from.
struct ModelFiles {
  std::string name;  // the directory's last component
  ModelConfig config;
  Weights weights;
  std::string fingerprint;  // fingerprint.h
};

struct ModelFilesOptions {
  bool check_finite = false;
  // Lowers config.max_positions. Less than 1 and more than the model's own are refused.
  std::optional<Position> max_context = {};
  bool ignore_eos = false;  // clears config.stop_ids
};

Result<std::shared_ptr<const ModelFiles>> load_model_files(const std::string& directory,
                                                           const ModelFilesOptions& options);

}  // namespace outrider
