// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/cpu_pass.h"

#include <algorithm>

namespace outrider {
namespace {

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

}  // namespace

CpuPass::CpuPass(const ModelConfig& config, bool is_quantized, const Kernels& kernels,
                 ThreadPool& pool)
    : config_(config),
      kernels_(kernels),
      hidden_stride_(pad_to_lanes(config_.hidden_size)),
      epsilon_(static_cast<float>(config_.rms_norm_eps)),
      adds_directly_(!config_.kinds.sandwich_norms && config_.residual_scale == 1.0),
      loops_(pool),
      attention_(config_, kernels, loops_),
      pass_rows_(config_.hidden_size, hidden_stride_),
      products_(is_quantized, kernels, loops_),
      feed_forward_(config_, kernels, loops_, products_),
      logits_(config_, kernels, pass_rows_, products_),
      normed_(config_.hidden_size),
      attended_(config_.q_size()) {}

std::int64_t CpuPass::scratch_bytes(const ModelConfig& config, std::int64_t rows) {
  // Experts gather their rows, and add what they compute.
  const bool branches = config.kinds.sandwich_norms || config.residual_scale != 1.0;
  const std::int64_t copies = 1 + (branches ? 1 : 0) + (config.experts.count > 0 ? 2 : 0);
  const std::int64_t wide = copies * config.hidden_size + 3 * config.q_size() +
                            2 * config.kv_size() + 2 * std::int64_t{config.inner_size()} +
                            config.experts.count;
  // Activations in f32 and quantised; a path of slots for each row of a group.
  const std::int64_t row = wide * 6 + rows * static_cast<std::int64_t>(sizeof(Slot));
  constexpr std::int64_t kPartials = 32 << 20;  // of AttentionStage
  return rows * pad_to_lanes(config.hidden_size) * 4 + std::min(rows, kMaxRows) * row + kPartials;
}

Status CpuPass::run(const PassModel& model, std::span<const Row> rows, PassOutput& out) {
  logits_.end();  // of the previous pass
  loops_.begin_pass(out);
  out.threads = &loops_.pool();
  OUTRIDER_RETURN_IF_ERROR(prepare(model.weights, rows));
  Status done = run_layers(model.layers, out);
  if (!done.ok() || out.is_abandoned()) {
    model.layers.end_pass();
  } else {
    done = out.on_demand ? logits_.offer(model, out) : logits_.write(model, out.logits.data());
  }
  if (!out.is_abandoned()) return done;
  logits_.end();
  return cancelled("the pass was abandoned");
}

Status CpuPass::prepare(const CpuWeights& weights, std::span<const Row> rows) {
  const auto all = static_cast<std::int64_t>(rows.size());
  const std::int64_t most = std::min(all, kMaxRows);
  pass_rows_.begin(rows);
  for (Activations* x : {&normed_, &attended_}) x->grow(most, products_.is_quantized());
  feed_forward_.grow(most);
  if (!adds_directly_) branch_.grow(size(most * hidden_stride_));
  for (std::int64_t r = 0; r < all; ++r) {
    OUTRIDER_RETURN_IF_ERROR(embed(weights, rows[size(r)], pass_rows_.residual(r)));
  }
  return {};
}

Status CpuPass::embed(const CpuWeights& weights, const Row& row, float* to) {
  const std::int64_t hidden = config_.hidden_size;
  const Weights& files = weights.files->weights;
  OUTRIDER_RETURN_IF_ERROR(files.read_row(weights.embedding, row.token, {to, size(hidden)}));
  if (config_.embedding_scale != 1.0) {
    const auto scale = static_cast<float>(config_.embedding_scale);
    for (std::int64_t i = 0; i < hidden; ++i) to[i] *= scale;
  }
  if (config_.position_rows == 0) return {};
  position_.resize(size(hidden));
  const Position position = row.cache->slots().position(row.slot);
  OUTRIDER_RETURN_IF_ERROR(files.read_row(weights.positions, position, position_));
  for (std::int64_t i = 0; i < hidden; ++i) to[i] += position_[size(i)];
  return {};
}

Status CpuPass::run_layers(LayerStore& layers, PassOutput& out) {
  for (std::int32_t index = 0; index < config_.num_layers && !out.is_abandoned(); ++index) {
    if (index > 0 && out.tap != nullptr && out.tap->wants(index)) {
      pass_rows_.show(index, *out.tap, loops_.pool());
    }
    const bool pruned = index > 0 && prune(index, out);
    OUTRIDER_ASSIGN_OR_RETURN(const CpuLayer* layer, layers.acquire(index));
    OUTRIDER_RETURN_IF_ERROR(run_layer(layers, *layer, index, index == 0 || pruned));
    if (out.on_layer_done) out.on_layer_done(index + 1, config_.num_layers);
  }
  return {};
}

// True if rows were dropped before this layer.
bool CpuPass::prune(std::int32_t index, PassOutput& out) {
  return out.pruner != nullptr && out.pruner->wants(index) &&
         pass_rows_.prune(index, *out.pruner, loops_.pool(), out.places);
}

// Parents come before the rows that see them, so earlier groups do not need later ones. other_rows:
// the rows differ from those of the layer before.
Status CpuPass::run_layer(LayerStore& layers, const CpuLayer& layer, std::int64_t index,
                          bool other_rows) {
  const std::span<const Row> rows = pass_rows_.rows();
  const std::int64_t all = pass_rows_.count();
  for (std::int64_t begin = 0; begin < all; begin += kMaxRows) {
    rows_ = std::min(all - begin, kMaxRows);
    hidden_ = pass_rows_.residual(begin);
    if (other_rows || all > kMaxRows) attention_.prepare(rows.subspan(size(begin), size(rows_)));
    OUTRIDER_RETURN_IF_ERROR(run_part(layers, layer, index));
  }
  return {};
}

Status CpuPass::run_part(LayerStore& layers, const CpuLayer& layer, std::int64_t index) {
  if (layer.has_attention()) run_attention(layer, index);
  if (!layer.has_feed_forward()) return {};
  normalize({layer.mlp_norm, layer.mlp_norm_bias});
  OUTRIDER_RETURN_IF_ERROR(feed_forward_.run(layers, layer, index, normed_, rows_, branch()));
  if (!adds_directly_) add_branch(layer.mlp_output_norm);
  return {};
}

void CpuPass::run_attention(const CpuLayer& layer, std::int64_t index) {
  normalize({layer.attention_norm, layer.attention_norm_bias});
  const PassProducts::Product projections[] = {
      {&layer.q, {attention_.queries(), config_.q_size()}},
      {&layer.k, {attention_.keys(), config_.kv_size()}},
      {&layer.v, {attention_.values(), config_.kv_size()}}};
  products_.multiply(projections, PassProducts::input(normed_, rows_));
  attention_.place(layer, index);
  attended_.narrow(layer.o.matrix.inputs);
  attention_.attend(layer, index, attended_.values.data(), attended_.stride);
  products_.quantize_rows(attended_, rows_);
  const PassProducts::Product output[] = {{&layer.o, branch()}};
  products_.multiply(output, PassProducts::input(attended_, rows_));
  if (!adds_directly_) add_branch(layer.attention_output_norm);
}

// normed_ = the norm of the rows.
void CpuPass::normalize(const NormVectors& norm) {
  loops_.run(rows_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      apply_norm(kernels_, norm, epsilon_, hidden_ + r * hidden_stride_, normed_.row(r));
      products_.quantize(normed_, r);
    }
  });
}

// Where a block's result goes: added to the residual stream, or apart.
MatmulOutput CpuPass::branch() {
  return {adds_directly_ ? hidden_ : branch_.data(), hidden_stride_, nullptr, adds_directly_};
}

// hidden += scale * norm(branch); no norm if it is empty.
void CpuPass::add_branch(const std::vector<float>& norm) {
  const auto scale = static_cast<float>(config_.residual_scale);
  loops_.run(rows_, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      float* from = branch_.data() + r * hidden_stride_;
      float* to = hidden_ + r * hidden_stride_;
      if (!norm.empty()) apply_norm(kernels_, {norm, {}}, epsilon_, from, from);
      for (std::int64_t i = 0; i < config_.hidden_size; ++i) to[i] = to[i] + scale * from[i];
    }
  });
}

}  // namespace outrider
