// Quantised products of many rows: a block takes 128 outputs of 16, 32 or 64 rows, and each warp 32
// outputs of half of the rows, with sums and their float chains in registers.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "common/engine/model/cuda/kernels/quantized_products.h"
#include "common/engine/model/cuda/kernels/quantized_tiles.h"

namespace outrider::cuda {
namespace {

constexpr int kPairs = 4;
constexpr int kThreads = 2 * kPairs * kWarpLanes;
constexpr int kBlockOutputs = kPairs * kPairOutputs;
constexpr int kDepth = 2;  // groups of a stage
constexpr int kStages = 4;
constexpr int kBlock = static_cast<int>(kBlockGroups);
constexpr int kBlockStages = kBlock / kDepth;

template <class F, int kTiles>
struct ManyRows {
  static constexpr int kRows = 2 * 8 * kTiles;
  static constexpr int kLowBytes = kDepth * kPairs * 2 * F::kLowGroup;
  static constexpr int kHighBytes = kDepth * kPairs * 2 * F::kHighGroup;
  static constexpr int kWeightBytes = kLowBytes + kHighBytes;
  static constexpr int kActivationBytes = kDepth * kRows * kActivations;
  static constexpr int kScaleBytes = kDepth * F::kScales * kBlockOutputs * F::kScaleBytes;
  static constexpr int kMinimumBytes = F::kMinimum ? kDepth * kBlockOutputs * F::kScaleBytes : 0;
  static constexpr int kUnitRow = 2 * kBlockOutputs;
  static constexpr int kStage =
      kWeightBytes + kActivationBytes + kScaleBytes + kMinimumBytes + F::kUnitRows * kUnitRow;
  static constexpr int kBytes = kStages * kStage;
  static constexpr bool kUnrolls = kTiles < 4 || !F::kMinimum;  // else registers are too few

  const QuantizedBatch& batch;
  const ProductPart& part;
  std::int64_t first_panel;
  std::int64_t last_panel;  // of the matrix
  int row0;
  int rows;  // from row0 on
  std::byte* memory;

  OUTRIDER_DEVICE ManyRows(const QuantizedBatch& batch, const ProductPart& part)
      : batch(batch),
        part(part),
        first_panel(static_cast<std::int64_t>(block_x() - part.first) * 2 * kPairs),
        last_panel((part.outputs + kPanelOutputs - 1) / kPanelOutputs - 1),
        row0(block_y() * kRows),
        rows(batch.rows - row0),
        memory(shared_memory()) {}

  // Past the last it is the last again, and nobody looks.
  OUTRIDER_DEVICE const std::byte* panel(int index) const {
    return part.weights + smaller(first_panel + index, last_panel) * batch.panel_bytes;
  }

  OUTRIDER_DEVICE void add_stage_group(const std::byte* from, int at,
                                       float (&sums)[kTiles][4][2]) const {
    const int warp = thread_index() / kWarpLanes, pair = warp % kPairs;
    const int weights = 2 * (at * kPairs + pair), output = pair * kPairOutputs;
    const std::byte* x = from + kWeightBytes;
    const std::byte* scales = x + kActivationBytes;
    const std::byte* minimums = scales + kScaleBytes;
    const std::byte* units = minimums + kMinimumBytes + output * 2;
    add_group<F, kBlockOutputs>(
        {from + weights * F::kLowGroup, from + kLowBytes + weights * F::kHighGroup,
         scales + (at * F::kScales * kBlockOutputs + output) * F::kScaleBytes,
         minimums + (at * kBlockOutputs + output) * F::kScaleBytes, units, units + kUnitRow,
         x + (at * kRows + warp / kPairs * 8 * kTiles) * kActivations},
        thread_index() % kWarpLanes / 4 * 4, sums);
  }

  static constexpr int kLowPieces = F::kLowGroup / 16;  // of a panel's group
  static constexpr int kHighPieces = F::kBits == 6 ? F::kHighPieces : 1;
  static constexpr int kRowPieces = F::kScaleRow / 16;
  static constexpr int kUnitPieces = static_cast<int>(kUnitBytes) / 16;

  // Where piece i of the first stage comes from: of weights with so many pieces of a panel's group,
  // which begin `from` its values; of scales or minimums, see F::scales_at(); of units; of
  // activations.
  OUTRIDER_DEVICE CopyPlace weights_place(int i, int pieces, int from) const {
    const int index = i / pieces % (2 * kPairs), at = i / pieces / (2 * kPairs);
    return {panel(index) + F::values_at(at) + from + i % pieces * 16, at};
  }
  OUTRIDER_DEVICE CopyPlace scales_place(int i, std::int64_t first, int each) const {
    const int row = i / (2 * kPairs * kRowPieces), at = i % (2 * kPairs * kRowPieces);
    return {panel(at / kRowPieces) + F::scales_at(first, row, each) + at % kRowPieces * 16,
            row / each};
  }
  OUTRIDER_DEVICE CopyPlace units_place(int i) const {
    const int row = i / (2 * kPairs * kUnitPieces), at = i % (2 * kPairs * kUnitPieces);
    return {panel(at / kUnitPieces) + row * static_cast<int>(kUnitBytes) + at % kUnitPieces * 16,
            0};
  }
  OUTRIDER_DEVICE CopyPlace activations_place(int i) const {
    const int piece = i % kActivationPieces, row = i / kActivationPieces % kRows;
    const int at = i / kActivationPieces / kRows;
    const std::int64_t group = static_cast<std::int64_t>(row0 + row) * batch.groups + at;
    return {batch.x + group * kGroupBytes + piece * 16, row < rows ? at : kNeverCopied};
  }

  OUTRIDER_DEVICE void run() const {
    const int thread = thread_index();
    const int mixed = mixed_piece(thread % 16) - thread % 16;  // where the thread's pieces go
    CopyItems<kLowBytes / 16, kThreads> weights(
        thread, [this](int i) { return weights_place(i, kLowPieces, 0); });
    CopyItems<F::kBits == 6 ? kHighBytes / 16 : 1, kThreads> high(
        thread, [this](int i) { return weights_place(i, kHighPieces, F::kLowGroup); });
    CopyItems<kScaleBytes / 16, kThreads> scales(
        thread, [this](int i) { return scales_place(i, batch.scales, F::kScales); });
    CopyItems<F::kMinimum ? kMinimumBytes / 16 : 1, kThreads> minimums(
        thread, [this](int i) { return scales_place(i, batch.minimums, 1); });
    CopyItems<F::kHasUnits ? F::kUnitRows * kUnitRow / 16 : 1, kThreads> units(
        thread, [this](int i) { return units_place(i); });
    CopyItems<kActivationBytes / 16, kThreads> activations(
        thread, [this](int i) { return activations_place(i); });
    // Fetches the weights of a stage; stages behind the last copy nothing.
    const auto fetch_weights = [&](int index) {
      std::byte* to = memory + index % kStages * kStage;
      const int left = batch.groups - index * kDepth;
      // From this stage's groups to the next one's, with what lies between two blocks.
      const bool is_last = F::kHasUnits && index % kBlockStages == kBlockStages - 1;
      const auto step_of = [&](int row, int rows) {
        return kDepth * rows * row + (is_last ? F::kBlockBytes - kBlock * rows * row : 0);
      };
      weights.copy(thread + mixed, to, left, step_of(F::kPanelGroup, 1));
      if constexpr (F::kBits == 6) {
        high.copy(thread, to + kLowBytes, left, step_of(F::kPanelGroup, 1));
      }
      to += kWeightBytes + kActivationBytes;
      scales.copy(thread, to, left, step_of(F::kScaleRow, F::kScales));
      to += kScaleBytes;
      if constexpr (F::kMinimum) minimums.copy(thread, to, left, step_of(F::kScaleRow, 1));
      to += kMinimumBytes;
      if constexpr (F::kHasUnits) units.copy(thread, to, left, is_last ? F::kBlockBytes : 0);
    };
    const auto fetch_activations = [&](int index) {
      activations.copy(thread, memory + index % kStages * kStage + kWeightBytes,
                       batch.groups - index * kDepth, kDepth * kGroupBytes);
      commit_copies();
    };
    const int stages = (batch.groups + kDepth - 1) / kDepth;
    float sums[kTiles][4][2] = {};
    for (int s = 0; s < kStages - 1; ++s) {
      fetch_weights(s);
      fetch_activations(s);
    }
    for (int s = 0; s < stages; ++s) {
      wait_copies<kStages - 2>();
      sync_threads();
      fetch_weights(s + kStages - 1);
      fetch_activations(s + kStages - 1);
      const std::byte* from = memory + s % kStages * kStage;
      if (kUnrolls && (s + 1) * kDepth <= batch.groups) {
        OUTRIDER_UNROLLED
        for (int at = 0; at < kDepth; ++at) add_stage_group(from, at, sums);
        continue;
      }
      OUTRIDER_NOT_UNROLLED
      for (int at = 0; at < kDepth && s * kDepth + at < batch.groups; ++at) {
        add_stage_group(from, at, sums);
      }
    }
    store(sums);
  }

  OUTRIDER_DEVICE void store(const float (&sums)[kTiles][4][2]) const {
    const int lane = thread_index() % kWarpLanes, warp = thread_index() / kWarpLanes;
    const std::int64_t n = static_cast<std::int64_t>(block_x() - part.first) * kBlockOutputs +
                           warp % kPairs * kPairOutputs + lane / 4 * 4;
    OUTRIDER_UNROLLED
    for (int m = 0; m < kTiles; ++m) {
      OUTRIDER_UNROLLED
      for (int i = 0; i < 2; ++i) {
        const int row = (warp / kPairs * kTiles + m) * 8 + lane % 4 * 2 + i;
        OUTRIDER_UNROLLED
        for (int o = 0; o < 4; ++o) {
          if (row < rows && n + o < part.outputs)
            store_output(part, row0 + row, n + o, sums[m][o][i]);
        }
      }
    }
  }
};

template <class F, int kTiles>
OUTRIDER_KERNEL OUTRIDER_BOUNDS(kThreads, 2) many_rows(OUTRIDER_ARGUMENT QuantizedBatch batch) {
  allow_next();
  const ProductPart part = part_of_block(batch);
  ManyRows<F, kTiles>(batch, part).run();
}

template <class F, int kTiles>
void run(const Product* products, int count, const MatmulInput& x, Stream stream) {
  using Block = ManyRows<F, kTiles>;
  unsigned blocks = 0;
  const QuantizedBatch batch = make_batch(products, count, x, kBlockOutputs, blocks);
  const auto row_blocks = static_cast<unsigned>((x.rows + Block::kRows - 1) / Block::kRows);
  launch<&many_rows<F, kTiles>>({blocks, row_blocks, 1, kThreads, Block::kBytes}, stream, batch);
}

// Rows of a block: of 16, 32 or 64, what the multiprocessors are done with first by the times that
// were measured on an H100 (a block alone takes 2 + tiles; two together a fifth less than twice).
int choose_tiles(const Product* products, int count, std::int64_t rows) {
  std::int64_t blocks = 0;
  for (int i = 0; i < count; ++i) {
    blocks += (products[i].weights.outputs + kBlockOutputs - 1) / kBlockOutputs;
  }
  int best = 1;
  double least = 0;
  for (const int tiles : {1, 2, 4}) {
    const std::int64_t all = blocks * ((rows + 16 * tiles - 1) / (16 * tiles));
    const double each = std::ceil(static_cast<double>(all) / device_limits().multiprocessors);
    const double time = (2 + tiles) * (each > 1 ? 0.8 * each : 1.0);
    if (least == 0 || time < least) {
      least = time;
      best = tiles;
    }
  }
  return best;
}

}  // namespace

void multiply_many_rows(const Product* products, int count, const MatmulInput& x, int tiles,
                        Stream stream) {
  if (tiles == 0) tiles = choose_tiles(products, count, x.rows);
  with_format(products[0].weights.format, [&]<class F>(F) {
    if (tiles == 1) return run<F, 1>(products, count, x, stream);
    if (tiles == 2) return run<F, 2>(products, count, x, stream);
    run<F, 4>(products, count, x, stream);
  });
}

}  // namespace outrider::cuda
