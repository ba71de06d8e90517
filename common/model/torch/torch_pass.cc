// SPDX-License-Identifier: Apache-2.0
#include "common/model/torch/torch_pass.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/model/torch/torch_attention.h"

namespace outrider {
namespace {

// MKL computes products of 16 rows or more in one way and of fewer in others: a tile is never
// smaller. A GPU has the time for more rows at the cost of one.
constexpr std::size_t kCpuTile = 16;
constexpr std::size_t kCudaTile = 64;

// Rows from `begin` on that belong to the cache of the first.
std::size_t run_length(std::span<const Row> rows, std::size_t begin) {
  std::size_t end = begin;
  while (end < rows.size() && rows[end].cache == rows[begin].cache) ++end;
  return end - begin;
}

at::Tensor slot_tensor(std::span<const Row> rows, at::Device device) {
  const at::Tensor slots = at::empty({static_cast<std::int64_t>(rows.size())}, at::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i)
    slots.mutable_data_ptr<std::int64_t>()[i] = rows[i].slot;
  return slots.to(device);
}

}  // namespace

TorchPass::TorchPass(const ModelConfig& config, TorchWeights weights, at::Device device)
    : config_(config),
      weights_(std::move(weights)),
      device_(device),
      tile_rows_(device.is_cuda() ? kCudaTile : kCpuTile),
      frequencies_(rope_frequencies(config.rope, config.head_dim)) {}

at::Tensor TorchPass::embed(std::span<const Row> rows) const {
  const at::Tensor tokens = at::zeros({static_cast<std::int64_t>(tile_rows_)}, at::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i)
    tokens.mutable_data_ptr<std::int64_t>()[i] = rows[i].token;
  return weights_.embedding.index_select(0, tokens.to(device_)).to(at::kFloat);
}

// The angle is rounded to f32 before its sine is taken, as in transformers.
void TorchPass::fill_rope(std::span<const Row> rows) {
  const auto half = static_cast<std::int64_t>(frequencies_.size());
  const at::Tensor cos = at::zeros({static_cast<std::int64_t>(tile_rows_), 1, half});
  const at::Tensor sin = at::zeros_like(cos);
  paths_.resize(rows.size());
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const KvSlots& slots = rows[row].cache->slots();
    slots.path(rows[row].slot, paths_[row]);
    const auto position = static_cast<float>(slots.position(rows[row].slot));
    for (std::size_t i = 0; i < frequencies_.size(); ++i) {
      const float angle = position * frequencies_[i];
      cos.mutable_data_ptr<float>()[row * frequencies_.size() + i] = std::cos(angle);
      sin.mutable_data_ptr<float>()[row * frequencies_.size() + i] = std::sin(angle);
    }
  }
  cos_ = cos.to(device_);
  sin_ = sin.to(device_);
}

at::Tensor TorchPass::apply(const TorchLinear& linear, const at::Tensor& x) const {
  const at::Tensor y = at::mm(x.to(linear.weight.scalar_type()), linear.weight.t()).to(at::kFloat);
  return linear.bias.defined() ? y + linear.bias : y;
}

at::Tensor TorchPass::normalize(const at::Tensor& x, const at::Tensor& weight) const {
  const at::Tensor mean_square = x.square().mean(-1, /*keepdim=*/true);
  return x * at::rsqrt(mean_square + config_.rms_norm_eps) * weight;
}

// heads: [tile, heads, head_dim]. Elements i and i + head_dim / 2 are a pair.
at::Tensor TorchPass::rotate(const at::Tensor& heads) const {
  const std::int64_t half = config_.head_dim / 2;
  const at::Tensor a = heads.narrow(-1, 0, half);
  const at::Tensor b = heads.narrow(-1, half, half);
  return at::cat({a * cos_ - b * sin_, b * cos_ + a * sin_}, -1);
}

at::Tensor TorchPass::attend(const TorchLayer& layer, std::size_t index, std::span<const Row> rows,
                             const at::Tensor& x) const {
  const auto tile = static_cast<std::int64_t>(tile_rows_);
  at::Tensor q = apply(layer.q, x).view({tile, config_.num_heads, config_.head_dim});
  at::Tensor k = apply(layer.k, x).view({tile, config_.num_kv_heads, config_.head_dim});
  const at::Tensor v = apply(layer.v, x).view({tile, config_.num_kv_heads, config_.head_dim});
  if (layer.q_norm.defined()) {
    q = normalize(q, layer.q_norm);
    k = normalize(k, layer.k_norm);
  }
  q = rotate(q);
  k = rotate(k);
  const at::Tensor out = at::zeros({tile, config_.num_heads, config_.head_dim}, q.options());
  // A row sees rows of its own cache only, and all their keys are written before any is read.
  for (std::size_t begin = 0; begin < rows.size();) {
    const std::size_t count = run_length(rows, begin);
    auto& cache = static_cast<TorchKvCache&>(*rows[begin].cache);
    const at::Tensor slots = slot_tensor(rows.subspan(begin, count), device_);
    const auto from = static_cast<std::int64_t>(begin);
    const auto number = static_cast<std::int64_t>(count);
    cache.keys[index].index_copy_(0, slots, k.narrow(0, from, number));
    cache.values[index].index_copy_(0, slots, v.narrow(0, from, number));
    attend_slots({.queries = q.narrow(0, from, number),
                  .keys = cache.keys[index],
                  .values = cache.values[index],
                  .paths = std::span(paths_).subspan(begin, count),
                  .window = layer.window},
                 out.narrow(0, from, number));
    begin += count;
  }
  return apply(layer.o, out.view({tile, config_.q_size()}));
}

void TorchPass::run_layer(std::size_t index, std::span<const Row> rows, at::Tensor& x) const {
  const TorchLayer& layer = weights_.layers[index];
  x = x + attend(layer, index, rows, normalize(x, layer.input_norm));
  const at::Tensor normed = normalize(x, layer.attention_norm);
  x = x + apply(layer.down, at::silu(apply(layer.gate, normed)) * apply(layer.up, normed));
}

// A device waits here for its own work so far: a few rows of one layer, copied to the cpu.
void TorchPass::show(const at::Tensor& x, std::span<const Row> rows, std::int32_t layer,
                     const Tapping& tapping) const {
  std::vector<std::int64_t> wanted;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].wants_logits) wanted.push_back(static_cast<std::int64_t>(row));
  }
  if (wanted.empty()) return;
  const at::Tensor places = at::tensor(wanted, at::kLong).to(device_);
  const at::Tensor values = x.index_select(0, places).to(at::kCPU).contiguous();
  tapping.tap->on_layer({.layer = layer,
                         .first = tapping.first,
                         .count = wanted.size(),
                         .width = static_cast<std::size_t>(config_.hidden_size),
                         .values = values.const_data_ptr<float>(),
                         .threads = nullptr});
}

at::Tensor TorchPass::run(std::span<const Row> rows, const Tapping& tapping) {
  fill_rope(rows);
  at::Tensor x = embed(rows);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const auto layer = static_cast<std::int32_t>(i);
    if (layer > 0 && tapping.tap != nullptr && tapping.tap->wants(layer)) {
      show(x, rows, layer, tapping);
    }
    run_layer(i, rows, x);
  }
  return apply(weights_.head, normalize(x, weights_.final_norm)).to(at::kCPU).contiguous();
}

}  // namespace outrider
