// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "common/engine/model/cuda/cases/drawn.h"
#include "common/engine/model/cuda/cases/kernel_cases.h"

namespace outrider::gpu {
namespace {

std::size_t length(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

void compare_bytes(std::span<const std::byte> cpu, std::span<const std::byte> device,
                   std::size_t each, CaseResult& result) {
  for (std::size_t i = 0; i < cpu.size(); i += each) {
    ++result.outputs;
    result.different += std::memcmp(cpu.data() + i, device.data() + i, each) != 0 ? 1 : 0;
  }
}

// One plane of keys or values.
std::vector<std::byte> draw_plane(std::int64_t elements, std::int64_t dim, std::int64_t stride,
                                  bool is_bf16, float factor, Drawn& drawn) {
  std::vector<std::byte> plane(length(elements * (is_bf16 ? 2 : 4)));
  for (std::int64_t i = 0; i < elements; ++i) {
    const float value = i % stride < dim ? drawn.odd(4.0f) * factor : 0.0f;
    if (is_bf16) {
      const std::uint16_t bits = to_bf16(value);
      std::memcpy(plane.data() + i * 2, &bits, 2);
    } else {
      std::memcpy(plane.data() + i * 4, &value, 4);
    }
  }
  return plane;
}

// Rows of a tree: the first ones see a common prefix, then some nodes of their own.
struct Paths {
  std::int64_t slots = 0;
  std::vector<std::vector<std::int32_t>> of;
  std::vector<std::int32_t> begins;

  Paths(const AttentionShape& shape, Drawn& drawn) {
    // Slots of positions lie anywhere, as they do after some commits.
    const std::int64_t nodes = shape.rows;
    slots = shape.prefix + nodes;
    std::vector<std::int32_t> order(length(slots));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = order.size(); i > 1; --i) {
      const std::int64_t other = drawn.below(static_cast<std::int64_t>(i));
      // Most stay in order: the prefix of a prompt.
      if (drawn.below(4) == 0) std::swap(order[i - 1], order[length(other)]);
    }
    for (std::int64_t r = 0; r < shape.rows; ++r) {
      // Behind the prefix its parent's nodes, then its own.
      std::int64_t parent = r == 0 || drawn.below(4) == 0 ? -1 : drawn.below(r);
      if (shape.is_chain) parent = r - 1;
      std::vector<std::int32_t> path =
          parent < 0 ? std::vector<std::int32_t>(order.begin(), order.begin() + shape.prefix)
                     : of[length(parent)];
      path.push_back(order[length(shape.prefix + r)]);
      const auto seen = static_cast<std::int32_t>(path.size());
      begins.push_back(shape.window > 0 ? std::max(seen - shape.window, 0) : 0);
      of.push_back(std::move(path));
    }
  }

  std::int64_t longest() const {
    std::size_t most = 0;
    for (const auto& path : of) most = std::max(most, path.size());
    return static_cast<std::int64_t>(most);
  }
};

std::vector<cuda::Bundle> bundles_of(const Paths& paths, std::int64_t shared) {
  std::vector<cuda::Bundle> bundles;
  const auto pairs = static_cast<std::int32_t>(static_cast<std::int64_t>(paths.of.size()) * shared);
  for (std::int32_t first = 0; first < pairs; first += cuda::kMaxBundle) {
    const std::int32_t count = std::min(cuda::kMaxBundle, pairs - first);
    const auto per_row = static_cast<std::int32_t>(shared);
    std::int32_t lead = first / per_row;
    for (std::int32_t row = lead; row <= (first + count - 1) / per_row; ++row) {
      if (paths.of[length(row)].size() > paths.of[length(lead)].size()) lead = row;
    }
    bundles.push_back({first, count, lead});
  }
  return bundles;
}

std::vector<cuda::SeenRow> seen_rows(const AttentionShape& shape, const Paths& paths,
                                     CaseMemory& memory) {
  std::vector<cuda::SeenRow> rows;
  const auto& all = paths.of[shape.is_chain ? paths.of.size() - 1 : 0];
  const std::int64_t shared = shape.is_chain ? std::ssize(all) : shape.prefix;
  const std::vector<std::int32_t> prefix(all.begin(), all.begin() + shared);
  const std::int32_t* const common = prefix.empty() ? nullptr : memory.upload(prefix);
  for (std::size_t r = 0; r < paths.of.size(); ++r) {
    const auto& path = paths.of[r];
    const auto end = static_cast<std::int32_t>(path.size());
    if (shape.is_chain) {
      rows.push_back({common, nullptr, end, paths.begins[r], end});
      continue;
    }
    const std::vector<std::int32_t> own(path.begin() + shape.prefix, path.end());
    rows.push_back({common, memory.upload(own), shape.prefix, paths.begins[r], end});
  }
  return rows;
}

// The result of the CPU's kernels: [rows, stride].
std::vector<float> attend_on_cpu(const Kernels& cpu, const AttentionShape& shape,
                                 const Paths& paths, const std::vector<float>& queries,
                                 const std::vector<std::byte>& keys,
                                 const std::vector<std::byte>& values, std::int64_t parts,
                                 std::int64_t out_stride) {
  const std::int64_t heads = shape.heads.heads, kv_heads = shape.heads.kv_heads;
  const std::int64_t stride = pad_to_lanes(shape.heads.head_dim), shared = heads / kv_heads;
  const std::int64_t partial = stride + kPartialExtra, bytes = shape.is_bf16 ? 2 : 4;
  std::vector<float> partials(length(shape.rows * parts * heads * partial));
  std::vector<float> out(length(shape.rows * out_stride)), combined(length(stride));
  for (std::int64_t h = 0; h < kv_heads; ++h) {
    for (std::int64_t part = 0; part < parts; ++part) {
      std::vector<AttentionRow> rows;
      for (std::int64_t r = 0; r < shape.rows; ++r) {
        const auto& path = paths.of[length(r)];
        rows.push_back(
            {.queries = queries.data() + (r * heads + h * shared) * stride,
             .partials = partials.data() + ((r * parts + part) * heads + h * shared) * partial,
             .path = path.data(),
             .begin = std::max<std::int64_t>(paths.begins[length(r)], part * kAttentionPart),
             .end = std::min(static_cast<std::int64_t>(path.size()), (part + 1) * kAttentionPart)});
      }
      cpu.attention({.rows = rows.data(),
                     .num_rows = shape.rows,
                     .num_queries = shared,
                     .head_stride = stride,
                     .partial_stride = partial,
                     .keys = keys.data() + h * kKvPageSlots * stride * bytes,
                     .values = values.data() + h * kKvPageSlots * stride * bytes,
                     .is_bf16 = shape.is_bf16,
                     .page_stride = kv_heads * kKvPageSlots * stride,
                     .scale = 1.0f / std::sqrt(static_cast<float>(shape.heads.head_dim))});
    }
  }
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    for (std::int64_t h = 0; h < heads; ++h) {
      cpu.combine_attention(partials.data() + (r * parts * heads + h) * partial, parts,
                            heads * partial, stride, combined.data());
      std::copy_n(combined.data(), shape.heads.head_dim,
                  out.data() + r * out_stride + h * shape.heads.head_dim);
    }
  }
  return out;
}

}  // namespace

CaseResult check_attention(const CaseContext& context, const AttentionShape& shape) {
  CaseResult result{"attention " + std::to_string(shape.rows) + " rows, " +
                    std::to_string(shape.prefix) + " positions"};
  Drawn drawn(context.seed);
  CaseMemory& memory = context.memory;
  const cuda::Heads& heads = shape.heads;
  const std::int64_t stride = pad_to_lanes(heads.head_dim);
  const Paths paths(shape, drawn);
  const std::int64_t pages = (paths.slots + kKvPageSlots - 1) / kKvPageSlots;
  const std::int64_t page_stride = heads.kv_heads * kKvPageSlots * stride;
  const auto keys =
      draw_plane(pages * page_stride, heads.head_dim, stride, shape.is_bf16, 2.0f, drawn);
  const auto values =
      draw_plane(pages * page_stride, heads.head_dim, stride, shape.is_bf16, 1e5f, drawn);
  std::vector<float> queries(length(shape.rows * heads.heads * stride));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(queries.size()); ++i) {
    if (i % stride < heads.head_dim) queries[length(i)] = drawn.odd(20.0f) * 2.0f;
  }
  const std::int64_t parts = (paths.longest() + kAttentionPart - 1) / kAttentionPart;
  const std::int64_t out_stride = pad_to_lanes(heads.heads * heads.head_dim);
  const std::vector<float> expected =
      attend_on_cpu(context.cpu, shape, paths, queries, keys, values, parts, out_stride);
  const std::vector<cuda::SeenRow> rows = seen_rows(shape, paths, memory);
  // Weights that come to the cache, of whole pages: another page is right before and behind them.
  constexpr std::size_t kNextBytes = std::size_t{12} << 10;
  const std::vector<cuda::Bundle> bundles = bundles_of(paths, heads.heads / heads.kv_heads);
  const std::int64_t each = shape.rows * heads.heads * parts;
  const cuda::Attention attention{
      .shape = heads,
      .queries = memory.upload(queries),
      .rows = memory.upload(rows),
      .bundles = memory.upload(bundles),
      .num_rows = shape.rows,
      .num_bundles = static_cast<std::int64_t>(bundles.size()),
      .parts = parts,
      .scores = memory.room<float>(length(each * kAttentionPart)),
      .partials = memory.room<float>(length(each * (stride + kPartialExtra))),
      .scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim)),
      .planes = {memory.upload(keys), memory.upload(values), shape.is_bf16, page_stride},
      .next = memory.allocate(kNextBytes),
      .next_bytes = kNextBytes};
  float* const out = memory.upload(std::vector<float>(expected.size()));
  const std::int64_t count = heads.heads * heads.head_dim, bytes = quantized_row_bytes(count);
  std::vector<std::byte> quantized(length(shape.rows * bytes));
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    context.cpu.quantize_row(expected.data() + r * out_stride, count, quantized.data() + r * bytes);
  }
  auto* const to_quantized = memory.room<std::byte>(quantized.size());
  cuda::attend(attention, context.stream);
  cuda::combine_parts(attention, {out, shape.rows, count, out_stride}, to_quantized,
                      context.stream);
  const std::vector<float> got = memory.download(out, expected.size());
  compare_bytes(quantized, memory.download(to_quantized, quantized.size()), 1, result);
  compare_bytes(std::as_bytes(std::span(expected)), std::as_bytes(std::span(got)), 4, result);
  for (const float value : expected) result.not_numbers += std::isfinite(value) ? 0 : 1;
  memory.clear();
  return result;
}

namespace {

// Places heads as the CPU does (common/engine/model/cpu/attention_stage.cc).
void rotate(const float* from, const float* cos, const float* sin, std::int64_t half, float* to) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float first = from[i], second = from[i + half];
    to[i] = first * cos[i] - second * sin[i];
    to[i + half] = second * cos[i] + first * sin[i];
  }
}

struct PlacementCase {
  PlacementCase(const CaseContext& context, const cuda::Heads& shape, std::int64_t rows,
                bool is_bf16)
      : context(context), shape(shape), rows(rows), is_bf16(is_bf16) {}

  const CaseContext& context;
  cuda::Heads shape;
  std::int64_t rows;
  bool is_bf16;
  std::int64_t dim = shape.head_dim, stride = pad_to_lanes(shape.head_dim);
  std::int64_t page_stride = shape.kv_heads * kKvPageSlots * stride;
  std::vector<float> queries, keys, values, q_norm, k_norm, cos, sin, rotated;
  std::vector<std::int32_t> slots;
  std::vector<std::byte> key_plane, value_plane;

  void draw() {
    Drawn drawn(context.seed);
    queries = drawn.odd_values(rows * shape.heads * dim, 1e4f);
    keys = drawn.odd_values(rows * shape.kv_heads * dim, 1e4f);
    values = drawn.odd_values(rows * shape.kv_heads * dim, 1e4f);
    q_norm = drawn.odd_values(dim, 10.0f);
    k_norm = drawn.odd_values(dim, 10.0f);
    for (std::int64_t i = 0; i < rows * dim / 2; ++i) {
      const auto angle = static_cast<float>(drawn.below(1000000)) * 1e-3f;
      cos.push_back(std::cos(angle));
      sin.push_back(std::sin(angle));
    }
    rotated.resize(length(rows * shape.heads * stride));
    for (std::int32_t r = 0; r < rows; ++r) slots.push_back((r * 37 + 5) % (2 * 64));
    key_plane.resize(length(2 * page_stride * (is_bf16 ? 2 : 4)));
    value_plane = key_plane;
  }

  void place_on_cpu(bool has_norms) {
    std::vector<float> head(length(dim));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t h = 0; h < shape.heads; ++h) {
        place(queries, q_norm, has_norms, r, r * shape.heads + h, head);
        std::copy(head.begin(), head.end(), rotated.begin() + (r * shape.heads + h) * stride);
      }
      for (std::int64_t h = 0; h < shape.kv_heads; ++h) {
        place(keys, k_norm, has_norms, r, r * shape.kv_heads + h, head);
        store(key_plane, r, h, head.data());
        store(value_plane, r, h, values.data() + (r * shape.kv_heads + h) * dim);
      }
    }
  }

  void place(const std::vector<float>& all, const std::vector<float>& norm, bool has_norm,
             std::int64_t row, std::int64_t index, std::vector<float>& head) const {
    std::copy_n(all.begin() + index * dim, dim, head.begin());
    if (has_norm) context.cpu.rms_norm(head.data(), norm.data(), dim, 1e-6f, head.data());
    rotate(head.data(), cos.data() + row * dim / 2, sin.data() + row * dim / 2, dim / 2,
           head.data());
  }

  void store(std::vector<std::byte>& plane, std::int64_t row, std::int64_t head,
             const float* from) const {
    const std::int64_t slot = slots[length(row)];
    const std::int64_t at = slot / 64 * page_stride + (head * 64 + slot % 64) * stride;
    for (std::int64_t i = 0; i < dim; ++i) {
      if (is_bf16) {
        const std::uint16_t bits = to_bf16(from[i]);
        std::memcpy(plane.data() + (at + i) * 2, &bits, 2);
      } else {
        std::memcpy(plane.data() + (at + i) * 4, from + i, 4);
      }
    }
  }

  void compare_on_device(bool has_norms, CaseResult& result) const {
    CaseMemory& memory = context.memory;
    const std::vector<std::byte> empty(key_plane.size());
    std::byte* const to_keys = memory.upload(empty);
    std::byte* const to_values = memory.upload(empty);
    auto* const to_turned = memory.room<float>(rotated.size());
    cuda::place_heads({.rows = rows,
                       .shape = shape,
                       .queries = memory.upload(queries),
                       .keys = memory.upload(keys),
                       .values = memory.upload(values),
                       .q_norm = has_norms ? memory.upload(q_norm) : nullptr,
                       .k_norm = has_norms ? memory.upload(k_norm) : nullptr,
                       .epsilon = 1e-6f,
                       .cos = memory.upload(cos),
                       .sin = memory.upload(sin),
                       .slots = memory.upload(slots),
                       .rotated = to_turned,
                       .planes = {to_keys, to_values, is_bf16, page_stride}},
                      context.stream);
    const std::size_t each = is_bf16 ? 2 : 4;
    const std::vector<float> got = memory.download(to_turned, rotated.size());
    compare_bytes(std::as_bytes(std::span(rotated)), std::as_bytes(std::span(got)), 4, result);
    compare_bytes(key_plane, memory.download(to_keys, key_plane.size()), each, result);
    compare_bytes(value_plane, memory.download(to_values, value_plane.size()), each, result);
    memory.clear();
  }
};

}  // namespace

CaseResult check_placement(const CaseContext& context, std::int64_t rows, const cuda::Heads& shape,
                           bool is_bf16) {
  CaseResult result{is_bf16 ? "heads and bf16 slots" : "heads and f32 slots"};
  for (const bool has_norms : {false, true}) {
    PlacementCase sample(context, shape, rows, is_bf16);
    sample.draw();
    sample.place_on_cpu(has_norms);
    sample.compare_on_device(has_norms, result);
  }
  return result;
}

}  // namespace outrider::gpu
