// SPDX-License-Identifier: Apache-2.0
#include "common/model/cpu/cpu_pass.h"

#include <algorithm>
#include <limits>

namespace outrider {
namespace {

// Outputs of a matrix are handed to threads in multiples of this.
constexpr std::int64_t kOutputGrain = 16;

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

CpuPass::CpuPass(const CpuWeights& weights, LayerStore& layers, const Kernels& kernels,
                 ThreadPool& pool)
    : weights_(weights),
      layers_(layers),
      config_(weights.files->config),
      kernels_(kernels),
      hidden_stride_(pad_to_lanes(config_.hidden_size)),
      epsilon_(static_cast<float>(config_.rms_norm_eps)),
      loops_(pool),
      attention_(config_, kernels, loops_),
      pass_rows_(config_.hidden_size, hidden_stride_) {
  const auto size_activations = [](Activations& x, std::int64_t count) {
    x.count = count;
    x.stride = pad_to_lanes(count);
    x.quantized_bytes = quantized_row_bytes(count);
  };
  size_activations(normed_, config_.hidden_size);
  size_activations(attended_, config_.q_size());
  size_activations(gate_, config_.intermediate_size);
}

std::int64_t CpuPass::scratch_bytes(const ModelConfig& config, std::int64_t rows) {
  const std::int64_t wide = config.hidden_size + 3 * config.q_size() + 2 * config.kv_size() +
                            2 * std::int64_t{config.intermediate_size};
  // Activations in f32 and quantised; a path of slots for each row whose turn it is.
  const std::int64_t row = wide * 6 + rows * static_cast<std::int64_t>(sizeof(Slot));
  constexpr std::int64_t kPartials = 32 << 20;  // AttentionStage's
  return rows * pad_to_lanes(config.hidden_size) * 4 + std::min(rows, kMaxRows) * row + kPartials;
}

Status CpuPass::run(std::span<const Row> rows, PassOutput& out) {
  loops_.begin_pass(out);
  prepare(rows);
  Status done = run_layers(out);
  if (done.ok() && !out.is_abandoned()) done = write_logits(out.logits.data());
  layers_.end_pass();
  if (out.is_abandoned()) return cancelled("the pass was abandoned");
  return done;
}

void CpuPass::prepare(std::span<const Row> rows) {
  const auto all = static_cast<std::int64_t>(rows.size());
  const std::int64_t most = std::min(all, kMaxRows);
  pass_rows_.begin(rows);
  for (Activations* x : {&normed_, &attended_, &gate_}) {
    x->values.grow(size(most * x->stride));
    if (weights_.quantized) x->quantized.grow(size(most * x->quantized_bytes));
  }
  up_.grow(size(most * gate_.stride));
  for (std::int64_t r = 0; r < all; ++r) {
    widen(weights_.embedding, std::int64_t{rows[size(r)].token} * config_.hidden_size,
          {pass_rows_.residual(r), size(config_.hidden_size)});
  }
}

Status CpuPass::run_layers(PassOutput& out) {
  for (std::int32_t index = 0; index < config_.num_layers && !out.is_abandoned(); ++index) {
    if (index > 0 && out.tap != nullptr && out.tap->wants(index)) {
      pass_rows_.show(index, *out.tap, loops_.pool());
    }
    const bool pruned = index > 0 && prune(index, out);
    OUTRIDER_ASSIGN_OR_RETURN(const CpuLayer* layer, layers_.acquire(index));
    run_layer(*layer, index, index == 0 || pruned);
  }
  return {};
}

// True if rows ended before this layer.
bool CpuPass::prune(std::int32_t index, PassOutput& out) {
  return out.pruner != nullptr && out.pruner->wants(index) &&
         pass_rows_.prune(index, *out.pruner, loops_.pool(), out.places);
}

// Rows stand before those that see them, so the ones whose turn comes first need none of the
// others. other_rows: than those of the layer before.
void CpuPass::run_layer(const CpuLayer& layer, std::int64_t index, bool other_rows) {
  const std::span<const Row> rows = pass_rows_.rows();
  const std::int64_t all = pass_rows_.count();
  for (std::int64_t begin = 0; begin < all; begin += kMaxRows) {
    rows_ = std::min(all - begin, kMaxRows);
    hidden_ = pass_rows_.residual(begin);
    if (other_rows || all > kMaxRows) attention_.prepare(rows.subspan(size(begin), size(rows_)));
    run_part(layer, index);
  }
}

void CpuPass::run_part(const CpuLayer& layer, std::int64_t index) {
  normalize(hidden_, layer.attention_norm);
  const Product projections[] = {{&layer.q, {attention_.queries(), config_.q_size()}},
                                 {&layer.k, {attention_.keys(), config_.kv_size()}},
                                 {&layer.v, {attention_.values(), config_.kv_size()}}};
  multiply(projections, input(normed_, rows_));
  attention_.place(layer, index);
  attention_.attend(layer, index, attended_.values.data(), attended_.stride);
  quantize_rows(attended_);
  const Product output[] = {{&layer.o, {hidden_, hidden_stride_, nullptr, true}}};
  multiply(output, input(attended_, rows_));
  feed_forward(layer);
}

// normed_ = RMSNorm of `from` [rows, hidden_stride].
void CpuPass::normalize(const float* from, const std::vector<float>& weight) {
  loops_.run(rows_, 1, [&](std::int64_t begin, std::int64_t end) {
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
                        x.quantized.data() + row * x.quantized_bytes);
}

void CpuPass::quantize_rows(Activations& x) {
  if (!weights_.quantized) return;
  loops_.run(rows_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) quantize(x, r);
  });
}

MatmulInput CpuPass::input(const Activations& x, std::int64_t rows) const {
  return {rows, x.stride, x.values.data(), x.quantized.data()};
}

// Several products of the same activations as one loop over all their outputs.
void CpuPass::multiply(std::span<const Product> products, const MatmulInput& x) {
  std::int64_t total = 0;
  for (const Product& product : products) total += product.weights->matrix.outputs;
  loops_.run(total, kOutputGrain, [&](std::int64_t begin, std::int64_t end) {
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

// hidden += down(silu(gate(x)) * up(x)), x = RMSNorm(hidden).
void CpuPass::feed_forward(const CpuLayer& layer) {
  normalize(hidden_, layer.mlp_norm);
  const MatmulInput x = input(normed_, rows_);
  loops_.run(config_.intermediate_size, kOutputGrain, [&](std::int64_t begin, std::int64_t end) {
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
  quantize_rows(gate_);
  const Product down[] = {{&layer.down, {hidden_, hidden_stride_, nullptr, true}}};
  multiply(down, input(gate_, rows_));
}

Status CpuPass::write_logits(float* logits) {
  const std::span<const Row> rows = pass_rows_.rows();
  if (std::ranges::none_of(rows, &Row::wants_logits)) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const LinearWeights* head, layers_.acquire_head());
  std::int64_t count = 0;
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (!rows[r].wants_logits) continue;
    float* to = normed_.values.data() + count * normed_.stride;
    kernels_.rms_norm(pass_rows_.residual(static_cast<std::int64_t>(r)), weights_.final_norm.data(),
                      config_.hidden_size, epsilon_, to);
    quantize(normed_, count);
    if (++count < kMaxRows) continue;
    multiply_head(*head, count, logits);
    logits += count * config_.vocab_size;
    count = 0;
  }
  multiply_head(*head, count, logits);
  return {};
}

void CpuPass::multiply_head(const LinearWeights& head, std::int64_t count, float* logits) {
  if (count == 0) return;
  const bool is_shortlist = !config_.head_tokens.empty();
  if (is_shortlist) listed_.resize(static_cast<std::size_t>(count * config_.head_size()));
  const Product product[] = {
      {&head, {is_shortlist ? listed_.data() : logits, config_.head_size()}}};
  multiply(product, input(normed_, count));
  if (is_shortlist) spread(count, logits);
}

// The logits of a shortlist, at their tokens' places.
void CpuPass::spread(std::int64_t rows, float* logits) {
  const float* from = listed_.data();
  std::fill_n(logits, rows * config_.vocab_size, -std::numeric_limits<float>::infinity());
  for (std::int64_t r = 0; r < rows; ++r, logits += config_.vocab_size) {
    for (const TokenId token : config_.head_tokens) logits[token] = *from++;
  }
}

}  // namespace outrider
