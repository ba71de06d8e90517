// Quantised products of few rows: a block takes a pair of panels. Two warps for each eight rows sum
// and run the float chains, one for each panel, in registers; eight others copy.
//
// Groups come in rounds of eight or sixteen. While a round is summed, copies of later ones go on.
// So 4,096 outputs, 128 pairs, keep the memory of 132 multiprocessors busy, although a sum's chain
// cannot be cut.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/kernels/quantized_products.h"
#include "common/engine/model/cuda/kernels/quantized_tiles.h"

namespace outrider::cuda {
namespace {

constexpr int kBlock = static_cast<int>(kBlockGroups);
constexpr int kCopyWarps = 4;
constexpr int kCopyThreads = kCopyWarps * kWarpLanes;  // of weights, and as many of all else
constexpr int kMinStages = 4, kMaxStages = 10;

struct FewBatch {
  QuantizedBatch products;
  int stages;
};

// The shared memory of a block is a ring of stages, a round each.
template <class F, int kRowTiles, int kDepth>
struct FewRows {
  static constexpr int kSumThreads = 2 * kRowTiles * kWarpLanes;
  static constexpr int kThreads = kSumThreads + 2 * kCopyThreads;
  static constexpr int kBeside = kRowTiles < 4 ? 2 : 1;  // blocks that share a multiprocessor
  static constexpr int kRows = 8 * kRowTiles;
  static constexpr int kRound = kBlock * kDepth;  // groups: whole blocks of a panel
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
  static_assert(kMinStages * kStage <= 163 << 10);

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
  // A ring of `stages` stages for those who copy. `fetch(to, left)` copies a round, nothing if no
  // groups are left.
  template <class Fetch>
  OUTRIDER_DEVICE void run_copies(const Fetch& fetch) const {
    int fetched = 0, filled = 0;  // round, and its stage
    const auto fetch_next = [&] {
      fetch(memory + filled * kStage, batch.groups - fetched * kRound);
      commit_copies();
      ++fetched;
      if (++filled == stages) filled = 0;
    };
    for (int i = 0; i < stages - 1; ++i) fetch_next();
    for (int r = 0; r < rounds; ++r) {
      wait_for_round();
      sync_threads();  // round r is here for all, and the one before it is done with
      fetch_next();
    }
  }

  // Until all copies but those of stages - 2 rounds are there.
  OUTRIDER_DEVICE void wait_for_round() const {
    switch (stages) {
      case 10:
        return wait_copies<8>();
      case 8:
        return wait_copies<6>();
      case 6:
        return wait_copies<4>();
      default:
        return wait_copies<2>();
    }
  }

  // Copies the share of the weights that belongs to this thread.
  OUTRIDER_DEVICE void copy_weights(int thread) const {
    const int lane = thread % kWarpLanes, warp = thread / kWarpLanes;
    // 8 bits: first one panel's piece, then the other's; 4 bits: half of the lanes each.
    constexpr int kPanelPieces = F::kLowGroup / 16;
    constexpr int kEach = kRound / kCopyWarps;  // groups
    const std::int64_t other = second_panel - first_panel;
    const std::byte* from = first_panel + (lane / kPanelPieces == 0 ? 0 : other) +
                            lane % kPanelPieces * 16 + F::values_at(warp);
    const std::byte* high = panel(lane / 8 % 2) + F::values_at(warp) + F::kLowGroup + lane % 8 * 16;
    run_copies([&](std::byte* to, int left) {
      OUTRIDER_UNROLLED
      for (int d = 0; d < kEach; ++d) {
        const int at = d * kCopyWarps + warp;
        const int step = F::values_at(d * kCopyWarps) - F::values_at(0);
        if (at >= left) continue;
        if constexpr (F::kHighGroup > 0) {
          if (lane < 2 * F::kHighPieces) {
            copy_async(to + kLowBytes + (at * 2 * F::kHighPieces + lane) * 16, high + step);
          }
        }
        OUTRIDER_UNROLLED
        for (int piece = 0; piece < F::kPieces; ++piece) {
          copy_async(to + (at * F::kPieces + piece) * 512 + mixed_piece(lane) * 16,
                     from + step + piece * other);
        }
      }
      from += kDepth * F::kBlockBytes;
      high += kDepth * F::kBlockBytes;
    });
  }

  // Copies the share of all else that belongs to this thread.
  OUTRIDER_DEVICE void copy_others(int thread) const {
    const auto scales_of = [&](std::int64_t first, int each) {
      return [=, this](int i) {
        const int row = i / (2 * kScalePieces), at = i % (2 * kScalePieces);
        return CopyPlace{
            panel(at / kScalePieces) + F::scales_at(first, row, each) + at % kScalePieces * 16,
            row / each};
      };
    };
    CopyItems<kScaleBytes / 16, kCopyThreads> scales(thread, scales_of(batch.scales, F::kScales));
    CopyItems<F::kMinimum ? kMinimumBytes / 16 : 1, kCopyThreads> minimums(
        thread, scales_of(batch.minimums, 1));
    CopyItems<F::kHasUnits ? F::kUnitRows * kUnitRow / 16 : 1, kCopyThreads> units(
        thread, [&](int i) {
          const int row = i / (2 * kUnitPieces), at = i % (2 * kUnitPieces);
          const int block = row % kDepth;
          return CopyPlace{panel(at / kUnitPieces) + block * F::kBlockBytes +
                               row / kDepth * static_cast<int>(kUnitBytes) + at % kUnitPieces * 16,
                           block * kBlock};
        });
    CopyItems<kActivationBytes / 16, kCopyThreads> activations(thread, [&](int i) {
      const int piece = i % kActivationPieces, row = i / kActivationPieces % kRows;
      const int at = i / kActivationPieces / kRows;
      return CopyPlace{
          batch.x + (static_cast<std::int64_t>(row0 + row) * batch.groups + at) * kGroupBytes +
              piece * 16,
          row < rows ? at : kNeverCopied};
    });
    run_copies([&](std::byte* to, int left) {
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
    });
  }

  // The sums and chains of a warp: of eight rows and a panel.
  OUTRIDER_DEVICE void run_sums() const {
    const int lane = thread_index() % kWarpLanes, warp = thread_index() / kWarpLanes;
    const int tile = warp / 2, output = warp % 2 * 16 + lane / 4 * 2;
    float chains[1][2][2] = {};
    int at = 0;  // stage
    for (int r = 0; r < rounds; ++r) {
      sync_threads();
      const std::byte* stage = memory + at * kStage;
      if (++at == stages) at = 0;
      if (8 * tile >= rows) continue;
      const int left = batch.groups - r * kRound;
      if (left >= kRound) {
        OUTRIDER_NOT_UNROLLED
        for (int block = 0; block < kRound; block += kBlock) {
          OUTRIDER_UNROLLED
          for (int i = 0; i < kBlock; ++i) add_stage_group(stage, block + i, tile, output, chains);
        }
      } else {
        OUTRIDER_NOT_UNROLLED
        for (int i = 0; i < left; ++i) add_stage_group(stage, i, tile, output, chains);
      }
    }
    wait_for_previous();  // those who copy rows did; what is added to was written before
    store(tile, output, chains[0]);
  }

  OUTRIDER_DEVICE void add_stage_group(const std::byte* stage, int at, int tile, int output,
                                       float (&chains)[1][2][2]) const {
    const std::byte* units = stage + kUnits + at / kBlock * 2 * static_cast<int>(kUnitBytes);
    add_group<F, kPairOutputs>(
        {stage + at * 2 * F::kLowGroup, stage + kLowBytes + at * 2 * F::kHighGroup,
         stage + kWeightBytes + at * F::kScales * 2 * F::kScaleRow,
         stage + kWeightBytes + kScaleBytes + at * 2 * F::kScaleRow, units, units + kUnitRow,
         stage + kStage - kActivationBytes + (at * kRows + 8 * tile) * kActivations},
        output, chains);
  }

  OUTRIDER_DEVICE void store(int tile, int output, const float (&chains)[2][2]) const {
    const int lane = thread_index() % kWarpLanes;
    const std::int64_t n =
        static_cast<std::int64_t>(block_x() - part.first) * kPairOutputs + output;
    OUTRIDER_UNROLLED
    for (int i = 0; i < 2; ++i) {
      const int row = 8 * tile + lane % 4 * 2 + i;
      OUTRIDER_UNROLLED
      for (int o = 0; o < 2; ++o) {
        if (row < rows && n + o < part.outputs) store_output(part, row0 + row, n + o, chains[o][i]);
      }
    }
  }
};

template <class F, int kRowTiles, int kDepth>
OUTRIDER_KERNEL OUTRIDER_BOUNDS((FewRows<F, kRowTiles, kDepth>::kThreads),
                                (FewRows<F, kRowTiles, kDepth>::kBeside))
    few_rows(OUTRIDER_ARGUMENT FewBatch few) {
  const ProductPart part = part_of_block(few.products);
  const FewRows<F, kRowTiles, kDepth> block(few, part);
  allow_next();
  const int copier = thread_index() - FewRows<F, kRowTiles, kDepth>::kSumThreads;
  if (copier < 0) return block.run_sums();
  if (copier < kCopyThreads) return block.copy_weights(copier);  // which no kernel writes
  wait_for_previous();
  block.copy_others(copier - kCopyThreads);
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
  while (batch.stages < kMaxStages && (batch.stages + 2) * Block::kStage <= room) {
    batch.stages += 2;
  }
  const auto shared_bytes = static_cast<std::size_t>(batch.stages * Block::kStage);
  const Start start = kRowTiles == 1 ? Start::kBesidePrevious : Start::kBehindPrevious;
  launch<&few_rows<F, kRowTiles, kDepth>>(
      {blocks, row_blocks, 1, Block::kThreads, shared_bytes, start}, stream, batch);
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
