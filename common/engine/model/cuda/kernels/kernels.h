// The kernels of the cuda backend: what the CPU's kernels compute, with the same bits, on memory of
// a GPU. Each call puts one kernel, or a few, into a stream and returns.
//
// Compiled by nvcc they run on a GPU; compiled by the host's compiler they run by fibers on memory
// of the host, which is how their bits are tested (fibers.h). Sums keep the orders of the CPU's
// kernels (docs/row-invariance.md); a change of those has to be made here too.
//
// Thread rule: calls of one stream come from one thread. Ownership: all memory is the caller's, on
// the device, at multiples of 16 bytes, and stays until the stream has passed the kernel. Sizes are
// checked by callers. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/engine/model/cpu/kernels/kernels.h"

namespace outrider::cuda {

// A stream of a DeviceApi (device_api.h). Null is CUDA's default stream; by fibers work happens at
// once.
using Stream = void*;

// Products of one launch: of one kind of weights, and of the same inputs.
inline constexpr int kMaxProducts = 3;

struct Product {
  // Quantised ones are the CPU's panels as they are; others are lane panels (lane_panels.h). A
  // level's may be the first outputs, or the first inputs, of a wider one.
  WeightMatrix weights;
  MatmulOutput y;
};

// y of each product, for all rows. x.number is not used.
void multiply(const Product* products, int count, const MatmulInput& x, Stream stream);
// Whether there are kernels for quantised weights of this format; others are not multiplied.
constexpr bool has_kernels(const QuantFormat& format) {
  const bool is_half = format.scale_group == 16;
  return !format.has_table && !(is_half && (format.bits == 4 || format.has_minimum));
}

// How the products of quantised weights are cut, for measurements. 0: by the number of rows.
struct ProductChoice {
  // 1, 2, 4: by the kernel of few rows, of which a block takes 8, 16 or 32; 8, 16, 32: by that of
  // many, of which a block takes 16, 32 or 64.
  int row_tiles = 0;
  int depth = 0;  // of few rows: groups that each warp sums in a round, 1 or 2
};
void multiply_quantized(const Product* products, int count, const MatmulInput& x,
                        const ProductChoice& choice, Stream stream);
void multiply_lanes(const Product* products, int count, const MatmulInput& x, Stream stream);

// Rows [rows, stride]; a row has `count` elements and zeros behind them. `values` may begin at a
// column of wider rows, a multiple of 32, and quantised rows at that column's group.
struct RowsOf {
  float* values = nullptr;
  std::int64_t rows = 0;
  std::int64_t count = 0;
  std::int64_t stride = 0;
  const std::int32_t* from = nullptr;  // [rows]: where row i is; null: at i. Read by norms only
  std::int64_t whole = 0;              // elements of the wider rows; 0: these are whole
};

// y = rms_norm(x, weight), zero beyond count, and its quantised rows; either may be null. y is not
// x. weight null: no norm, x itself is copied and quantised.
void norm_and_quantize(const RowsOf& x, const float* weight, float epsilon, float* y,
                       std::byte* quantized, Stream stream);

// gate = silu(gate) * up, and its quantised rows, which may be null.
void silu_and_quantize(const RowsOf& gate, const float* up, std::byte* quantized, Stream stream);

// Rows of an embedding [vocabulary, hidden] of f32, bf16 or f16, widened. tokens: [x.rows].
void embed(const void* table, WeightType type, const std::int32_t* tokens, const RowsOf& x,
           Stream stream);

// Keys and values of a layer: [page][head][64 slots][head_stride], f32 or bf16.
struct KvPlanes {
  void* keys = nullptr;
  void* values = nullptr;
  bool is_bf16 = false;
  std::int64_t page_stride = 0;  // elements from page to page
};

struct Heads {
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
};

// Norms and rotates the heads of a layer, and puts keys and values into their slots.
struct HeadPlacement {
  std::int64_t rows = 0;
  Heads shape;
  const float* queries = nullptr;  // [rows, heads * head_dim]
  const float* keys = nullptr;     // [rows, kv_heads * head_dim]
  const float* values = nullptr;
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;
  float epsilon = 0;
  const float* cos = nullptr;  // [rows, head_dim / 2]
  const float* sin = nullptr;
  const std::int32_t* slots = nullptr;  // [rows]
  float* rotated = nullptr;             // queries, [rows, heads, head_stride]
  KvPlanes planes;
};
void place_heads(const HeadPlacement& placement, Stream stream);

// The positions that a row sees: [begin, end) of its path, one at least. Slots by position come
// from two lists, so that rows of a sequence share the one of its committed text.
struct SeenRow {
  const std::int32_t* common = nullptr;  // [num_common], of the first positions
  const std::int32_t* own = nullptr;     // of those from num_common on
  std::int32_t num_common = 0;           // at most `end`
  std::int32_t begin = 0;
  std::int32_t end = 0;
};

// Pairs of a row and one of the queries that share a head of keys, counted row by row, which one
// block looks with. `lead` is the row that sees the furthest of them; none begins behind it.
inline constexpr int kMaxBundle = 8;
struct Bundle {
  std::int32_t first = 0;
  std::int32_t count = 0;
  std::int32_t lead = 0;
};

struct Attention {
  Heads shape;
  const float* queries = nullptr;   // [rows, heads, head_stride]
  const SeenRow* rows = nullptr;    // [num_rows]
  const Bundle* bundles = nullptr;  // [num_bundles]
  std::int64_t num_rows = 0;
  std::int64_t num_bundles = 0;
  std::int64_t parts = 0;     // of kAttentionPart positions, of the longest row
  float* scores = nullptr;    // [rows, heads, parts * kAttentionPart], scratch
  float* partials = nullptr;  // [rows, parts, heads, head_stride + kPartialExtra], scratch
  float scale = 1.0f;
  KvPlanes planes;
  // Weights of the product behind attention, which come to the cache meanwhile; null: none.
  const void* next = nullptr;
  std::int64_t next_bytes = 0;
};
// Fills the partial results.
void attend(const Attention& attention, Stream stream);
// out: heads of head_dim side by side; and its quantised rows. Values of either may be null.
void combine_parts(const Attention& attention, const RowsOf& out, std::byte* quantized,
                   Stream stream);

// How the token behind a row is chosen (common/engine/sampling/sampling.h).
struct RowChoice {
  std::uint64_t seed = 0;
  std::int64_t position = 0;  // of the token
  float temperature = 0;
  float top_p = 1;
  float min_p = 0;
  std::int32_t top_k = 0;
  std::int32_t is_wanted = 0;  // 0: no token is
  std::int32_t unused = 0;
};

// The findings about a row; all zero before. largest and best are keys of a value and a token
// (common/engine/sampling/select.h), 0: none. The others end what filters leave, 0: they leave all.
struct FoundChoice {
  std::uint64_t largest = 0;
  std::uint64_t end_by_logit = 0;
  std::uint64_t end_by_score = 0;
  std::uint64_t best = 0;
};

struct TokenChoices {
  const float* logits = nullptr;  // [rows, stride]
  std::int64_t stride = 0;
  const RowChoice* rows = nullptr;
  FoundChoice* found = nullptr;  // [rows]
  std::int32_t tokens = 0;       // of the vocabulary, at most kMaxChoiceTokens
};
inline constexpr std::int64_t kMaxChoiceTokens = std::int64_t{1} << 22;

// Fills found[].best. has_filters: some row has top_k or top_p.
void choose_tokens(const TokenChoices& choices, std::int64_t rows, bool has_filters, Stream stream);

}  // namespace outrider::cuda
