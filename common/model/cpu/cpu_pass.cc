// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/cpu_pass.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace outrider {
namespace {

// Outputs of a matrix are handed to threads in multiples of this.
constexpr std::int64_t kOutputGrain = 16;

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

CpuPass::CpuPass(const CpuWeights& weights, const Kernels& kernels, ThreadPool& pool)
    : weights_(weights),
      config_(weights.files->config),
      kernels_(kernels),
      pool_(pool),
      rope_(rope_frequencies(config_.rope, config_.head_dim)),
      heads_(config_.num_heads),
      kv_heads_(config_.num_kv_heads),
      head_dim_(config_.head_dim),
      head_stride_(pad_to_lanes(head_dim_)),
      hidden_stride_(pad_to_lanes(config_.hidden_size)),
      query_size_(config_.q_size()),
      kv_size_(config_.kv_size()),
      epsilon_(static_cast<float>(config_.rms_norm_eps)) {
  const auto size_activations = [](Activations& x, std::int64_t count) {
    x.count = count;
    x.stride = pad_to_lanes(count);
  };
  size_activations(normed_, config_.hidden_size);
  size_activations(attended_, query_size_);
  size_activations(gate_, config_.intermediate_size);
}

std::optional<std::size_t> CpuPass::run(std::span<const Row> rows, float* logits,
                                        const PassOutput& out, std::size_t first) {
  out_ = &out;
  prepare(rows);
  for (std::int32_t layer = 0; layer < config_.num_layers && !out.is_abandoned(); ++layer) {
    if (layer > 0 && out.tap != nullptr && out.tap->wants(layer)) {
      show(rows, layer, *out.tap, first);
    }
    run_layer(layer);
  }
  const std::size_t written = write_logits(rows, logits);
  if (out.is_abandoned()) return std::nullopt;
  return written;
}

// Gathers the rows that want logits: in a prefill few of many.
void CpuPass::show(std::span<const Row> rows, std::int32_t layer, LayerTap& tap,
                   std::size_t first) {
  shown_.clear();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].wants_logits) continue;
    const float* row = hidden_.data() + static_cast<std::int64_t>(r) * hidden_stride_;
    shown_.insert(shown_.end(), row, row + config_.hidden_size);
  }
  const std::size_t width = size(config_.hidden_size);
  if (shown_.empty()) return;
  tap.on_layer({.layer = layer,
                .first = first,
                .count = shown_.size() / width,
                .width = width,
                .values = shown_.data(),
                .threads = &pool_});
}

void CpuPass::prepare(std::span<const Row> rows) {
  rows_ = static_cast<std::int64_t>(rows.size());
  if (states_.size() < rows.size()) states_.resize(rows.size());
  const std::int64_t half = head_dim_ / 2;
  cos_.grow(size(rows_ * half));
  sin_.grow(size(rows_ * half));
  hidden_.grow(size(rows_ * hidden_stride_));
  for (Activations* x : {&normed_, &attended_, &gate_}) {
    x->values.grow(size(rows_ * x->stride));
    if (weights_.quantized) x->quantized.grow(size(rows_ * int8_blocks(x->count)));
  }
  queries_flat_.grow(size(rows_ * query_size_));
  keys_flat_.grow(size(rows_ * kv_size_));
  values_flat_.grow(size(rows_ * kv_size_));
  queries_.grow(size(rows_ * heads_ * head_stride_));
  attended_heads_.grow(size(rows_ * heads_ * head_stride_));
  up_.grow(size(rows_ * gate_.stride));
  for (std::int64_t r = 0; r < rows_; ++r) {
    const Row& row = rows[size(r)];
    RowState& state = states_[size(r)];
    state.cache = static_cast<CpuKvCache*>(row.cache);
    state.slot = row.slot;
    row.cache->slots().path(row.slot, state.path);
    widen(weights_.embedding, std::int64_t{row.token} * config_.hidden_size,
          {hidden_.data() + r * hidden_stride_, static_cast<std::size_t>(config_.hidden_size)});
    rope_.fill(static_cast<Position>(state.path.size()) - 1, cos_.data() + r * half,
               sin_.data() + r * half);
  }
}

void CpuPass::run_layer(std::int64_t index) {
  const CpuLayer& layer = weights_.layers[size(index)];
  normalize(hidden_.data(), layer.attention_norm);
  const Product projections[] = {{&layer.q, {queries_flat_.data(), query_size_}},
                                 {&layer.k, {keys_flat_.data(), kv_size_}},
                                 {&layer.v, {values_flat_.data(), kv_size_}}};
  multiply(projections, input(normed_, rows_));
  place_heads(layer, index);
  attend(layer, index);
  const Product output[] = {{&layer.o, {hidden_.data(), hidden_stride_, nullptr, true}}};
  multiply(output, input(attended_, rows_));
  feed_forward(layer);
}

// normed_ = RMSNorm of `from` [rows, hidden_stride].
void CpuPass::normalize(const float* from, const std::vector<float>& weight) {
  for_parts(rows_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      kernels_.rms_norm(from + r * hidden_stride_, weight.data(), config_.hidden_size, epsilon_,
                        normed_.values.data() + r * normed_.stride);
      quantize(normed_, r);
    }
  });
}

void CpuPass::quantize(Activations& x, std::int64_t row) {
  if (!weights_.quantized) return;
  kernels_.quantize_row(x.values.data() + row * x.stride, x.count,
                        x.quantized.data() + row * int8_blocks(x.count));
}

MatmulInput CpuPass::input(const Activations& x, std::int64_t rows) const {
  return {rows, x.stride, x.values.data(), x.quantized.data()};
}

// Several products of the same activations as one loop over all their outputs.
void CpuPass::multiply(std::span<const Product> products, const MatmulInput& x) {
  std::int64_t total = 0;
  for (const Product& product : products) total += product.weights->matrix.outputs;
  for_parts(total, kOutputGrain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t first = 0;  // of the current product within the loop
    for (const Product& product : products) {
      const std::int64_t outputs = product.weights->matrix.outputs;
      const Outputs part{std::max<std::int64_t>(begin - first, 0), std::min(end - first, outputs)};
      if (part.begin < part.end) {
        MatmulOutput y = product.y;
        if (!product.weights->bias.empty()) y.bias = product.weights->bias.data();
        kernels_.matmul(product.weights->matrix, x, part, y);
      }
      first += outputs;
    }
  });
}

void CpuPass::place_heads(const CpuLayer& layer, std::int64_t index) {
  for_parts(rows_, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) place_row(layer, index, r);
  });
}

// Head norms and rotation; queries to queries_, keys and values to the row's slot.
void CpuPass::place_row(const CpuLayer& layer, std::int64_t index, std::int64_t row) {
  const std::int64_t head_dim = head_dim_;
  for (std::int64_t h = 0; h < heads_; ++h) {
    place_head(layer.q_norm, queries_flat_.data() + row * query_size_ + h * head_dim, row,
               queries_.data() + (row * heads_ + h) * head_stride_);
  }
  RowState& state = states_[size(row)];
  const std::int64_t at = state.slot * kv_heads_ * head_stride_;
  for (std::int64_t h = 0; h < kv_heads_; ++h) {
    const std::int64_t from = row * kv_size_ + h * head_dim;
    place_head(layer.k_norm, keys_flat_.data() + from, row,
               state.cache->keys(index) + at + h * head_stride_);
    std::copy_n(values_flat_.data() + from, head_dim,
                state.cache->values(index) + at + h * head_stride_);
  }
}

void CpuPass::place_head(const std::vector<float>& norm, float* from, std::int64_t row,
                         float* to) const {
  const std::int64_t half = head_dim_ / 2;
  if (!norm.empty()) {
    kernels_.rms_norm(from, norm.data(), head_dim_, epsilon_, from);
  }
  rotate(from, cos_.data() + row * half, sin_.data() + row * half, half, to);
}

void CpuPass::attend(const CpuLayer& layer, std::int64_t index) {
  for_parts(rows_ * kv_heads_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      attend_task(index, layer.window, i / kv_heads_, i % kv_heads_);
    }
  });
  if (!weights_.quantized) return;
  for_parts(rows_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) quantize(attended_, r);
  });
}

void CpuPass::attend_task(std::int64_t index, std::int64_t window, std::int64_t row,
                          std::int64_t head) {
  const std::int64_t shared = heads_ / kv_heads_;
  const std::int64_t first = row * heads_ + head * shared;
  const RowState& state = states_[size(row)];
  const auto end = static_cast<std::int64_t>(state.path.size());
  kernels_.attention({.queries = queries_.data() + first * head_stride_,
                      .out = attended_heads_.data() + first * head_stride_,
                      .num_queries = shared,
                      .head_stride = head_stride_,
                      .keys = state.cache->keys(index) + head * head_stride_,
                      .values = state.cache->values(index) + head * head_stride_,
                      .slot_stride = kv_heads_ * head_stride_,
                      .path = state.path.data(),
                      .begin = window > 0 ? std::max<std::int64_t>(end - window, 0) : 0,
                      .end = end,
                      .scale = 1.0f / std::sqrt(static_cast<float>(head_dim_))});
  for (std::int64_t h = first; h < first + shared; ++h) {
    std::copy_n(attended_heads_.data() + h * head_stride_, head_dim_,
                attended_.values.data() + row * attended_.stride + (h - row * heads_) * head_dim_);
  }
}

// hidden += down(silu(gate(x)) * up(x)), x = RMSNorm(hidden).
void CpuPass::feed_forward(const CpuLayer& layer) {
  normalize(hidden_.data(), layer.mlp_norm);
  const MatmulInput x = input(normed_, rows_);
  for_parts(config_.intermediate_size, kOutputGrain, [&](std::int64_t begin, std::int64_t end) {
    const auto product = [&](const LinearWeights& weights, float* y) {
      const float* bias = weights.bias.empty() ? nullptr : weights.bias.data();
      kernels_.matmul(weights.matrix, x, {begin, end}, {y, gate_.stride, bias, false});
    };
    product(layer.gate, gate_.values.data());
    product(layer.up, up_.data());
    // To the end of the padding: silu(0) * 0 = 0.
    const std::int64_t count = pad_to_lanes(end - begin);
    for (std::int64_t r = 0; r < rows_; ++r) {
      const std::int64_t at = r * gate_.stride + begin;
      kernels_.silu_multiply(gate_.values.data() + at, up_.data() + at, count);
    }
  });
  if (weights_.quantized) {
    for_parts(rows_, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) quantize(gate_, r);
    });
  }
  const Product down[] = {{&layer.down, {hidden_.data(), hidden_stride_, nullptr, true}}};
  multiply(down, input(gate_, rows_));
}

std::size_t CpuPass::write_logits(std::span<const Row> rows, float* logits) {
  std::int64_t wanted = 0;
  for (std::int64_t r = 0; r < rows_; ++r) {
    if (!rows[size(r)].wants_logits) continue;
    float* to = normed_.values.data() + wanted * normed_.stride;
    kernels_.rms_norm(hidden_.data() + r * hidden_stride_, weights_.final_norm.data(),
                      config_.hidden_size, epsilon_, to);
    quantize(normed_, wanted);
    ++wanted;
  }
  if (wanted == 0) return 0;
  const Product head[] = {{&weights_.head, {logits, config_.vocab_size}}};
  multiply(head, input(normed_, wanted));
  return size(wanted);
}

}  // namespace outrider
