// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/speed.h"

#include <algorithm>
#include <cmath>

#include "bench/gpu/device_kernels.h"
#include "bench/gpu/layer_launches.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cuda/cases/kernel_cases.h"
#include "common/engine/model/cuda/kernels/lane_panels.h"

namespace outrider::gpu {
namespace {

using nlohmann::json;

struct Shape {
  std::int64_t outputs, inputs;
};
// Shapes of Llama 2 7B and Llama 3 8B; the last two are output matrices.
constexpr Shape kShapes[] = {{4096, 4096},  {11008, 4096}, {14336, 4096}, {4096, 11008},
                             {4096, 14336}, {32000, 4096}, {128256, 4096}};
constexpr std::int64_t kRows[] = {1, 2, 4, 8, 16, 32, 64, 320, 512};
constexpr std::int64_t kMaxRows = 512;

double rounded(double value) {
  return std::round(value * 100) / 100;
}

}  // namespace

WeightMatrix drawn_on_device(CudaMemory& memory, const WeightKind& kind, std::int64_t outputs,
                             std::int64_t inputs, std::uint32_t seed) {
  WeightMatrix matrix{
      .type = kind.type, .format = kind.format, .outputs = outputs, .inputs = inputs};
  const std::int64_t bytes =
      kind.type == WeightType::kQuantized ? bytes_of(matrix) : cuda::lane_panel_bytes(matrix);
  std::byte* const to = memory.reserve(static_cast<std::size_t>(bytes));
  fill_with_numbers(to, bytes, seed, nullptr);
  matrix.data = to;
  return matrix;
}

const WeightKind& kind_named(const std::string& name) {
  const auto& kinds = weight_kinds();
  return *std::find_if(kinds.begin(), kinds.end(),
                       [&](const WeightKind& kind) { return name == kind.name; });
}

json Speed::ceilings() {
  memory_.clear();
  const std::int64_t bytes = 1 << 30;
  std::byte* const from = memory_.reserve(bytes);
  std::byte* const to = memory_.reserve(bytes);
  auto* const out = reinterpret_cast<float*>(memory_.reserve(16 << 20));
  fill_with_numbers(from, bytes, 1, nullptr);
  const double copy =
      median_seconds([&](void* stream) { copy_on_device(to, from, bytes, stream); }, 0.05);
  const double read =
      median_seconds([&](void* stream) { read_bytes(from, bytes, out, stream); }, 0.05);
  constexpr int kRounds = 2000;
  const int blocks = facts_.multiprocessors * 8;
  const double threads = static_cast<double>(blocks) * kCeilingThreads;
  const double fuse =
      median_seconds([&](void* stream) { run_fused(blocks, kRounds, out, stream); }, 0.02);
  const double multiply =
      median_seconds([&](void* stream) { run_byte_products(blocks, kRounds, out, stream); }, 0.02);
  const double operations = threads * kRounds * kCeilingOperations;
  ceilings_ = {2.0 * bytes / copy, bytes / read, operations / fuse,
               operations / 32 * 16 * 32 * 8 / multiply};
  return {{"copy_gb_s", rounded(ceilings_.copy_bytes * 1e-9)},
          {"read_gb_s", rounded(ceilings_.read_bytes * 1e-9)},
          {"fused_tera_s", rounded(ceilings_.fused * 1e-12)},
          {"byte_products_tera_s", rounded(ceilings_.byte_products * 1e-12)}};
}

namespace {

// Several copies of one product, more than the L2 holds, one after the other.
struct Copies {
  std::vector<WeightMatrix> weights;
  MatmulInput x;
  MatmulOutput y;

  Copies(CudaMemory& memory, const WeightKind& kind, const Shape& shape, std::int64_t cache) {
    memory.clear();
    std::int64_t total = 0;
    do {
      const auto seed = static_cast<std::uint32_t>(weights.size());
      weights.push_back(drawn_on_device(memory, kind, shape.outputs, shape.inputs, seed));
      total += weight_bytes();
    } while (total < 3 * cache);
    const std::int64_t stride = pad_to_lanes(shape.inputs);
    const std::int64_t values = kMaxRows * stride * 4;
    const std::int64_t quantized = kMaxRows * quantized_row_bytes(shape.inputs);
    std::byte* const x_values = memory.reserve(static_cast<std::size_t>(values));
    std::byte* const x_quantized = memory.reserve(static_cast<std::size_t>(quantized));
    fill_with_numbers(x_values, values, 77, nullptr);
    fill_with_numbers(x_quantized, quantized, 78, nullptr);
    x = {0, stride, reinterpret_cast<const float*>(x_values), x_quantized};
    y = {memory.room<float>(static_cast<std::size_t>(kMaxRows * shape.outputs)), shape.outputs,
         nullptr, false};
  }

  std::int64_t weight_bytes() const {
    const WeightMatrix& one = weights.front();
    return one.type == WeightType::kQuantized ? bytes_of(one) : cuda::lane_panel_bytes(one);
  }

  // The time of one product.
  double seconds(std::int64_t rows, const cuda::ProductChoice& choice, double least) {
    x.rows = rows;
    const double all = median_seconds(
        [&](void* stream) {
          for (const WeightMatrix& matrix : weights) {
            const cuda::Product product{matrix, y};
            if (matrix.type == WeightType::kQuantized) {
              cuda::multiply_quantized(&product, 1, x, choice, stream);
            } else {
              cuda::multiply(&product, 1, x, stream);
            }
          }
        },
        least);
    return all / static_cast<double>(weights.size());
  }
};

}  // namespace

json Speed::products() {
  json all = json::array();
  for (const char* name : {"int8", "int4", "bf16"}) {
    for (const Shape& shape : kShapes) {
      if (is_quick_ && shape.outputs != 4096) continue;
      Copies copies(memory_, kind_named(name), shape, facts_.cache_bytes);
      const double floor = static_cast<double>(copies.weight_bytes()) / ceilings_.read_bytes;
      for (const std::int64_t rows : kRows) {
        const double time = copies.seconds(rows, {}, seconds());
        all.push_back(
            {{"kind", name},
             {"outputs", shape.outputs},
             {"inputs", shape.inputs},
             {"rows", rows},
             {"us", rounded(time * 1e6)},
             {"floor_us", rounded(floor * 1e6)},
             {"over_floor", rounded(time / floor)},
             {"tera_products_s",
              rounded(static_cast<double>(rows * shape.outputs * shape.inputs) / time * 1e-12)}});
      }
    }
  }
  return all;
}

json Speed::cuts() {
  json all = json::array();
  for (const char* name : {"int8", "int4"}) {
    for (const Shape& shape : {kShapes[0], kShapes[2], kShapes[3]}) {
      Copies copies(memory_, kind_named(name), shape, facts_.cache_bytes);
      for (const std::int64_t rows : {1, 8, 16, 32}) {
        for (const int tiles : {1, 2, 4, 8, 16, 32}) {
          for (const int depth : {1, 2}) {
            if (depth == 2 && tiles != 1) continue;
            const double time = copies.seconds(rows, {tiles, depth}, seconds() / 3);
            all.push_back({{"kind", name},
                           {"outputs", shape.outputs},
                           {"inputs", shape.inputs},
                           {"rows", rows},
                           {"row_tiles", tiles},
                           {"depth", depth},
                           {"us", rounded(time * 1e6)}});
          }
        }
      }
    }
  }
  return all;
}

json Speed::attention() {
  json all = json::array();
  for (const std::int64_t kv_heads : {32, 8}) {
    for (const std::int32_t positions : {128, 1024, 4096, 16384}) {
      for (const std::int64_t rows : {1, 8, 16, 64}) {
        if (rows * positions > 16 * 16384) continue;
        memory_.clear();
        const AttentionLaunch launch(memory_, {32, kv_heads, 128}, rows, positions);
        constexpr int kRuns = 8;  // one alone is the start of a graph
        const double time = median_seconds(
                                [&](void* stream) {
                                  for (int i = 0; i < kRuns; ++i) launch.run(stream);
                                },
                                seconds() / 3) /
                            kRuns;
        const double floor = static_cast<double>(launch.bytes()) / ceilings_.read_bytes;
        all.push_back({{"kv_heads", kv_heads},
                       {"positions", positions},
                       {"rows", rows},
                       {"us", rounded(time * 1e6)},
                       {"floor_us", rounded(floor * 1e6)}});
      }
    }
  }
  return all;
}

json Speed::row_kernels() {
  json all = json::array();
  for (const std::int64_t rows : {1, 8, 64, 320}) {
    memory_.clear();
    const RowLaunches launches(memory_, rows);
    const auto time = [&](const char* name, const std::function<void(void*)>& work) {
      // Eight in a row: one alone is the start of a graph.
      const double eight = median_seconds(
          [&](void* stream) {
            for (int i = 0; i < 8; ++i) work(stream);
          },
          seconds() / 3);
      all.push_back({{"kernel", name}, {"rows", rows}, {"us", rounded(eight / 8 * 1e6)}});
    };
    time("norm and quantise 4096", [&](void* stream) { launches.norm(stream); });
    time("activation and quantise 11008", [&](void* stream) { launches.silu(stream); });
    time("heads 32 and 32 of 128", [&](void* stream) { launches.place(stream); });
  }
  return all;
}

json Speed::passes() {
  json all = json::array();
  for (const char* name : {"int8", "int4", "bf16"}) {
    memory_.clear();
    PassLaunches pass(memory_, kind_named(name));
    for (const std::int64_t rows : {1, 4, 8, 16, 64, 320}) {
      pass.prepare(rows);
      const double time = median_seconds([&](void* stream) { pass.run(stream); }, 0.06);
      const double floor = static_cast<double>(pass.bytes()) / ceilings_.read_bytes;
      all.push_back({{"kind", name},
                     {"rows", rows},
                     {"positions", PassLaunches::kPositions},
                     {"ms", rounded(time * 1e3)},
                     {"floor_ms", rounded(floor * 1e3)},
                     {"over_floor", rounded(time / floor)}});
    }
  }
  return all;
}

}  // namespace outrider::gpu
