// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/attention_stage.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "common/engine/model/cpu/rotation.h"

namespace outrider {
namespace {

// Limit for the partial results in memory; rows beyond it are computed in further rounds.
constexpr std::int64_t kMaxPartialBytes = 32 << 20;

std::size_t length(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

// to = from rotated; both [2 * half], and may be the same.
void rotate(const float* from, const float* cos, const float* sin, std::int64_t half, float* to) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float first = from[i];
    const float second = from[i + half];
    to[i] = first * cos[i] - second * sin[i];
    to[i + half] = second * cos[i] + first * sin[i];
  }
}

bool has_local_layers(const ModelConfig& config) {
  return std::ranges::find(config.layer_ropes, LayerRope::kLocal) != config.layer_ropes.end();
}

}  // namespace

AttentionStage::AttentionStage(const ModelConfig& config, const Kernels& kernels, PassLoops& loops)
    : kernels_(kernels),
      loops_(loops),
      heads_(config.num_heads),
      kv_heads_(config.num_kv_heads),
      head_dim_(config.head_dim),
      rotated_(config.rotated()),
      head_stride_(pad_to_lanes(config.head_dim)),
      partial_stride_(head_stride_ + kPartialExtra),
      epsilon_(static_cast<float>(config.rms_norm_eps)),
      scale_(config.attention_scale > 0 ? static_cast<float>(config.attention_scale)
                                        : 1.0f / std::sqrt(static_cast<float>(config.head_dim))),
      cap_(static_cast<float>(config.attention_cap)) {
  if (config.kinds.learned_positions) return;
  const auto add = [&](const RopeConfig& rope) {
    rotations_.push_back({rope_frequencies(rope, config.rotated()), rope.attention_factor, {}, {}});
  };
  add(config.rope);
  if (has_local_layers(config)) add(config.local_rope);
}

void AttentionStage::prepare(std::span<const Row> rows) {
  rows_ = static_cast<std::int64_t>(rows.size());
  if (states_.size() < rows.size()) states_.resize(rows.size());
  const std::int64_t pairs = rotated_ / 2;
  for (Rotation& rotation : rotations_) {
    rotation.cos.grow(length(rows_ * pairs));
    rotation.sin.grow(length(rows_ * pairs));
  }
  queries_flat_.grow(length(rows_ * heads_ * head_dim_));
  keys_flat_.grow(length(rows_ * kv_heads_ * head_dim_));
  values_flat_.grow(length(rows_ * kv_heads_ * head_dim_));
  queries_.grow(length(rows_ * heads_ * head_stride_));
  for (std::int64_t r = 0; r < rows_; ++r) {
    const Row& row = rows[length(r)];
    RowState& state = states_[length(r)];
    state.cache = row.cache;
    state.pages = static_cast<CpuKvPages*>(&row.cache->pages());
    row.cache->slots().path(row.slot, state.path);
    for (Rotation& rotation : rotations_) {
      fill_rotation(rotation.frequencies, rotation.factor,
                    static_cast<Position>(state.path.size()) - 1, rotation.cos.data() + r * pairs,
                    rotation.sin.data() + r * pairs);
    }
  }
  order_rows();
}

void AttentionStage::order_rows() {
  order_.resize(length(rows_));
  std::iota(order_.begin(), order_.end(), 0);
  std::stable_sort(order_.begin(), order_.end(), [&](std::int64_t a, std::int64_t b) {
    return std::less<>()(state(a).cache, state(b).cache);
  });
  chunks_.clear();
  for (std::int64_t i = 0; i < rows_; ++i) {
    const bool goes_on = !chunks_.empty() && i - chunks_.back().begin < kChunkRows &&
                         state(order_[length(i)]).cache == state(order_[length(i - 1)]).cache;
    if (!goes_on) chunks_.push_back({.begin = i, .end = i, .parts = 0});
    const auto seen = static_cast<std::int64_t>(state(order_[length(i)]).path.size());
    Chunk& chunk = chunks_.back();
    chunk.end = i + 1;
    chunk.parts = std::max(chunk.parts, (seen + kAttentionPart - 1) / kAttentionPart);
  }
}

void AttentionStage::place(const CpuLayer& layer, std::int64_t index) {
  loops_.run(rows_, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) place_row(layer, index, r);
  });
}

// Normalises and rotates a row's heads: queries to queries_, keys and values to the row's cell.
void AttentionStage::place_row(const CpuLayer& layer, std::int64_t index, std::int64_t row) {
  const Rotation* rotation = rotation_of(layer.rope);
  for (std::int64_t h = 0; h < heads_of(layer); ++h) {
    place_head(layer.q_norm, rotation, queries_flat_.data() + (row * heads_ + h) * head_dim_, row,
               queries_.data() + (row * heads_ + h) * head_stride_);
  }
  const RowState& state = this->state(row);
  for (std::int64_t h = 0; h < kv_heads_of(layer); ++h) {
    const std::int64_t from = (row * kv_heads_ + h) * head_dim_;
    float* key = keys_flat_.data() + from;
    place_head(layer.k_norm, rotation, key, row, key);
    state.pages->store_key(index, state.path.back(), h, key, head_dim_);
    state.pages->store_value(index, state.path.back(), h, values_flat_.data() + from, head_dim_);
  }
}

void AttentionStage::place_head(const std::vector<float>& norm, const Rotation* rotation,
                                float* from, std::int64_t row, float* to) const {
  if (!norm.empty()) kernels_.rms_norm(from, norm.data(), head_dim_, epsilon_, from);
  const std::int64_t pairs = rotation == nullptr ? 0 : rotated_ / 2;
  if (pairs > 0) {
    rotate(from, rotation->cos.data() + row * pairs, rotation->sin.data() + row * pairs, pairs, to);
  }
  if (from != to && 2 * pairs < head_dim_)
    std::copy(from + 2 * pairs, from + head_dim_, to + 2 * pairs);
}

const AttentionStage::Rotation* AttentionStage::rotation_of(LayerRope rope) const {
  if (rope == LayerRope::kNone) return nullptr;
  return &rotations_[rope == LayerRope::kLocal ? 1 : 0];
}

void AttentionStage::attend(const CpuLayer& layer, std::int64_t index, float* out,
                            std::int64_t stride) {
  const std::int64_t most =
      kMaxPartialBytes / (part_size() * static_cast<std::int64_t>(sizeof(float)));
  const std::span<const Chunk> chunks(chunks_);
  for (std::size_t first = 0; first < chunks.size();) {
    std::int64_t taken = 0;
    std::size_t end = first;
    for (; end < chunks.size(); ++end) {
      const std::int64_t more = chunks[end].rows() * chunks[end].parts;
      if (end > first && taken + more > most) break;
      taken += more;
    }
    partials_.grow(length(taken * part_size()));
    attend_slice(layer, index, chunks.subspan(first, end - first), out, stride);
    first = end;
  }
}

// Each chunk in as many parts as its own positions need, whatever the others'.
void AttentionStage::attend_slice(const CpuLayer& layer, std::int64_t index,
                                  std::span<const Chunk> slice, float* out, std::int64_t stride) {
  tasks_.clear();
  float* partials = partials_.data();
  for (const Chunk& chunk : slice) {
    for (std::int64_t part = 0; part < chunk.parts; ++part) {
      tasks_.push_back({.chunk = &chunk, .part = part, .partials = partials});
    }
    partials += chunk.rows() * chunk.parts * part_size();
  }
  const auto tasks = static_cast<std::int64_t>(tasks_.size());
  const std::int64_t all = tasks * kv_heads_of(layer);
  const auto task = [&](std::int64_t i) -> const Task& { return tasks_[length(i % tasks)]; };
  loops_.run(all, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const CellsAhead next =
          i + 1 < all ? cells_of(layer.window, index, task(i + 1), (i + 1) / tasks) : CellsAhead{};
      attend_part(layer.window, index, task(i), i / tasks, next);
    }
  });
  loops_.run(tasks, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Task& task = tasks_[length(i)];
      // A chunk's rows are shared among the tasks of its parts.
      for (std::int64_t row = task.part; row < task.chunk->rows(); row += task.chunk->parts) {
        combine_row(heads_of(layer), task, row,
                    out + order_[length(task.chunk->begin + row)] * stride);
      }
    }
  });
}

// row: of the task's chunk. out: [heads, head_dim].
void AttentionStage::combine_row(std::int64_t heads, const Task& task, std::int64_t row,
                                 float* out) {
  std::array<float, kMaxHeadStride> combined;
  const std::int64_t parts = task.chunk->parts;
  for (std::int64_t h = 0; h < heads; ++h) {
    kernels_.combine_attention(task.partials + row * parts * part_size() + h * partial_stride_,
                               parts, part_size(), head_stride_, combined.data());
    std::copy_n(combined.data(), head_dim_, out + h * head_dim_);
  }
}

// Those of a part that a row sees.
AttentionStage::Positions AttentionStage::seen(std::int64_t row, std::int64_t window,
                                               std::int64_t part) const {
  const auto all = static_cast<std::int64_t>(state(row).path.size());
  const std::int64_t from = window > 0 ? std::max<std::int64_t>(all - window, 0) : 0;
  return {std::max(from, part * kAttentionPart), std::min(all, (part + 1) * kAttentionPart)};
}

// The first that a task reads.
CellsAhead AttentionStage::cells_of(std::int64_t window, std::int64_t index, const Task& task,
                                    std::int64_t head) const {
  const std::int64_t row = order_[length(task.chunk->begin)];
  const RowState& state = this->state(row);
  const Positions positions = seen(row, window, task.part);
  return {.keys = state.pages->keys(index, head),
          .values = state.pages->values(index, head),
          .cells = state.path.data() + positions.begin,
          .count = std::min(positions.end - positions.begin, kKvPageSlots)};
}

void AttentionStage::attend_part(std::int64_t window, std::int64_t index, const Task& task,
                                 std::int64_t head, const CellsAhead& next) {
  const std::int64_t shared = heads_ / kv_heads_;
  const Chunk& chunk = *task.chunk;
  std::array<AttentionRow, kChunkRows> rows;
  for (std::int64_t i = 0; i < chunk.rows(); ++i) {
    const std::int64_t row = order_[length(chunk.begin + i)];
    const Positions positions = seen(row, window, task.part);
    rows[length(i)] = {.queries = queries_.data() + (row * heads_ + head * shared) * head_stride_,
                       .partials = task.partials + (i * chunk.parts + task.part) * part_size() +
                                   head * shared * partial_stride_,
                       .path = state(row).path.data(),
                       .begin = positions.begin,
                       .end = positions.end};
  }
  const CpuKvPages& pages = *state(order_[length(chunk.begin)]).pages;
  kernels_.attention({.rows = rows.data(),
                      .num_rows = chunk.rows(),
                      .num_queries = shared,
                      .head_stride = head_stride_,
                      .partial_stride = partial_stride_,
                      .keys = pages.keys(index, head),
                      .values = pages.values(index, head),
                      .is_bf16 = pages.layout().is_bf16,
                      .page_stride = pages.layout().page_stride(),
                      .scale = scale_,
                      .cap = cap_,
                      .next = next});
}

}  // namespace outrider
