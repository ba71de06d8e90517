// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/torch/torch_pass.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "common/engine/model/torch/torch_attention.h"

namespace outrider {
namespace {

// MKL computes products of 16 rows or more in one way and of fewer in others, so a tile is never
// smaller. A GPU computes more rows in the time of one.
constexpr std::size_t kCpuTile = 16;
constexpr std::size_t kCudaTile = 64;

// Rows from `begin` on that belong to the cache of the first.
std::size_t run_length(std::span<const Row> rows, std::size_t begin) {
  std::size_t end = begin;
  while (end < rows.size() && rows[end].cache == rows[begin].cache) ++end;
  return end - begin;
}

at::Tensor cell_tensor(std::span<const Row> rows) {
  at::Tensor cells = at::empty({static_cast<std::int64_t>(rows.size())}, at::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i)
    cells.mutable_data_ptr<std::int64_t>()[i] = rows[i].cache->slots().cell(rows[i].slot);
  return cells;
}

}  // namespace

void TorchKvPages::copy(KvCell from, KvCell to, std::int32_t rows) {
  const c10::InferenceMode guard;
  for (std::vector<at::Tensor>* const part : {&keys, &values}) {
    for (at::Tensor& layer : *part) layer.narrow(0, to, rows).copy_(layer.narrow(0, from, rows));
  }
}

TorchPass::TorchPass(const ModelConfig& config, TorchWeights weights, at::Device device,
                     std::unique_ptr<HostCopies> copies)
    : config_(config),
      weights_(std::move(weights)),
      device_(device),
      tile_rows_(device.is_cuda() ? kCudaTile : kCpuTile),
      frequencies_(rope_frequencies(config.rope, config.head_dim)),
      copies_(std::move(copies)) {
  for (const TorchLayer& layer : weights_.layers) {
    const auto found = std::ranges::find(windows_, layer.window);
    window_at_.push_back(static_cast<std::size_t>(found - windows_.begin()));
    if (found == windows_.end()) windows_.push_back(layer.window);
  }
}

// Does not wait for queued work.
at::Tensor TorchPass::to_device(const at::Tensor& x) const {
  return x.to(device_, /*non_blocking=*/true);
}

// Prepares what the layers need, while nothing is queued yet.
void TorchPass::place(std::span<const Row> rows) {
  if (!shown_.empty()) copies_->clear();  // of an earlier pass that failed
  shown_.clear();
  fill_rope(rows);
  cache_rows_.clear();
  for (std::size_t begin = 0; begin < rows.size();) {
    const std::size_t count = run_length(rows, begin);
    const std::span<const std::vector<KvCell>> paths = std::span(paths_).subspan(begin, count);
    CacheRows& part = cache_rows_.emplace_back(
        CacheRows{.pages = static_cast<TorchKvPages*>(&rows[begin].cache->pages()),
                  .from = static_cast<std::int64_t>(begin),
                  .count = static_cast<std::int64_t>(count),
                  .cells = to_device(cell_tensor(rows.subspan(begin, count))),
                  .tables = {}});
    for (const Position window : windows_) {
      part.tables.push_back(to_device(slot_table(paths, window)));
    }
    begin += count;
  }
  std::vector<std::int64_t> wanted;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    if (rows[row].wants_logits) wanted.push_back(static_cast<std::int64_t>(row));
  }
  wanted_ = to_device(at::tensor(wanted, at::kLong));
}

at::Tensor TorchPass::embed(std::span<const Row> rows) const {
  const at::Tensor tokens = at::zeros({static_cast<std::int64_t>(tile_rows_)}, at::kLong);
  for (std::size_t i = 0; i < rows.size(); ++i)
    tokens.mutable_data_ptr<std::int64_t>()[i] = rows[i].token;
  return weights_.embedding.index_select(0, to_device(tokens)).to(at::kFloat);
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
  cos_ = to_device(cos);
  sin_ = to_device(sin);
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

at::Tensor TorchPass::attend(const TorchLayer& layer, std::size_t index,
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
  for (const CacheRows& part : cache_rows_) {
    const auto of_part = [&](const at::Tensor& all) {
      return all.narrow(0, part.from, part.count);
    };
    at::Tensor& keys = part.pages->keys[index];
    at::Tensor& values = part.pages->values[index];
    keys.index_copy_(0, part.cells, of_part(k));
    values.index_copy_(0, part.cells, of_part(v));
    attend_slots({.queries = of_part(q),
                  .keys = keys,
                  .values = values,
                  .table = part.tables[window_at_[index]]},
                 of_part(out));
  }
  return apply(layer.o, out.view({tile, config_.q_size()}));
}

void TorchPass::run_layer(std::size_t index, at::Tensor& x) const {
  const TorchLayer& layer = weights_.layers[index];
  x = x + attend(layer, index, normalize(x, layer.input_norm));
  const at::Tensor normed = normalize(x, layer.attention_norm);
  x = x + apply(layer.down, at::silu(apply(layer.gate, normed)) * apply(layer.up, normed));
}

void TorchPass::show(const at::Tensor& x, std::int32_t layer, const Tapping& tapping) {
  if (wanted_.size(0) == 0) return;
  const ShownLayer shown{layer, x.index_select(0, wanted_).contiguous()};
  const auto* values = shown.values.const_data_ptr<float>();
  if (copies_ == nullptr) return show_to_tap(shown, values, tapping);
  copies_->queue(values, static_cast<std::size_t>(shown.values.numel()));
  shown_.push_back(shown);
}

// Runs while the device computes later layers. What comes after the pass's own results would only
// delay them.
void TorchPass::hand_over(const Tapping& tapping) {
  if (shown_.empty()) return;
  for (std::size_t i = 0; i < shown_.size() && !copies_->is_model_done(); ++i) {
    show_to_tap(shown_[i], copies_->wait(i).data(), tapping);
  }
  copies_->clear();
  shown_.clear();
}

void TorchPass::show_to_tap(const ShownLayer& shown, const float* values,
                            const Tapping& tapping) const {
  tapping.tap->on_layer({.layer = shown.layer,
                         .first = tapping.first,
                         .count = static_cast<std::size_t>(shown.values.size(0)),
                         .width = static_cast<std::size_t>(config_.hidden_size),
                         .values = values,
                         .threads = nullptr});
}

at::Tensor TorchPass::run(std::span<const Row> rows, const Tapping& tapping) {
  place(rows);
  at::Tensor x = embed(rows);
  for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
    const auto layer = static_cast<std::int32_t>(i);
    if (layer > 0 && tapping.tap != nullptr && tapping.tap->wants(layer)) show(x, layer, tapping);
    run_layer(i, x);
  }
  // Normalises the whole tile, whose shape never changes; then only the wanted rows go on.
  at::Tensor logits =
      apply(weights_.head, normalize(x, weights_.final_norm)).index_select(0, wanted_);
  if (weights_.head_tokens.defined()) {
    logits = at::full({logits.size(0), config_.vocab_size}, -std::numeric_limits<float>::infinity(),
                      logits.options())
                 .index_copy_(1, weights_.head_tokens, logits);
  }
  hand_over(tapping);
  return logits.to(at::kCPU).contiguous();
}

}  // namespace outrider
