// A trainable exit in libtorch (common/decoding/exits/adapters.h has its formula): an adapter
// before the target's output matrix, or an output matrix of its own. At the start it changes
// nothing: `up` is zero, or the matrix is the target's.
//
// Thread rule: one thread. Errors of libtorch are exceptions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

#include "adapters/train/llama.h"
#include "common/base/status.h"
#include "common/decoding/exits/adapters.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {

// The head that exits share with their target. It is never trained.
struct FrozenHead {
  at::Tensor final_norm;  // [hidden] f32
  at::Tensor head;        // [vocab, hidden], in the compute type
  double epsilon = 1e-6;
};

FrozenHead frozen_head(const ModelFiles& target, at::ScalarType compute);

class ExitModule final {
 public:
  ExitModule(std::int32_t layer, std::int64_t hidden, std::int64_t bottleneck, std::uint64_t seed);
  // With its own output matrix, which starts as a copy of `head`.
  ExitModule(std::int32_t layer, const FrozenHead& head);

  std::int32_t layer() const { return layer_; }

  // hidden: [n, hidden] f32, without gradients -> [n, vocab] in the head's type.
  at::Tensor logits(const at::Tensor& hidden, const FrozenHead& head) const;

  // Leaves that require gradients: "exits.<layer>.norm", ".down", ".up"; or ".head".
  const NamedTensors& parameters() const { return parameters_; }
  // Throws if a tensor of parameters() is missing or has another shape.
  void load(const NamedTensors& tensors);

  ExitAdapter adapter() const;

 private:
  void add_parameter(const char* name, at::Tensor& tensor);

  std::int32_t layer_;
  at::Tensor norm_;  // [hidden]
  at::Tensor down_;  // [bottleneck, hidden]
  at::Tensor up_;    // [hidden, bottleneck]
  at::Tensor head_;  // [tokens, hidden]; if defined, the others are not
  NamedTensors parameters_;
};

enum class ExitLoss : std::uint8_t {
  kCrossEntropy,  // with the text's next token
  kDivergence,    // KL from the target's final distribution
};

struct ExitTargets {
  at::Tensor logits;  // [n, vocab] f32: of the target
  at::Tensor next;    // [n] int64: of the text
};

// Mean over rows. kDivergence adds `greedy_weight` times the cross entropy with the target's
// likeliest token, which is what greedy verification compares.
at::Tensor exit_loss(const at::Tensor& logits, const ExitTargets& targets, ExitLoss loss,
                     double greedy_weight);

}  // namespace outrider
