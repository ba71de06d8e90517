// Products of f32, bf16 and f16 weights in the CPU's sixteen virtual lanes: a block takes 32
// outputs, and a thread two lanes of some of them for some rows, so that each chain of fused
// multiply-adds stays in one register. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/kernels/lane_panels.h"
#include "common/engine/model/cuda/kernels/quantized_tiles.h"

namespace outrider::cuda {
namespace {

struct LaneBatch {
  ProductPart parts[kMaxProducts];
  int count;
  int rows;
  int steps;
  std::int64_t panel_steps;  // of a panel in memory
  const float* x;            // [rows, stride]
  std::int64_t stride;
};

struct TwoFloats {
  float x, y;
};

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
constexpr bool kSpillsSooner = true;
#else
constexpr bool kSpillsSooner = false;
#endif

// Two elements, widened.
template <WeightType kType>
OUTRIDER_DEVICE TwoFloats load_two(const std::byte* from) {
  if constexpr (kType == WeightType::kF32) {
    const Two two = read<Two>(from);
    return {as_float(two.x), as_float(two.y)};
  } else {
    const auto two = read<std::uint32_t>(from);
    if constexpr (kType == WeightType::kBf16) {
      return {as_float(two << 16), as_float(two & 0xffff0000u)};
    } else {
      return {widen_f16(static_cast<std::uint16_t>(two)),
              widen_f16(static_cast<std::uint16_t>(two >> 16))};
    }
  }
}

// kOutputs and kRows: of a thread, for two of the lanes; what it reads of shared memory is what
// they have in common. kGroups: of threads, each with rows of its own.
template <WeightType kTypeOf, int kOutputsOf, int kRowsOf, int kGroupsOf>
struct LaneBlock {
  static constexpr WeightType kType = kTypeOf;
  static constexpr int kOutputs = kOutputsOf, kRows = kRowsOf, kGroups = kGroupsOf;
  static constexpr int kSteps = kOutputs == 8 ? 4 : 8;  // of a stage
  // Eight threads share an output, four such eights are a warp.
  static constexpr int kGroupThreads = kPairOutputs / kOutputs * 8;
  static constexpr int kThreads = kGroups * kGroupThreads;
  static constexpr int kBlockRows = kRows * kGroups;
  // On a multiprocessor: what the registers are for.
  static constexpr int kMinBlocks = 512 / kThreads;
  // Two steps at once would take more of them than there are.
  static constexpr bool kIsWide = kOutputs == 8 && (kType == WeightType::kF32 || kSpillsSooner);
  static constexpr int kBytesOf = kType == WeightType::kF32 ? 4 : 2;
  static constexpr int kPanelStep = 16 * 16 * kBytesOf;
  static constexpr int kWeightBytes = 2 * kSteps * kPanelStep;
  static constexpr int kRowStep = 16 * 4;  // bytes of activations
  static constexpr int kActivationBytes = kSteps * kBlockRows * kRowStep;
  static constexpr int kStage = kWeightBytes + kActivationBytes;
  static constexpr int kWanted = 54 * 1024 / kStage;
  static constexpr int kStages = kWanted < 3 ? 3 : kWanted;
  static constexpr int kBytes = kStages * kStage;

  const LaneBatch& batch;
  const ProductPart& part;
  int row0;
  int rows;  // from row0 on
  std::byte* memory;

  OUTRIDER_DEVICE LaneBlock(const LaneBatch& batch, const ProductPart& part)
      : batch(batch),
        part(part),
        row0(block_y() * kBlockRows),
        rows(batch.rows - row0),
        memory(shared_memory()) {}

  // The thread's outputs are kOutputs of the block's, four apart.
  static OUTRIDER_DEVICE int output_of(int thread, int o) {
    return thread % kGroupThreads / 32 * (4 * kOutputs) + 4 * o + thread % 32 / 8;
  }

  OUTRIDER_DEVICE void add_step(const std::byte* from, int at, int thread,
                                float (&sums)[kOutputs][kRows][2]) const {
    const int lanes = thread % 8 * 2;
    const std::byte* x = from + kWeightBytes +
                         (at * kBlockRows + thread / kGroupThreads * kRows) * kRowStep + lanes * 4;
    TwoFloats w[kOutputs];
    OUTRIDER_UNROLLED
    for (int o = 0; o < kOutputs; ++o) {
      const int output = output_of(thread, o);
      w[o] = load_two<kType>(from + output / 16 * (kWeightBytes / 2) + at * kPanelStep +
                             (output % 16 * 16 + lanes) * kBytesOf);
    }
    OUTRIDER_UNROLLED
    for (int r = 0; r < kRows; ++r) {
      const Two two = read<Two>(x + r * kRowStep);
      OUTRIDER_UNROLLED
      for (int o = 0; o < kOutputs; ++o) {
        sums[o][r][0] = fused(w[o].x, as_float(two.x), sums[o][r][0]);
        sums[o][r][1] = fused(w[o].y, as_float(two.y), sums[o][r][1]);
      }
    }
  }

  OUTRIDER_DEVICE void run() const {
    const int thread = thread_index();
    const std::int64_t last = (part.outputs + kPanelOutputs - 1) / kPanelOutputs - 1;
    const std::int64_t panel = batch.panel_steps * kPanelStep;
    CopyItems<kWeightBytes / 16, kThreads> weights(thread, [&](int i) {
      const int index = i / (kWeightBytes / 32), at = i % (kWeightBytes / 32) * 16;
      const std::int64_t first = 2 * static_cast<std::int64_t>(block_x() - part.first) + index;
      return CopyPlace{part.weights + smaller(first, last) * panel + at, at / kPanelStep};
    });
    CopyItems<kActivationBytes / 16, kThreads> activations(thread, [&](int i) {
      const int row = i / 4 % kBlockRows, at = i / 4 / kBlockRows;
      const float* from = batch.x + (row0 + row) * batch.stride + at * 16 + i % 4 * 4;
      return CopyPlace{reinterpret_cast<const std::byte*>(from), row < rows ? at : kNeverCopied};
    });
    // Fetches the weights of a stage; stages behind the last copy nothing.
    const auto fetch_weights = [&](int index, int to) {
      weights.copy(thread, memory + to * kStage, batch.steps - index * kSteps, kSteps * kPanelStep);
    };
    const auto fetch_activations = [&](int index, int to) {
      activations.copy(thread, memory + to * kStage + kWeightBytes, batch.steps - index * kSteps,
                       kSteps * kRowStep);
      commit_copies();
    };
    float sums[kOutputs][kRows][2] = {};
    for (int s = 0; s < kStages - 1; ++s) fetch_weights(s, s);
    wait_for_previous();
    for (int s = 0; s < kStages - 1; ++s) fetch_activations(s, s);
    int stage = 0;
    for (int s = 0; s * kSteps < batch.steps; ++s) {
      wait_copies<kStages - 2>();
      sync_threads();
      const int free = stage == 0 ? kStages - 1 : stage - 1;
      fetch_weights(s + kStages - 1, free);
      fetch_activations(s + kStages - 1, free);
      const int first = s * kSteps;
      const std::byte* from = memory + stage * kStage;
      if (!kIsWide && first + kSteps <= batch.steps) {
        OUTRIDER_UNROLLED_TWICE
        for (int at = 0; at < kSteps; ++at) add_step(from, at, thread, sums);
      } else {
        const int count = smaller(batch.steps - first, kSteps);
        OUTRIDER_NOT_UNROLLED
        for (int at = 0; at < count; ++at) add_step(from, at, thread, sums);
      }
      if (++stage == kStages) stage = 0;
    }
    store(thread, sums);
  }

  // Lanes i + (i + 8), then i + (i + 4), i + (i + 2), i + (i + 1).
  OUTRIDER_DEVICE void store(int thread, const float (&sums)[kOutputs][kRows][2]) const {
    OUTRIDER_UNROLLED
    for (int o = 0; o < kOutputs; ++o) {
      const std::int64_t n =
          static_cast<std::int64_t>(block_x() - part.first) * kPairOutputs + output_of(thread, o);
      OUTRIDER_UNROLLED
      for (int r = 0; r < kRows; ++r) {
        float folded[2];
        OUTRIDER_UNROLLED
        for (int i = 0; i < 2; ++i) {
          folded[i] = sums[o][r][i];
          OUTRIDER_UNROLLED
          for (int mask = 4; mask > 0; mask /= 2) {
            folded[i] = add(folded[i], shuffle_xor(folded[i], mask));
          }
        }
        const int row = thread / kGroupThreads * kRows + r;
        if (thread % 8 == 0 && row < rows && n < part.outputs) {
          store_output(part, row0 + row, n, add(folded[0], folded[1]));
        }
      }
    }
  }
};

template <class Block>
OUTRIDER_KERNEL OUTRIDER_BOUNDS(Block::kThreads, Block::kMinBlocks)
    multiply_lanes_block(OUTRIDER_ARGUMENT LaneBatch batch) {
  allow_next();
  const ProductPart part = part_of_block(batch);
  Block(batch, part).run();
}

template <class Block>
void run(const LaneBatch& batch, unsigned blocks, Stream stream) {
  const auto row_blocks =
      static_cast<unsigned>((batch.rows + Block::kBlockRows - 1) / Block::kBlockRows);
  const Start start = batch.rows == 1 ? Start::kBesidePrevious : Start::kBehindPrevious;
  launch<&multiply_lanes_block<Block>>(
      {blocks, row_blocks, 1, Block::kThreads, Block::kBytes, start}, stream, batch);
}

template <WeightType kType>
void run_type(const LaneBatch& batch, unsigned blocks, Stream stream) {
  if (batch.rows == 1) return run<LaneBlock<kType, 2, 1, 1>>(batch, blocks, stream);
  if (batch.rows <= 2) return run<LaneBlock<kType, 2, 2, 1>>(batch, blocks, stream);
  if (batch.rows <= 4) return run<LaneBlock<kType, 2, 4, 1>>(batch, blocks, stream);
  if (batch.rows <= 8) return run<LaneBlock<kType, 4, 4, 2>>(batch, blocks, stream);
  if (batch.rows <= 16) return run<LaneBlock<kType, 4, 4, 4>>(batch, blocks, stream);
  run<LaneBlock<kType, 8, 4, 8>>(batch, blocks, stream);
}

}  // namespace

void multiply_lanes(const Product* products, int count, const MatmulInput& x, Stream stream) {
  LaneBatch batch{};
  batch.count = count;
  batch.rows = static_cast<int>(x.rows);
  batch.steps = static_cast<int>(pad_to_lanes(products[0].weights.inputs) / kLaneStep);
  batch.panel_steps = pad_to_lanes(products[0].weights.row_inputs()) / kLaneStep;
  batch.x = x.values;
  batch.stride = x.stride;
  unsigned blocks = 0;
  for (int i = 0; i < count; ++i) {
    const auto& [weights, y] = products[i];
    batch.parts[i] = {static_cast<const std::byte*>(weights.data),
                      y.y,
                      y.bias,
                      y.stride,
                      weights.outputs,
                      static_cast<int>(blocks),
                      y.add};
    blocks += static_cast<unsigned>((weights.outputs + kPairOutputs - 1) / kPairOutputs);
  }
  switch (products[0].weights.type) {
    case WeightType::kF32:
      return run_type<WeightType::kF32>(batch, blocks, stream);
    case WeightType::kBf16:
      return run_type<WeightType::kBf16>(batch, blocks, stream);
    case WeightType::kF16:
      return run_type<WeightType::kF16>(batch, blocks, stream);
    case WeightType::kQuantized:
      break;
  }
}

}  // namespace outrider::cuda
