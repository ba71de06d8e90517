// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/fingerprint.h"

#include <algorithm>
#include <vector>

#include "common/base/sha256.h"
#include "common/engine/model/format/architecture.h"

namespace outrider {
namespace {

constexpr std::size_t kBlockBytes = 4096;
constexpr std::size_t kNumBlocks = 16;

// Length first, so that different lists of fields give different bytes.
void add_field(Sha256& hash, std::string_view field) {
  hash.update(std::to_string(field.size()) + ":");
  hash.update(field);
}

void add_content(Sha256& hash, std::span<const std::byte> content) {
  const std::string_view bytes(reinterpret_cast<const char*>(content.data()), content.size());
  if (bytes.size() <= kBlockBytes * kNumBlocks) {
    hash.update(bytes);
    return;
  }
  const std::size_t last = bytes.size() - kBlockBytes;
  for (std::size_t block = 0; block < kNumBlocks; ++block) {
    const std::size_t begin = last / (kNumBlocks - 1) * block;
    hash.update(bytes.substr(block + 1 == kNumBlocks ? last : begin, kBlockBytes));
  }
}

// A quantised matrix by what its values depend on.
void add_quantized(Sha256& hash, const QuantizedMatrix& matrix) {
  add_field(hash, to_string(matrix.method));
  add_field(hash, to_string(matrix.scale_dtype));
  for (const std::int64_t number :
       {std::int64_t{matrix.bits}, matrix.first_output, matrix.stored_outputs, matrix.group_size,
        matrix.group_outputs, std::int64_t{matrix.zeros_less_one}}) {
    add_field(hash, std::to_string(number));
  }
  for (const auto part : {matrix.numbers, matrix.zeros, matrix.scales, matrix.group_ids}) {
    add_field(hash, std::to_string(part.size()));
    add_content(hash, part);
  }
}

// A transposed matrix by the values of some rows, in the model's order.
void add_rows(Sha256& hash, const TensorView& tensor) {
  const std::int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  constexpr std::int64_t kRows = kNumBlocks;
  std::vector<float> values(static_cast<std::size_t>(columns));
  for (std::int64_t i = 0; i < std::min(rows, kRows); ++i) {
    widen(tensor, (rows <= kRows ? i : (rows - 1) * i / (kRows - 1)) * columns, values);
    hash.update({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
}

}  // namespace

std::string model_fingerprint(const ModelConfig& config, const Weights& weights) {
  Sha256 hash;
  add_field(hash, "outrider model 1");
  Json canonical = config_to_json(config, "");  // its keys are sorted
  canonical.erase("eos_token_id");
  canonical.erase("torch_dtype");
  add_field(hash, canonical.dump());
  for (const TensorSpec& spec : expected_tensors(config)) {
    const TensorView& tensor = weights.at(spec.name);
    add_field(hash, spec.name);
    add_field(hash, to_string(tensor.dtype));
    for (const std::int64_t size : tensor.shape) add_field(hash, std::to_string(size));
    if (tensor.interleaved > 0) add_field(hash, "interleaved");
    if (tensor.added != 0.0f) add_field(hash, "less " + std::to_string(tensor.added));
    if (tensor.quantized != nullptr) {
      add_quantized(hash, *tensor.quantized);
    } else if (tensor.transposed == 0) {
      add_content(hash, {tensor.data, tensor.num_bytes});
    } else {
      add_rows(hash, tensor);
    }
  }
  return hash.finish_hex();
}

std::string level_fingerprint(std::string_view model, std::string_view level) {
  Sha256 hash;
  add_field(hash, "outrider level 1");
  add_field(hash, model);
  add_field(hash, level);
  return hash.finish_hex();
}

std::string arithmetic_id(const Arithmetic& arithmetic) {
  Sha256 hash;
  add_field(hash, "outrider arithmetic 1");
  add_field(hash, arithmetic.fingerprint);
  add_field(hash, arithmetic.dtype);
  add_field(hash, arithmetic.kernel_version);
  add_field(hash, arithmetic.device_class);
  if (!arithmetic.order.empty()) add_field(hash, arithmetic.order);
  return hash.finish_hex();
}

}  // namespace outrider
