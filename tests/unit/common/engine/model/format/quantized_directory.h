// Random models as AutoAWQ, GPTQ and FP8 checkpoints lie on disk, and the same ones with the
// weights that those formats mean, computed in f64. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/engine/model/format/config.h"
#include "common/engine/model/format/dtype.h"

namespace outrider {

struct QuantizedKind {
  std::string name;
  std::string architecture = "llama";
  QuantMethod method = QuantMethod::kAwq;
  int bits = 4;
  std::int64_t group_size = 32;  // -1: all inputs
  DType scale_dtype = DType::kF16;
  bool symmetric = false;
  bool format_2 = false;   // GPTQ: zero points as they are
  bool act_order = false;  // GPTQ: groups of inputs in any order
  // FP8: "block", "channel" or "tensor"; of compressed-tensors, or of fp8.
  std::string strategy = {};
  bool compressed = false;
};

// The parts that a test may change before the directory is written.
struct QuantizedDirectory {
  struct Tensor {
    DType dtype = DType::kF32;
    std::vector<std::int64_t> shape;
    std::string bytes;
  };

  ModelConfig config;
  Json json;  // config.json
  std::map<std::string, Tensor> tensors;
  // The quantised matrices by the model's names, [outputs, inputs]: the nearest f32.
  std::map<std::string, std::vector<float>> weights;

  // All of the directory's tensors in f32, by their names and in the order of files.
  std::map<std::string, std::vector<float>> plain;

  void write(const std::string& directory) const;
  // The same model in f32.
  void write_plain(const std::string& directory) const;
};

QuantizedDirectory random_quantized(const QuantizedKind& kind);

}  // namespace outrider
