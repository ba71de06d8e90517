// Shared by the products of quantised weights: their arguments, a pair of panels as fragments of
// the tensor cores, and groups of activations in shared memory.
//
// A pair of panels is 32 outputs. Lane (g, t) of a warp, g = lane / 4 and t = lane % 4, takes 16
// bytes of steps t and t + 4: of outputs 4g .. 4g + 3 of the pair. Two mma's take them, the first
// of outputs 4g and 4g + 1 as its rows g and g + 8, the second of 4g + 2 and 4g + 3. So weights
// come from memory as 16 bytes a lane and need not be put in another order. Where a warp takes one
// panel alone, a lane has 8 bytes: outputs 2g and 2g + 1 of the panel are rows g and g + 8.
//
// Included by files that hold kernels. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "common/engine/model/cpu/kernels/quant_format.h"
#include "common/engine/model/cuda/kernels/device.h"
#include "common/engine/model/cuda/kernels/kernels.h"
#include "common/engine/model/cuda/kernels/quantized_rows.h"

namespace outrider::cuda {

inline constexpr int kPairOutputs = 2 * static_cast<int>(kPanelOutputs);

// One product of a launch, whose blocks along x begin at `first`.
struct ProductPart {
  const std::byte* weights;
  float* y;
  const float* bias;
  std::int64_t stride;
  std::int64_t outputs;
  int first;
  bool add;
};

struct QuantizedBatch {
  ProductPart parts[kMaxProducts];
  int count;
  int rows;
  int groups;
  const std::byte* x;  // [rows] of QuantizedGroups
  std::int64_t panel_bytes;
  std::int64_t scales;  // the first row's, bytes from a panel's begin
  std::int64_t minimums;
};

template <class Batch>
OUTRIDER_DEVICE ProductPart part_of_block(const Batch& batch) {
  ProductPart part = batch.parts[0];
  for (int i = 1; i < kMaxProducts; ++i) {
    if (i < batch.count && block_x() >= batch.parts[i].first) part = batch.parts[i];
  }
  return part;
}

// A format's constants.
template <int kBitsOf, int kScalesOf, bool kMinimumOf, ScaleType kScaleTypeOf>
struct TileFormat {
  static constexpr int kBits = kBitsOf;
  static constexpr int kScales = kScalesOf;  // of a group
  static constexpr bool kMinimum = kMinimumOf;
  static constexpr ScaleType kScaleType = kScaleTypeOf;
  static constexpr bool kHasUnits = kScaleType == ScaleType::kMultiples;
  static constexpr QuantFormat kFormat{.bits = kBits,
                                       .scale_group = kQuantGroup / kScales,
                                       .scales = kScaleType,
                                       .has_minimum = kMinimum};
  static constexpr int kPanelGroup = 64 * kBits;   // bytes of a panel's group
  static constexpr int kPieces = kBits / 4;        // of 16 bytes, a lane's of a pair's group
  static constexpr int kLowGroup = 256 * kPieces;  // bytes of a panel's group in those pieces
  static constexpr int kHighGroup = kPanelGroup - kLowGroup;  // high bits of 6, behind them
  static constexpr int kHighPieces = kHighGroup / 16;
  static constexpr int kScaleBytes = static_cast<int>(kFormat.scale_bytes());
  static constexpr int kScaleRow = kScaleBytes * static_cast<int>(kPanelOutputs);
  // The bytes of eight groups of a panel, with the header before their values.
  static constexpr int kHeaderBytes = static_cast<int>(block_header_bytes(kFormat));
  static constexpr int kBlockBytes = kBlockGroups * kPanelGroup + kHeaderBytes;
  static constexpr int kUnitRows = !kHasUnits ? 0 : kMinimum ? 2 : 1;
  // Weights of 8 and 6 bits are taken as signed numbers, which need no offset.
  static constexpr bool kSigned = kBits != 4 && !kMinimum;

  // From a panel's begin to the values of a group, and to row `index` of scales or minimums, of
  // which a group has `each` and which begin at `first`.
  static OUTRIDER_DEVICE int values_at(int group) {
    return group * kPanelGroup + (group / kBlock + 1) * kHeaderBytes;
  }
  static OUTRIDER_DEVICE std::int64_t scales_at(std::int64_t first, int index, int each) {
    if constexpr (!kHasUnits) return first + index * kScaleRow;
    return first + index / (kBlock * each) * kBlockBytes + index % (kBlock * each) * kScaleRow;
  }

 private:
  static constexpr int kBlock = static_cast<int>(kBlockGroups);
};

// Bytes of a group of activations in shared memory, at distances that share no bank: values, scale,
// scaled sum and offsets.
inline constexpr int kActivations = 48;
inline constexpr int kActivationPieces = 3;  // of 16 bytes

// A panel's group is copied in order of memory, 16 bytes a piece, four pieces a step. In shared
// memory pieces are mixed so that lanes which read one piece of each step share no bank.
OUTRIDER_DEVICE int mixed_piece(int piece) {
  return piece ^ (piece >> 3 & 1) << 1;
}

// A lane's weights of one group of a pair: of each step, the words of its outputs, four or two.
template <int kOutputs>
struct TileWeights {
  std::uint32_t step[2][kOutputs];
};

// Numbers of 6 bits in the bytes of a word, less 32. high: two bits of each, from `shift` on.
OUTRIDER_DEVICE std::uint32_t join_bits(std::uint32_t low, std::uint32_t high, int shift) {
  const std::uint32_t value = low | (high >> shift & 0x03030303u) << 4;
  const std::uint32_t flipped = value ^ 0x20202020u, sign = flipped & 0x20202020u;
  return flipped | sign << 1 | sign << 2;
}

// Loads the weights of the pair's outputs from `output` on. high: the pair's high bits of numbers
// of 6 bits.
template <class F, int kOutputs>
OUTRIDER_DEVICE TileWeights<kOutputs> load_weights(const std::byte* pair, const std::byte* high,
                                                   int lane, int output) {
  using Words = Several<std::uint32_t, kOutputs>;
  const std::byte* from = pair + output / 16 * F::kLowGroup;
  from += mixed_piece(lane % 4 * 4 + output % 16 / 4) * 16 + output % 4 * 4;
  TileWeights<kOutputs> weights;
  const auto low = read<Words>(from);
  if constexpr (F::kBits == 8) {
    constexpr std::uint32_t kFlip = F::kSigned ? 0x80808080u : 0u;
    const auto second = read<Words>(from + 256);
    OUTRIDER_UNROLLED
    for (int o = 0; o < kOutputs; ++o) {
      weights.step[0][o] = low.of[o] ^ kFlip;
      weights.step[1][o] = second.of[o] ^ kFlip;
    }
  } else {
    OUTRIDER_UNROLLED
    for (int o = 0; o < kOutputs; ++o) {
      weights.step[0][o] = low.of[o] & 0x0f0f0f0fu;
      weights.step[1][o] = low.of[o] >> 4 & 0x0f0f0f0fu;
    }
    if constexpr (F::kBits == 6) {
      high += output / 16 * F::kHighGroup + output % 16 * 4;
      OUTRIDER_UNROLLED
      for (int half = 0; half < 2; ++half) {
        const auto bits = read<Words>(high + half * 64);
        OUTRIDER_UNROLLED
        for (int o = 0; o < kOutputs; ++o) {
          std::uint32_t& word = weights.step[half][o];
          word = join_bits(word, bits.of[o], lane % 4 * 2);
        }
      }
    }
  }
  return weights;
}

// Whole sums as f32: an integer on this one's bits is the number above it, as long as it is
// smaller than 2^22 (a group's sums are at most 32 * 255 * 127).
inline constexpr std::uint32_t kExactBits = 0x4b400000u;
inline constexpr float kExact = 12582912.0f;

// The scale and sum of a group of activations. offset: the start of its sum, minus the weights'
// zero times the sum of its activations.
struct RowScales {
  float scale, sum;
  std::int32_t offset;
};
template <class F>
OUTRIDER_DEVICE RowScales row_scales(const std::byte* row) {
  if constexpr (F::kSigned) return {read<float>(row + offsetof(QuantizedGroup, scale)), 0.0f, 0};
  const Four four = read<Four>(row + offsetof(QuantizedGroup, scale));
  return {as_float(four.x), as_float(four.y), F::kMinimum ? 0 : static_cast<std::int32_t>(four.z)};
}

// The exact sums of a group, or of half of one, of a lane's outputs and two rows.
template <int kOutputs>
struct TileSums {
  std::int32_t sums[kOutputs / 2][4];  // of each mma

  // The sum for the lane's output o and row i of 2t and 2t + 1.
  OUTRIDER_DEVICE float of(int o, int i) const {
    return add(as_float(static_cast<std::uint32_t>(sums[o / 2][o % 2 * 2 + i])), -kExact);
  }
};

// x: the first of the tile's eight rows of activations. rows: 2t and 2t + 1. Sums of half `half` if
// there are two.
template <class F, int kOutputs>
OUTRIDER_DEVICE TileSums<kOutputs> sum_tile(const TileWeights<kOutputs>& w, const std::byte* x,
                                            int half, int lane, const RowScales (&rows)[2]) {
  // Offsets of missing rows are unspecified, and may wrap round.
  const std::int32_t begin[2] = {
      static_cast<std::int32_t>(kExactBits + static_cast<std::uint32_t>(rows[0].offset)),
      static_cast<std::int32_t>(kExactBits + static_cast<std::uint32_t>(rows[1].offset))};
  TileSums<kOutputs> tile;
  const std::byte* row = x + lane / 4 * kActivations + lane % 4 * 4;
  if constexpr (F::kScales == 1) {
    const std::uint32_t b[2] = {read<std::uint32_t>(row), read<std::uint32_t>(row + 16)};
    OUTRIDER_UNROLLED
    for (int i = 0; i < kOutputs / 2; ++i) {
      multiply_bytes<F::kSigned>(
          tile.sums[i],
          {w.step[0][2 * i], w.step[0][2 * i + 1], w.step[1][2 * i], w.step[1][2 * i + 1]}, b,
          begin);
    }
  } else {
    const auto b = read<std::uint32_t>(row + half * 16);
    const std::uint32_t* step = w.step[half];
    OUTRIDER_UNROLLED
    for (int i = 0; i < kOutputs / 2; ++i) {
      multiply_half(tile.sums[i], {step[2 * i], step[2 * i + 1]}, b, begin);
    }
  }
  return tile;
}

// A piece's first source, and the group of a round that it belongs to.
struct CopyPlace {
  const std::byte* from;
  int group;
};
inline constexpr int kNeverCopied = 1 << 30;

// Copies of a thread that come again and again, each time from `step` bytes further: piece i of
// `total` belongs to thread i mod kThreads.
template <int kTotal, int kThreads>
struct CopyItems {
  static constexpr int kCount = (kTotal + kThreads - 1) / kThreads;
  const std::byte* from[kCount];
  int group[kCount];

  // place(i) gives the CopyPlace of piece i.
  template <class Function>
  OUTRIDER_DEVICE CopyItems(int thread, const Function& place) {
    OUTRIDER_UNROLLED
    for (int n = 0; n < kCount; ++n) {
      const int i = thread + n * kThreads;
      const CopyPlace at = i < kTotal ? place(i) : CopyPlace{nullptr, kNeverCopied};
      from[n] = at.from;
      group[n] = at.group;
    }
  }
  // left: groups from the round's first to the matrix's last.
  OUTRIDER_DEVICE void copy(int thread, std::byte* to, int left, std::int64_t step) {
    OUTRIDER_UNROLLED
    for (int n = 0; n < kCount; ++n) {
      if (group[n] >= left) continue;  // nor in a later round
      copy_async(to + (thread + n * kThreads) * 16, from[n]);
      from[n] += step;
    }
  }
};

// f16 numbers side by side.
template <int kCount>
OUTRIDER_DEVICE Several<float, kCount> widen_several(const std::byte* from) {
  const auto stored = read<Several<std::uint16_t, kCount>>(from);
  Several<float, kCount> out;
  OUTRIDER_UNROLLED
  for (int i = 0; i < kCount; ++i) out.of[i] = widen_f16(stored.of[i]);
  return out;
}

// Scales or minimums of kCount outputs in shared memory, where they are as stored, from `index` on,
// a multiple of kCount. units: theirs, of these outputs.
template <class F, int kCount>
OUTRIDER_DEVICE Several<float, kCount> several_scales(const std::byte* from, int index,
                                                      const std::byte* units) {
  if constexpr (F::kHasUnits) {
    Several<float, kCount> out = widen_several<kCount>(units);
    using Stored = std::conditional_t<kCount == 4, std::uint32_t, std::uint16_t>;
    const std::uint32_t raised = read<Stored>(from + index) ^ 0x80808080u;
    OUTRIDER_UNROLLED
    for (int i = 0; i < kCount; ++i) {
      // A byte plus 128 is an integer on 2^23's bits.
      const std::uint32_t bits = 0x4b000000u | (raised >> 8 * i & 0xffu);
      out.of[i] = multiply(out.of[i], add(as_float(bits), -8388736.0f));
    }
    return out;
  } else if constexpr (F::kScaleType == ScaleType::kF32) {
    return read<Several<float, kCount>>(from + index * 4);
  } else {
    return widen_several<kCount>(from + index * 2);
  }
}

// Where a stage has one group of a pair. Rows of scales and minimums have kWidth outputs, and begin
// at the pair's first.
struct GroupPlace {
  const std::byte* low;   // of the weights
  const std::byte* high;  // bits of 6
  const std::byte* scales;
  const std::byte* minimums;
  const std::byte* units;  // the scales', then the minimums'
  const std::byte* minimum_units;
  const std::byte* x;  // the first of the rows of activations
};

// Adds a group to the chains of a lane, whose outputs of the pair begin at `output`: of each tile
// of rows, [output][row 2t + i].
template <class F, int kWidth, int kTiles, int kOutputs>
OUTRIDER_DEVICE void add_group(const GroupPlace& at, int output,
                               float (&chains)[kTiles][kOutputs][2]) {
  const int lane = thread_index() % kWarpLanes;
  const auto weights = load_weights<F, kOutputs>(at.low, at.high, lane, output);
  Several<float, kOutputs> minimum = {};
  if constexpr (F::kMinimum) {
    minimum = several_scales<F, kOutputs>(at.minimums, output, at.minimum_units + output * 2);
  }
  OUTRIDER_UNROLLED
  for (int half = 0; half < F::kScales; ++half) {
    const auto scale =
        several_scales<F, kOutputs>(at.scales, half * kWidth + output, at.units + output * 2);
    OUTRIDER_UNROLLED
    for (int m = 0; m < kTiles; ++m) {
      const std::byte* tile_x = at.x + m * 8 * kActivations;
      const std::byte* row = tile_x + lane % 4 * 2 * kActivations;
      const RowScales rows[2] = {row_scales<F>(row), row_scales<F>(row + kActivations)};
      const auto tile = sum_tile<F>(weights, tile_x, half, lane, rows);
      OUTRIDER_UNROLLED
      for (int i = 0; i < 2; ++i) {
        OUTRIDER_UNROLLED
        for (int o = 0; o < kOutputs; ++o) {
          float& chain = chains[m][o][i];
          chain = fused(tile.of(o, i), multiply(scale.of[o], rows[i].scale), chain);
          if constexpr (F::kMinimum) chain = fused(minimum.of[o], rows[i].sum, chain);
        }
      }
    }
  }
}

// y as MatmulOutput states it.
OUTRIDER_DEVICE void store_output(const ProductPart& part, std::int64_t row, std::int64_t n,
                                  float sum) {
  float* to = part.y + row * part.stride + n;
  if (part.bias != nullptr) sum = add(sum, part.bias[n]);
  *to = part.add ? add(*to, sum) : sum;
}

// The batch with its blocks, each of `outputs` of one product; `blocks` is how many.
inline QuantizedBatch make_batch(const Product* products, int count, const MatmulInput& x,
                                 std::int64_t outputs, unsigned& blocks) {
  const WeightMatrix& first = products[0].weights;
  const PanelLayout layout(first.format, first.row_inputs());
  QuantizedBatch batch{};
  batch.count = count;
  batch.rows = static_cast<int>(x.rows);
  batch.groups = static_cast<int>((first.inputs + kQuantGroup - 1) / kQuantGroup);
  batch.x = x.quantized;
  batch.panel_bytes = layout.panel_bytes;
  batch.scales = layout.scales(0);
  batch.minimums = layout.minimums(0);
  blocks = 0;
  for (int i = 0; i < count; ++i) {
    const auto& [weights, y] = products[i];
    batch.parts[i] = {static_cast<const std::byte*>(weights.data),
                      y.y,
                      y.bias,
                      y.stride,
                      weights.outputs,
                      static_cast<int>(blocks),
                      y.add};
    blocks += static_cast<unsigned>((weights.outputs + outputs - 1) / outputs);
  }
  return batch;
}

// f(TileFormat) for a format that matrices come in.
template <class Function>
void with_format(const QuantFormat& format, const Function& f) {
  const auto with_width = [&]<int kBits, int kScales, bool kMinimum>() {
    switch (format.scales) {
      case ScaleType::kF16:
        return f(TileFormat<kBits, kScales, kMinimum, ScaleType::kF16>());
      case ScaleType::kF32:
        return f(TileFormat<kBits, kScales, kMinimum, ScaleType::kF32>());
      case ScaleType::kMultiples:
        return f(TileFormat<kBits, kScales, kMinimum, ScaleType::kMultiples>());
    }
  };
  if (format.bits == 6) return f(TileFormat<6, 2, false, ScaleType::kMultiples>());
  if (format.bits == 8 && format.scale_group == 16)
    return with_width.template operator()<8, 2, false>();
  if (format.bits == 8 && format.has_minimum) return with_width.template operator()<8, 1, true>();
  if (format.bits == 8) return with_width.template operator()<8, 1, false>();
  if (format.has_minimum) return with_width.template operator()<4, 1, true>();
  with_width.template operator()<4, 1, false>();
}

}  // namespace outrider::cuda
