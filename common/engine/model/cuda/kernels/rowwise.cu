// Kernels over single rows of activations: norm, quantisation, activation function, embedding, and
// the heads' norms and rotation. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/kernels/quantized_rows.h"
#include "common/engine/model/cuda/kernels/quantized_tiles.h"

namespace outrider::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kNormThreads = 1024;
constexpr int kNormShares = 4;  // of a row, for passes of few rows
constexpr int kHeadThreads = 64;
constexpr int kLanes = 16;

// 1 / sqrt(mean(x^2) + epsilon), for the first warp; x in shared memory, zero up to whole lanes.
// The chain is the kernel's time, so its numbers are read ahead of it.
OUTRIDER_DEVICE float norm_factor(const float* x, int count, float epsilon) {
  constexpr int kAhead = 16;
  x += thread_index() % kLanes;
  float sum = 0.0f;
  const int steps = (count + kLanes - 1) / kLanes;
  int first = 0;
  float next[kAhead];
  const auto read_next = [&](int from) {
    if (from + kAhead > steps) return;
    OUTRIDER_UNROLLED
    for (int i = 0; i < kAhead; ++i) next[i] = x[(from + i) * kLanes];
  };
  read_next(0);
  for (; first + kAhead <= steps; first += kAhead) {
    float values[kAhead];
    OUTRIDER_UNROLLED
    for (int i = 0; i < kAhead; ++i) values[i] = next[i];
    read_next(first + kAhead);
    OUTRIDER_UNROLLED
    for (int i = 0; i < kAhead; ++i) sum = fused(values[i], values[i], sum);
  }
  for (; first < steps; ++first) {
    const float value = x[first * kLanes];
    sum = fused(value, value, sum);
  }
  for (int mask = 8; mask > 0; mask /= 2) sum = add(sum, shuffle_xor(sum, mask));
  const float mean = divide(sum, static_cast<float>(count));
  return divide(1.0f, square_root(add(mean, epsilon)));
}

struct NormRow {
  const float* x;
  const std::int32_t* from;
  const float* weight;
  float* y;
  std::byte* quantized;
  int count;
  int stride;
  float epsilon;
  int shares;
};

// Blocks along y share a row's outputs; each finds the factor for itself.
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kNormThreads, 1) norm_row(OUTRIDER_ARGUMENT NormRow p) {
  allow_next();
  auto* row = reinterpret_cast<float*>(shared_memory());  // [groups * 32], then the factor
  const int thread = thread_index(), groups = (p.count + 31) / 32, padded = groups * 32;
  const int first = groups * block_y() / p.shares, end = groups * (block_y() + 1) / p.shares;
  if (p.weight != nullptr) {
    for (int g = first + thread; g < end; g += kNormThreads) prefetch_line(p.weight + g * 32);
  }
  wait_for_previous();
  const std::int64_t from = p.from == nullptr ? block_x() : p.from[block_x()];
  const float* x = p.x + from * p.stride;
  OUTRIDER_UNROLLED_BY_FOUR
  for (int i = thread; i < padded; i += kNormThreads) row[i] = i < p.count ? x[i] : 0.0f;
  sync_threads();
  float factor = 1.0f;
  if (p.weight != nullptr) {
    if (thread < kWarpLanes) {
      const float found = norm_factor(row, p.count, p.epsilon);
      if (thread == 0) row[padded] = found;
    }
    sync_threads();
    factor = row[padded];
  }
  const int lane = thread % kWarpLanes;
  for (int g = first + thread / kWarpLanes; g < end; g += kNormThreads / kWarpLanes) {
    const int at = g * 32 + lane;
    float value = row[at];
    if (p.weight != nullptr && at < p.count)
      value = multiply(multiply(value, factor), p.weight[at]);
    const std::int64_t to = block_x();
    if (p.y != nullptr && at < p.stride) p.y[to * p.stride + at] = value;
    if (p.quantized == nullptr) continue;
    quantize_group(value, lane, p.quantized + (to * groups + g) * kGroupBytes);
  }
}

struct SiluRow {
  float* gate;
  const float* up;
  std::byte* quantized;
  int count;
  int stride;
  int groups;  // of a quantised row
};

// A warp takes a group; blocks along x share a row.
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kThreads, 1) silu_row(OUTRIDER_ARGUMENT SiluRow p) {
  allow_next();
  wait_for_previous();
  const int lane = thread_index() % kWarpLanes;
  const int g = block_x() * (kThreads / kWarpLanes) + thread_index() / kWarpLanes;
  const int at = g * 32 + lane;
  if (g * 32 >= p.count) return;
  const std::int64_t row = static_cast<std::int64_t>(block_y()) * p.stride;
  float value = 0.0f;
  if (at < p.count) {
    const float x = p.gate[row + at];
    const float silu = divide(x, add(1.0f, exponential(-x)));
    value = multiply(silu, p.up[row + at]);
    p.gate[row + at] = value;
  }
  if (p.quantized == nullptr) return;
  quantize_group(value, lane,
                 p.quantized + (static_cast<std::int64_t>(block_y()) * p.groups + g) * kGroupBytes);
}

struct EmbeddedRow {
  const std::byte* table;
  const std::int32_t* tokens;
  float* x;
  int count;
  int stride;
  WeightType type;
};

OUTRIDER_KERNEL OUTRIDER_BOUNDS(kThreads, 1) embed_row(OUTRIDER_ARGUMENT EmbeddedRow p) {
  const std::int64_t from = static_cast<std::int64_t>(p.tokens[block_x()]) * p.count;
  float* x = p.x + static_cast<std::int64_t>(block_x()) * p.stride;
  for (int i = thread_index(); i < p.stride; i += kThreads) {
    float value = 0.0f;
    if (i < p.count && p.type == WeightType::kF32) {
      value = read<float>(p.table + (from + i) * 4);
    } else if (i < p.count) {
      const auto bits = read<std::uint16_t>(p.table + (from + i) * 2);
      value = p.type == WeightType::kBf16 ? widen_bf16(bits) : widen_f16(bits);
    }
    x[i] = value;
  }
}

// The same as the CPU's to_bf16() for numbers: half-even by integers.
OUTRIDER_DEVICE std::uint16_t round_bf16(float value) {
  const std::uint32_t bits = as_bits(value);
  return static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

struct HeadBlock {
  HeadPlacement placement;
  int stride;  // of a head
};

// A block takes one head of a row: queries, then keys, then values along y.
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kHeadThreads, 1) place_head(OUTRIDER_ARGUMENT HeadBlock p) {
  allow_next();
  wait_for_previous();
  const HeadPlacement& place = p.placement;
  auto* head = reinterpret_cast<float*>(shared_memory());  // [stride], then the factor
  const int thread = thread_index(), row = block_x();
  const int heads = static_cast<int>(place.shape.heads);
  const int kv_heads = static_cast<int>(place.shape.kv_heads);
  const int dim = static_cast<int>(place.shape.head_dim), half = dim / 2;
  const int kind = block_y() < heads ? 0 : block_y() < heads + kv_heads ? 1 : 2;
  const int index = block_y() - (kind == 0 ? 0 : heads + (kind - 1) * kv_heads);
  const float* from = kind == 0 ? place.queries : kind == 1 ? place.keys : place.values;
  const float* norm = kind == 0 ? place.q_norm : kind == 1 ? place.k_norm : nullptr;
  from += (static_cast<std::int64_t>(row) * (kind == 0 ? heads : kv_heads) + index) * dim;
  for (int i = thread; i < p.stride; i += kHeadThreads) head[i] = i < dim ? from[i] : 0.0f;
  sync_threads();
  if (norm != nullptr) {
    if (thread < kWarpLanes) {
      const float factor = norm_factor(head, dim, place.epsilon);
      if (thread == 0) head[p.stride] = factor;
    }
    sync_threads();
    for (int i = thread; i < dim; i += kHeadThreads) {
      head[i] = multiply(multiply(head[i], head[p.stride]), norm[i]);
    }
    sync_threads();
  }
  const std::int64_t slot = kind == 0 ? 0 : place.slots[row];
  const std::int64_t base = kind == 0 ? (static_cast<std::int64_t>(row) * heads + index) * p.stride
                                      : slot / kKvPageSlots * place.planes.page_stride +
                                            (index * kKvPageSlots + slot % kKvPageSlots) * p.stride;
  for (int i = thread; i < p.stride; i += kHeadThreads) {
    float value = head[i];
    if (kind < 2 && i < dim) {
      const int pair = i < half ? i : i - half;
      const float cos = place.cos[static_cast<std::int64_t>(row) * half + pair];
      const float sin = place.sin[static_cast<std::int64_t>(row) * half + pair];
      const float rotated = multiply(value, cos);
      value = i < half ? add(rotated, -multiply(head[i + half], sin))
                       : add(rotated, multiply(head[i - half], sin));
    }
    void* plane = kind == 1 ? place.planes.keys : place.planes.values;
    if (kind == 0) {
      place.rotated[base + i] = value;
    } else if (place.planes.is_bf16) {
      static_cast<std::uint16_t*>(plane)[base + i] = round_bf16(value);
    } else {
      static_cast<float*>(plane)[base + i] = value;
    }
  }
}

}  // namespace

void norm_and_quantize(const RowsOf& x, const float* weight, float epsilon, float* y,
                       std::byte* quantized, Stream stream) {
  const NormRow row{x.values,
                    x.from,
                    weight,
                    y,
                    quantized,
                    static_cast<int>(x.count),
                    static_cast<int>(x.stride),
                    epsilon,
                    x.rows <= kMaxFewRows ? kNormShares : 1};
  const auto padded = static_cast<std::size_t>((x.count + 31) / 32 * 32);
  launch<&norm_row>({static_cast<unsigned>(x.rows), static_cast<unsigned>(row.shares), 1,
                     kNormThreads, (padded + 4) * sizeof(float), start_for(x.rows)},
                    stream, row);
}

void silu_and_quantize(const RowsOf& gate, const float* up, std::byte* quantized, Stream stream) {
  const SiluRow row{
      gate.values,    up, quantized, static_cast<int>(gate.count), static_cast<int>(gate.stride),
      groups_of(gate)};
  constexpr std::int64_t kGroups = kThreads / kWarpLanes;
  const auto blocks = static_cast<unsigned>(((gate.count + 31) / 32 + kGroups - 1) / kGroups);
  launch<&silu_row>(
      {blocks, static_cast<unsigned>(gate.rows), 1, kThreads, 0, start_for(gate.rows)}, stream,
      row);
}

void embed(const void* table, WeightType type, const std::int32_t* tokens, const RowsOf& x,
           Stream stream) {
  const EmbeddedRow row{
      static_cast<const std::byte*>(table), tokens, x.values, static_cast<int>(x.count),
      static_cast<int>(x.stride),           type};
  launch<&embed_row>({static_cast<unsigned>(x.rows), 1, 1, kThreads, 0}, stream, row);
}

void place_heads(const HeadPlacement& placement, Stream stream) {
  const HeadBlock block{placement, static_cast<int>(pad_to_lanes(placement.shape.head_dim))};
  const auto heads = static_cast<unsigned>(placement.shape.heads + 2 * placement.shape.kv_heads);
  launch<&place_head>(
      {static_cast<unsigned>(placement.rows), heads, 1, kHeadThreads,
       static_cast<std::size_t>(block.stride + 4) * sizeof(float), start_for(placement.rows)},
      stream, block);
}

}  // namespace outrider::cuda
