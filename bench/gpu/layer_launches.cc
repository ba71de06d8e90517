// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/layer_launches.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "bench/gpu/device_kernels.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cuda/device/cuda_driver.h"
#include "common/engine/model/cuda/kernels/lane_panels.h"

namespace outrider::gpu {
namespace {

constexpr std::int64_t kHidden = 4096, kWide = 11008, kVocabulary = 32000, kLayers = 32;
constexpr cuda::Heads kShape{32, 32, 128};
constexpr std::int64_t kMaxRows = 320;

std::byte* drawn_bytes(CudaMemory& memory, std::int64_t bytes) {
  const std::int64_t whole = (bytes + 255) / 256 * 256;
  std::byte* const to = memory.reserve(static_cast<std::size_t>(whole));
  fill_with_numbers(to, whole, static_cast<std::uint32_t>(whole), nullptr);
  return to;
}
float* drawn_floats(CudaMemory& memory, std::int64_t count) {
  return reinterpret_cast<float*>(drawn_bytes(memory, count * 4));
}

cuda::HeadPlacement drawn_placement(CudaMemory& memory, std::int64_t rows) {
  std::vector<std::int32_t> slots(static_cast<std::size_t>(rows));
  std::iota(slots.begin(), slots.end(), 0);
  const std::int64_t pages = (rows + kKvPageSlots - 1) / kKvPageSlots;
  const std::int64_t page = kShape.kv_heads * kKvPageSlots * kShape.head_dim;
  return {.rows = rows,
          .shape = kShape,
          .queries = drawn_floats(memory, rows * kHidden),
          .keys = drawn_floats(memory, rows * kHidden),
          .values = drawn_floats(memory, rows * kHidden),
          .cos = drawn_floats(memory, rows * 64),
          .sin = drawn_floats(memory, rows * 64),
          .slots = memory.upload(slots),
          .rotated = drawn_floats(memory, rows * kHidden),
          .planes = {drawn_bytes(memory, pages * page * 2), drawn_bytes(memory, pages * page * 2),
                     true, page}};
}

}  // namespace

void copy_on_device(std::byte* to, const std::byte* from, std::int64_t bytes, void* stream) {
  require_cuda(cuda::cuda_driver().copy_on_device(
                   reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                   static_cast<std::size_t>(bytes), static_cast<CUstream>(stream)),
               "a copy on the device");
}

AttentionLaunch::AttentionLaunch(CudaMemory& memory, const cuda::Heads& shape, std::int64_t rows,
                                 std::int32_t positions) {
  std::vector<std::int32_t> path(static_cast<std::size_t>(positions));
  std::iota(path.begin(), path.end(), 0);
  const std::int32_t* const on_device = memory.upload(path);
  const std::vector<cuda::SeenRow> seen(
      static_cast<std::size_t>(rows),
      {on_device, on_device + positions - 1, positions - 1, 0, positions});
  const auto shared = static_cast<std::int32_t>(shape.heads / shape.kv_heads);
  const auto pairs = static_cast<std::int32_t>(rows) * shared;
  std::vector<cuda::Bundle> bundles;
  for (std::int32_t first = 0; first < pairs; first += cuda::kMaxBundle) {
    bundles.push_back({first, std::min(cuda::kMaxBundle, pairs - first), first / shared});
  }
  const std::int64_t page = shape.kv_heads * kKvPageSlots * shape.head_dim;
  const std::int64_t pages = (positions + kKvPageSlots - 1) / kKvPageSlots;
  const std::int64_t parts = (positions + kAttentionPart - 1) / kAttentionPart;
  const std::int64_t each = rows * shape.heads * parts;
  bytes_ = 2 * 2 * pages * page;
  attention_ = {
      .shape = shape,
      .queries = drawn_floats(memory, rows * shape.heads * shape.head_dim),
      .rows = memory.upload(seen),
      .bundles = memory.upload(bundles),
      .num_rows = rows,
      .num_bundles = static_cast<std::int64_t>(bundles.size()),
      .parts = parts,
      .scores = drawn_floats(memory, each * kAttentionPart),
      .partials = drawn_floats(memory, each * (shape.head_dim + kPartialExtra)),
      .scale = 1.0f / std::sqrt(static_cast<float>(shape.head_dim)),
      .planes = {drawn_bytes(memory, bytes_ / 2), drawn_bytes(memory, bytes_ / 2), true, page}};
  out_ = drawn_floats(memory, rows * shape.heads * shape.head_dim);
}

void AttentionLaunch::run(void* stream) const {
  cuda::attend(attention_, stream);
  const std::int64_t count = attention_.shape.heads * attention_.shape.head_dim;
  cuda::combine_parts(attention_, {out_, attention_.num_rows, count, count}, nullptr, stream);
}

RowLaunches::RowLaunches(CudaMemory& memory, std::int64_t rows)
    : hidden_{drawn_floats(memory, rows * kHidden), rows, kHidden, kHidden},
      gate_{drawn_floats(memory, rows * kWide), rows, kWide, kWide},
      weight_(drawn_floats(memory, kHidden)),
      up_(drawn_floats(memory, rows * kWide)),
      normed_(drawn_floats(memory, rows * kHidden)),
      quantized_(drawn_bytes(memory, rows * quantized_row_bytes(kWide))),
      placement_(drawn_placement(memory, rows)) {}

void RowLaunches::norm(void* stream) const {
  cuda::norm_and_quantize(hidden_, weight_, 1e-5f, normed_, quantized_, stream);
}
void RowLaunches::silu(void* stream) const {
  cuda::silu_and_quantize(gate_, up_, quantized_, stream);
}
void RowLaunches::place(void* stream) const {
  cuda::place_heads(placement_, stream);
}

PassLaunches::PassLaunches(CudaMemory& memory, const WeightKind& kind)
    : memory_(memory), is_quantized_(kind.type == WeightType::kQuantized) {
  const auto draw = [&](std::int64_t outputs, std::int64_t inputs) {
    WeightMatrix matrix =
        drawn_on_device(memory, kind, outputs, inputs, static_cast<std::uint32_t>(bytes_ / 1024));
    bytes_ += is_quantized_ ? bytes_of(matrix) : cuda::lane_panel_bytes(matrix);
    return matrix;
  };
  const std::int64_t page = kShape.kv_heads * kKvPageSlots * kShape.head_dim;
  const std::int64_t plane = kPositions / kKvPageSlots * page * 2;
  for (std::int64_t i = 0; i < kLayers; ++i) {
    const cuda::KvPlanes planes{drawn_bytes(memory, plane), drawn_bytes(memory, plane), true, page};
    bytes_ += 2 * plane;
    layers_.push_back({draw(kHidden, kHidden), draw(kHidden, kHidden), draw(kHidden, kHidden),
                       draw(kHidden, kHidden), draw(kWide, kHidden), draw(kWide, kHidden),
                       draw(kHidden, kWide), planes});
  }
  head_ = draw(kVocabulary, kHidden);
  hidden_ = drawn_floats(memory, kMaxRows * kHidden);
  weight_ = drawn_floats(memory, kHidden);
  normed_ = drawn_floats(memory, kMaxRows * kHidden);
  flat_ = drawn_floats(memory, 3 * kMaxRows * kHidden);
  attended_ = drawn_floats(memory, kMaxRows * kHidden);
  gate_ = drawn_floats(memory, kMaxRows * kWide);
  up_ = drawn_floats(memory, kMaxRows * kWide);
  logits_ = drawn_floats(memory, kMaxRows * kVocabulary);
  quantized_ = drawn_bytes(memory, kMaxRows * quantized_row_bytes(kWide));
  placement_ = drawn_placement(memory, kMaxRows);
}

void PassLaunches::prepare(std::int64_t rows) {
  rows_ = rows;
  attention_ = AttentionLaunch(memory_, kShape, rows, kPositions).attention();
}

MatmulInput PassLaunches::input(std::int64_t inputs, const float* values) const {
  return {rows_, inputs, values, quantized_};
}

void PassLaunches::run_layer(const Layer& layer, void* stream) const {
  std::byte* const quantized = is_quantized_ ? quantized_ : nullptr;
  float* const normed = is_quantized_ ? nullptr : normed_;
  const cuda::RowsOf hidden{hidden_, rows_, kHidden, kHidden};
  cuda::norm_and_quantize(hidden, weight_, 1e-5f, normed, quantized, stream);
  float* const k = flat_ + kMaxRows * kHidden;
  float* const v = k + kMaxRows * kHidden;
  const cuda::Product projections[] = {
      {layer.q, {flat_, kHidden}}, {layer.k, {k, kHidden}}, {layer.v, {v, kHidden}}};
  cuda::multiply(projections, 3, input(kHidden, normed_), stream);
  cuda::HeadPlacement placement = placement_;
  placement.rows = rows_;
  placement.queries = flat_;
  placement.keys = k;
  placement.values = v;
  placement.planes = layer.planes;
  cuda::place_heads(placement, stream);
  cuda::Attention attention = attention_;
  attention.queries = placement.rotated;
  attention.planes = layer.planes;
  attention.next = layer.o.data;
  attention.next_bytes = is_quantized_ ? bytes_of(layer.o) : cuda::lane_panel_bytes(layer.o);
  cuda::attend(attention, stream);
  cuda::combine_parts(attention, {is_quantized_ ? nullptr : attended_, rows_, kHidden, kHidden},
                      quantized, stream);
  const cuda::Product output{layer.o, {hidden_, kHidden, nullptr, true}};
  cuda::multiply(&output, 1, input(kHidden, attended_), stream);
  cuda::norm_and_quantize(hidden, weight_, 1e-5f, normed, quantized, stream);
  const cuda::Product both[] = {{layer.gate, {gate_, kWide}}, {layer.up, {up_, kWide}}};
  cuda::multiply(both, 2, input(kHidden, normed_), stream);
  cuda::silu_and_quantize({gate_, rows_, kWide, kWide}, up_, quantized, stream);
  const cuda::Product down{layer.down, {hidden_, kHidden, nullptr, true}};
  cuda::multiply(&down, 1, input(kWide, gate_), stream);
}

void PassLaunches::run(void* stream) const {
  for (const Layer& layer : layers_) run_layer(layer, stream);
  const cuda::RowsOf hidden{hidden_, rows_, kHidden, kHidden};
  cuda::norm_and_quantize(hidden, weight_, 1e-5f, is_quantized_ ? nullptr : normed_,
                          is_quantized_ ? quantized_ : nullptr, stream);
  const cuda::Product head{head_, {logits_, kVocabulary}};
  cuda::multiply(&head, 1, input(kHidden, normed_), stream);
}

}  // namespace outrider::gpu
