// Quantised products of few rows: a block takes a pair of panels. Eight of its warps sum the
// integers of groups side by side, eight run the float chains over them, one output of some rows in
// each thread.
//
// Groups come in rounds of one or two for each summing warp. While a round is summed, the chains
// take the round before, and copies of later ones go on. So 4,096 outputs, 128 pairs, keep the
// memory of 132 multiprocessors busy, although a sum's chain cannot be cut.
// SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/quantized_products.h"
#include "common/model/cuda/quantized_tiles.h"

namespace outrider::cuda {
namespace {

constexpr int kWarps = 8;
constexpr int kHalfThreads = kWarps * kWarpLanes;  // that sum, or that run chains
constexpr int kThreads = 2 * kHalfThreads;
static_assert(kWarps == kBlockGroups);  // a round is whole blocks of a panel
constexpr int kMinStages = 4, kMaxStages = 10;

struct FewBatch {
  QuantizedBatch products;
  int stages;
};

// The shared memory of a block: a ring of stages, and two rounds' sums.
template <class F, int kRowTiles, int kDepth>
struct FewRows {
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kRound = kWarps * kDepth;  // groups
  static constexpr int kLowBytes = kRound * 2 * F::kLowGroup;
  static constexpr int kWeightBytes = kLowBytes + kRound * 2 * F::kHighGroup;
  static constexpr int kScalePieces = F::kScaleRow / 16;
  static constexpr int kScaleBytes = kRound * F::kScales * 2 * F::kScaleRow;
  static constexpr int kMinimumBytes = F::kMinimum ? kRound * 2 * F::kScaleRow : 0;
  static constexpr int kUnitPieces = static_cast<int>(kUnitBytes) / 16;
  static constexpr int kUnitRow = kDepth * 2 * static_cast<int>(kUnitBytes);  // of all blocks
  static constexpr int kUnits = kWeightBytes + kScaleBytes + kMinimumBytes;
  static constexpr int kActivationBytes = kRound * kRows * kActivations;
  static constexpr int kStage = kUnits + F::kUnitRows * kUnitRow + kActivationBytes;
  static constexpr int kSumStride = kPairOutputs + 4;  // of a row, shares no bank
  static constexpr int kRoundSums = kRound * F::kScales * kRows * kSumStride;  // floats
  static constexpr int kSumBytes = 2 * kRoundSums * 4;
  static_assert(kMinStages * kStage + kSumBytes <= 163 << 10);

  const QuantizedBatch& batch;
  const ProductPart& part;
  const int stages;
  const std::byte* first_panel;
  const std::byte* second_panel;
  int row0;
  int rows;    // from row0 on
  int rounds;  // of groups
  std::byte* memory;

  OUTRIDER_DEVICE FewRows(const FewBatch& few, const ProductPart& part)
      : batch(few.products),
        part(part),
        stages(few.stages),
        row0(block_y() * kRows),
        rows(batch.rows - row0),
        rounds((batch.groups + kRound - 1) / kRound),
        memory(shared_memory()) {
    const std::int64_t first = 2 * (block_x() - part.first);
    const std::int64_t last = (part.outputs + kPanelOutputs - 1) / kPanelOutputs - 1;
    first_panel = part.weights + first * batch.panel_bytes;
    second_panel = part.weights + smaller(first + 1, last) * batch.panel_bytes;
  }

  OUTRIDER_DEVICE const std::byte* panel(int i) const {
    return i == 0 ? first_panel : second_panel;
  }
  OUTRIDER_DEVICE float* sums(int round) const {
    return reinterpret_cast<float*>(memory + stages * kStage) + round % 2 * kRoundSums;
  }

  // Rounds r of `fetch(to, left)`, which copies nothing if no groups are left, and `work(r,
  // stage)`: the stages that are there, and those on their way. Chains look at a stage one round
  // later, so it is filled again two rounds later.
  template <class Fetch, class Work>
  OUTRIDER_DEVICE void run_rounds(const Fetch& fetch, const Work& work) const {
    int fetched = 0, filled = 0;  // round, and its stage
    const auto fetch_next = [&] {
      fetch(memory + filled * kStage, batch.groups - fetched * kRound);
      commit_copies();
      ++fetched;
      if (++filled == stages) filled = 0;
    };
    for (int i = 0; i < stages - 2; ++i) fetch_next();
    int stage = 0;
    for (int r = 0; r <= rounds; ++r) {
      wait_for_round();
      sync_threads();  // round r is here for all, its predecessor is summed
      fetch_next();
      work(r, memory + stage * kStage);
      if (++stage == stages) stage = 0;
    }
  }

  // Until all copies but those of stages - 3 rounds are there.
  OUTRIDER_DEVICE void wait_for_round() const {
    switch (stages) {
      case 10:
        return wait_copies<7>();
      case 8:
        return wait_copies<5>();
      case 6:
        return wait_copies<3>();
      default:
        return wait_copies<1>();
    }
  }

  OUTRIDER_DEVICE void run_sums() const {
    const int lane = thread_index() % kWarpLanes, warp = thread_index() / kWarpLanes;
    // 8 bits: first one panel's piece, then the other's; 4 bits: half of the lanes each.
    constexpr int kPanelPieces = F::kLowGroup / 16;
    const std::int64_t other = second_panel - first_panel;
    const std::byte* from = first_panel + (lane / kPanelPieces == 0 ? 0 : other) +
                            lane % kPanelPieces * 16 + F::values_at(warp);
    const std::byte* high = panel(lane / 8 % 2) + F::values_at(warp) + F::kLowGroup + lane % 8 * 16;
    const auto fetch_high = [&](std::byte* to, int left) {
      OUTRIDER_UNROLLED
      for (int d = 0; d < kDepth; ++d) {
        if (d * kWarps + warp >= left || lane >= 2 * F::kHighPieces) continue;
        copy_async(to + ((d * kWarps + warp) * 2 * F::kHighPieces + lane) * 16,
                   high + d * F::kBlockBytes);
      }
      high += kDepth * F::kBlockBytes;
    };
    const auto fetch = [&](std::byte* to, int left) {
      if constexpr (F::kHighGroup > 0) fetch_high(to + kLowBytes, left);
      to += mixed_piece(lane) * 16;
      OUTRIDER_UNROLLED
      for (int d = 0; d < kDepth; ++d) {
        if (d * kWarps + warp >= left) continue;
        OUTRIDER_UNROLLED
        for (int piece = 0; piece < F::kPieces; ++piece) {
          copy_async(to + ((d * kWarps + warp) * F::kPieces + piece) * 512,
                     from + d * F::kBlockBytes + piece * other);
        }
      }
      from += kDepth * F::kBlockBytes;
    };
    run_rounds(fetch, [&](int round, const std::byte* stage) {
      OUTRIDER_UNROLLED
      for (int d = 0; d < kDepth; ++d) {
        if (round * kRound + d * kWarps + warp < batch.groups) {
          sum_group(round, stage, d * kWarps + warp, lane);
        }
      }
    });
  }

  // The integer sums of group `at` of a round.
  OUTRIDER_DEVICE void sum_group(int round, const std::byte* stage, int at, int lane) const {
    const PairWeights weights = load_weights<F>(stage + at * 2 * F::kLowGroup,
                                                stage + kLowBytes + at * 2 * F::kHighGroup, lane);
    const std::byte* x = stage + kStage - kActivationBytes + at * kRows * kActivations;
    float* to = sums(round) + at * F::kScales * kRows * kSumStride + lane % 4 * 2 * kSumStride +
                lane / 4 * 4;
    OUTRIDER_UNROLLED
    for (int m = 0; m < kRowTiles; ++m) {
      if (m > 0 && 8 * m >= rows) continue;
      const std::byte* tile_x = x + 8 * m * kActivations;
      const std::byte* row = tile_x + lane % 4 * 2 * kActivations;
      OUTRIDER_UNROLLED
      for (int half = 0; half < F::kScales; ++half) {
        const TileSums tile = sum_tile<F>(weights, tile_x, half, lane,
                                          {offset_of<F>(row), offset_of<F>(row + kActivations)});
        OUTRIDER_UNROLLED
        for (int i = 0; i < 2; ++i) {
          *reinterpret_cast<FourFloats*>(to + (half * kRows + 8 * m + i) * kSumStride) = {
              tile.of(0, i), tile.of(1, i), tile.of(2, i), tile.of(3, i)};
        }
      }
    }
  }

  OUTRIDER_DEVICE void run_chains() const {
    const int thread = thread_index() - kHalfThreads;
    const int lane = thread % kWarpLanes, warp = thread / kWarpLanes;
    const auto scales_of = [&](std::int64_t first, int each) {
      return [=, this](int i) {
        const int row = i / (2 * kScalePieces), at = i % (2 * kScalePieces);
        return CopyPlace{
            panel(at / kScalePieces) + F::scales_at(first, row, each) + at % kScalePieces * 16,
            row / each};
      };
    };
    CopyItems<kScaleBytes / 16, kHalfThreads> scales(thread, scales_of(batch.scales, F::kScales));
    CopyItems<F::kMinimum ? kMinimumBytes / 16 : 1, kHalfThreads> minimums(
        thread, scales_of(batch.minimums, 1));
    CopyItems<F::kHasUnits ? F::kUnitRows * kUnitRow / 16 : 1, kHalfThreads> units(
        thread, [&](int i) {
          const int row = i / (2 * kUnitPieces), at = i % (2 * kUnitPieces);
          const int block = row % kDepth;
          return CopyPlace{panel(at / kUnitPieces) + block * F::kBlockBytes +
                               row / kDepth * static_cast<int>(kUnitBytes) + at % kUnitPieces * 16,
                           block * kWarps};
        });
    CopyItems<kActivationBytes / 16, kHalfThreads> activations(thread, [&](int i) {
      const int piece = i % kActivationPieces, row = i / kActivationPieces % kRows;
      const int at = i / kActivationPieces / kRows;
      return CopyPlace{
          batch.x + (static_cast<std::int64_t>(row0 + row) * batch.groups + at) * kGroupBytes +
              piece * 16,
          row < rows ? at : kNeverCopied};
    });
    const auto fetch = [&](std::byte* to, int left) {
      const int round = kDepth * F::kBlockBytes;
      to += kWeightBytes;
      scales.copy(thread, to, left, F::kHasUnits ? round : kScaleBytes / 2);
      to += kScaleBytes;
      if constexpr (F::kMinimum) {
        minimums.copy(thread, to, left, F::kHasUnits ? round : kMinimumBytes / 2);
      }
      to += kMinimumBytes;
      if constexpr (F::kHasUnits) units.copy(thread, to, left, round);
      to += F::kUnitRows * kUnitRow;
      activations.copy(thread, to, left, kRound * kGroupBytes);
    };
    float chain[kRowTiles] = {};
    const std::byte* before = memory;
    run_rounds(fetch, [&](int round, const std::byte* stage) {
      if (round > 0 && warp < rows) chain_round(round - 1, before, lane, warp, chain);
      before = stage;
    });
    store(lane, warp, chain);
  }

  OUTRIDER_DEVICE void chain_round(int round, const std::byte* stage, int lane, int warp,
                                   float (&chain)[kRowTiles]) const {
    const float* sum = sums(round);
    const int left = batch.groups - round * kRound;
    if (left >= kRound) {
      OUTRIDER_UNROLLED
      for (int at = 0; at < kRound; ++at) chain_group(stage, sum, at, lane, warp, chain);
    } else {
      for (int at = 0; at < left; ++at) chain_group(stage, sum, at, lane, warp, chain);
    }
  }

  // Output `lane` of the pair, rows warp, warp + 8, and so on.
  OUTRIDER_DEVICE void chain_group(const std::byte* stage, const float* sum, int at, int lane,
                                   int warp, float (&chain)[kRowTiles]) const {
    const std::byte* scales = stage + kWeightBytes;
    const std::byte* x = stage + kStage - kActivationBytes + (at * kRows + warp) * kActivations;
    // Of the scales; those of the minimums lie behind them.
    const std::byte* units = stage + kUnits + at / kWarps * 2 * static_cast<int>(kUnitBytes);
    const float unit = F::kHasUnits ? unit_at(units, lane) : 0.0f;
    OUTRIDER_UNROLLED
    for (int half = 0; half < F::kScales; ++half) {
      const int index = at * F::kScales + half;
      const float scale = scale_at<F>(scales, index * kPairOutputs + lane, unit);
      OUTRIDER_UNROLLED
      for (int m = 0; m < kRowTiles; ++m) {
        const auto by = read<float>(x + 8 * m * kActivations + offsetof(QuantizedGroup, scale));
        chain[m] = fused(sum[(index * kRows + 8 * m + warp) * kSumStride + lane],
                         multiply(scale, by), chain[m]);
      }
    }
    if constexpr (F::kMinimum) {
      const float minimum_unit = F::kHasUnits ? unit_at(units + kUnitRow, lane) : 0.0f;
      const float minimum =
          scale_at<F>(scales + kScaleBytes, at * kPairOutputs + lane, minimum_unit);
      OUTRIDER_UNROLLED
      for (int m = 0; m < kRowTiles; ++m) {
        const auto by =
            read<float>(x + 8 * m * kActivations + offsetof(QuantizedGroup, scaled_sum));
        chain[m] = fused(minimum, by, chain[m]);
      }
    }
  }

  OUTRIDER_DEVICE void store(int lane, int warp, const float (&chain)[kRowTiles]) const {
    const std::int64_t n = static_cast<std::int64_t>(block_x() - part.first) * kPairOutputs + lane;
    OUTRIDER_UNROLLED
    for (int m = 0; m < kRowTiles; ++m) {
      const int row = 8 * m + warp;
      if (row < rows && n < part.outputs) store_output(part, row0 + row, n, chain[m]);
    }
  }
};

template <class F, int kRowTiles, int kDepth>
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kThreads, kRowTiles < 4 ? 2 : 1)
    few_rows(OUTRIDER_ARGUMENT FewBatch few) {
  const ProductPart part = part_of_block(few.products);
  const FewRows<F, kRowTiles, kDepth> block(few, part);
  allow_next();
  if (thread_index() < kHalfThreads) {
    block.run_sums();  // reads weights, which no kernel writes
  } else {
    wait_for_previous();
    block.run_chains();
  }
}

template <class F, int kRowTiles, int kDepth>
void run(const Product* products, int count, const MatmulInput& x, Stream stream) {
  using Block = FewRows<F, kRowTiles, kDepth>;
  unsigned blocks = 0;
  FewBatch batch{make_batch(products, count, x, kPairOutputs, blocks), kMinStages};
  const auto row_blocks = static_cast<unsigned>((x.rows + Block::kRows - 1) / Block::kRows);
  // Two blocks fit a multiprocessor, unless there are not so many.
  const DeviceLimits& limits = device_limits();
  const bool is_alone = static_cast<int>(blocks * row_blocks) <= limits.multiprocessors;
  const int room = is_alone ? limits.block_shared : limits.shared / 2 - 1024;
  while (batch.stages < kMaxStages &&
         (batch.stages + 2) * Block::kStage + Block::kSumBytes <= room) {
    batch.stages += 2;
  }
  const auto shared_bytes =
      static_cast<std::size_t>(batch.stages * Block::kStage + Block::kSumBytes);
  const Start start = kRowTiles == 1 ? Start::kBesidePrevious : Start::kBehindPrevious;
  launch(&few_rows<F, kRowTiles, kDepth>, {blocks, row_blocks, 1, kThreads, shared_bytes, start},
         stream, batch);
}

}  // namespace

void multiply_few_rows(const Product* products, int count, const MatmulInput& x,
                       const ProductChoice& choice, Stream stream) {
  with_format(products[0].weights.format, [&]<class F>(F) {
    if (choice.row_tiles == 1) {
      if constexpr (F::kScales == 1) {
        if (choice.depth == 2) return run<F, 1, 2>(products, count, x, stream);
      }
      return run<F, 1, 1>(products, count, x, stream);
    }
    if (choice.row_tiles == 2) return run<F, 2, 1>(products, count, x, stream);
    if constexpr (F::kScales == 1) run<F, 4, 1>(products, count, x, stream);
  });
}

}  // namespace outrider::cuda
