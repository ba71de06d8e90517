// How the tensors of a model lie in its files: some families keep several parts in one tensor,
// matrices the other way round, or norm weights less one.
//
//   for (const StoredTensor& stored : stored_tensors(config, FileKind::kGguf)) {
//     const TensorView& found = file.at(stored.name);  // its shape must be stored.shape
//     for (auto& [name, view] : split(stored, found)) model.emplace(name, view);
//   }
//
// Thread rule: values; free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/tensor_view.h"

namespace outrider {

enum class FileKind : std::uint8_t { kDirectory, kGguf };

// A tensor of a file, and the model's tensors in it. A single matrix is [outputs, inputs], several
// have their rows one after the other; the experts of a GGUF file are [experts, outputs, inputs].
struct StoredTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::vector<TensorSpec> parts;
  bool transposed = false;       // [inputs, outputs]
  float added = 0.0f;            // to each value
  std::int64_t interleaved = 0;  // as in TensorView
};

// In the order of a forward pass.
std::vector<StoredTensor> stored_tensors(const ModelConfig& config, FileKind kind);

// The model's tensors in a file's tensor of the stored shape, by the model's names.
std::vector<std::pair<std::string, TensorView>> split(const StoredTensor& stored,
                                                      const TensorView& tensor);

}  // namespace outrider
