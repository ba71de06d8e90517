// How a model is split among devices (tensor parallelism, by outputs alone): each has some outputs
// of every matrix, and whole heads. It reads whole rows of activations, so every sum is made on one
// device in the order that it has on one alone: the number of devices changes no bit.
//
// Parts are whole panels and whole groups of quantised rows; where a model has fewer of them than
// there are devices, some devices have none.
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "common/engine/model/cpu/kernels/quant_format.h"
#include "common/engine/model/format/config.h"

namespace outrider::cuda {

// A part of something that devices share: [begin, end).
struct Share {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t count() const { return end - begin; }
};

class DeviceSplit final {
 public:
  DeviceSplit(const ModelConfig& config, int devices) : config_(config), devices_(devices) {
    const std::int64_t queries = config.q_size() / config.num_kv_heads;
    kv_head_unit_ =
        std::lcm(kQuantGroup / std::gcd(queries, kQuantGroup),
                 kPanelOutputs / std::gcd<std::int64_t>(config.head_dim, kPanelOutputs));
  }

  int devices() const { return devices_; }
  Share kv_heads(int device) const { return share(config_.num_kv_heads, kv_head_unit_, device); }
  // Outputs of q, and columns of what attention gives.
  Share queries(int device) const {
    const Share heads = kv_heads(device);
    const std::int64_t each = config_.q_size() / config_.num_kv_heads;
    return {heads.begin * each, heads.end * each};
  }
  // Outputs of k and of v.
  Share keys(int device) const {
    const Share heads = kv_heads(device);
    return {heads.begin * config_.head_dim, heads.end * config_.head_dim};
  }
  // Outputs of the matrices whose sums are added to the residual stream.
  Share hidden(int device) const { return share(config_.hidden_size, kQuantGroup, device); }
  // Outputs of gate and up.
  Share inner(int device) const { return share(config_.intermediate_size, kQuantGroup, device); }
  // Outputs of the last matrix.
  Share head(int device) const { return share(config_.head_size(), kQuantGroup, device); }

 private:
  // Splits as evenly as whole units allow.
  Share share(std::int64_t count, std::int64_t unit, int device) const {
    const std::int64_t units = (count + unit - 1) / unit;
    const auto border = [&](std::int64_t at) {
      return std::min(units * at / devices_ * unit, count);
    };
    return {border(device), border(device + 1)};
  }

  const ModelConfig& config_;
  int devices_;
  std::int64_t kv_head_unit_;
};

}  // namespace outrider::cuda
