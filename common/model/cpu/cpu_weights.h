// A model's weights as the cpu kernels take them: mapped as stored, or converted when loaded.
//
// f32, bf16 and f16 matrices stay where the files are mapped and are widened in registers, exactly;
// so a bf16 file gives the same bits under --dtype f32 and bf16. int8, and bf16 from a wider file,
// are converted copies; the pages of their sources are handed back as soon as they are read.
//
// Thread rule: immutable once made. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/model/cpu/anonymous_memory.h"
#include "common/model/cpu/kernels.h"
#include "common/model/format/weights.h"

namespace outrider {

// kAuto: as stored (f16 counts as f32).
enum class ComputeType : std::uint8_t { kAuto, kF32, kBf16, kInt8 };

// "auto", "f32", "bf16" or "int8"; else INVALID_ARGUMENT.
Result<ComputeType> parse_compute_type(std::string_view name);

struct LinearWeights {
  WeightMatrix matrix;
  std::vector<float> bias;  // [outputs] or empty
};

struct CpuLayer {
  std::vector<float> attention_norm;  // [hidden]
  LinearWeights q, k, v, o;
  std::vector<float> q_norm, k_norm;  // [head_dim] or empty
  std::vector<float> mlp_norm;        // [hidden]
  LinearWeights gate, up, down;
  std::int64_t window = 0;  // positions seen; 0: all
};

// Called from the loading thread as matrices are converted, with bytes read so far and in all.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

struct CpuWeights {
  std::shared_ptr<const ModelFiles> files;  // keeps the mapping
  TensorView embedding;                     // [vocab, hidden], read a row at a time
  std::vector<CpuLayer> layers;
  std::vector<float> final_norm;
  LinearWeights head;
  bool quantized = false;  // matrices are int8
  std::string dtype;       // "f32", "bf16", "int8"
  std::string arithmetic;  // "exact" (every weight as stored), "bf16", "int8"
  std::int64_t bytes_per_pass = 0;
  std::vector<AnonymousMemory> converted;
};

// Where a matrix lies; int8 scales directly follow the values.
std::span<const std::byte> memory_of(const WeightMatrix& matrix);

// How many bytes of it fill rows up to whole blocks: values and scales that no weight has.
std::int64_t padding_of(const WeightMatrix& matrix);

// Uses the pool for conversions only.
class CpuWeightsLoader final {
 public:
  CpuWeightsLoader(const Kernels& kernels, ThreadPool& pool, LoadProgress progress)
      : kernels_(kernels), pool_(pool), progress_(std::move(progress)) {}

  // Errors: RESOURCE_EXHAUSTED if converted weights do not fit.
  Result<CpuWeights> load(std::shared_ptr<const ModelFiles> files, ComputeType type);

 private:
  Status load_layer(std::int64_t index, CpuLayer& layer);
  Status load_linear(const std::string& name, bool has_bias, LinearWeights& out);
  std::vector<float> load_vector(const std::string& name);
  Status convert(const TensorView& source, WeightMatrix& matrix);
  void convert_rows(const TensorView& source, const WeightMatrix& matrix, Outputs rows);

  const Kernels& kernels_;
  ThreadPool& pool_;
  LoadProgress progress_;
  ComputeType type_ = ComputeType::kAuto;
  std::int64_t bytes_read_ = 0;
  CpuWeights weights_;
};

}  // namespace outrider
