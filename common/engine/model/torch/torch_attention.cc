// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/torch/torch_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cmath>

#ifdef OUTRIDER_TORCH_CUDA
#include "common/engine/model/torch/cuda_attention.h"
#endif

namespace outrider {
namespace {

// The first position that a row at the end of `path` sees.
std::size_t first_visible(const std::vector<KvCell>& path, Position window) {
  if (window == 0) return 0;
  return path.size() - std::min(path.size(), static_cast<std::size_t>(window));
}

float scale_of(const at::Tensor& queries) {
  return 1.0f / std::sqrt(static_cast<float>(queries.size(2)));
}

void attend_row(const SlotAttention& attention, std::int64_t row, const at::Tensor& out) {
  const at::Tensor line = attention.table.select(0, row);
  const auto* bounds = line.const_data_ptr<std::int32_t>();
  const at::Tensor slots = line.narrow(0, 2 + bounds[0], bounds[1] - bounds[0]);
  const std::int64_t kv_heads = attention.keys.size(1);
  const std::int64_t head_dim = attention.keys.size(2);
  // [kv_heads, heads of a group, head_dim] against [kv_heads, head_dim, positions].
  const at::Tensor q = attention.queries.select(0, row).reshape({kv_heads, -1, head_dim});
  const at::Tensor k = attention.keys.index_select(0, slots).permute({1, 2, 0});
  const at::Tensor v = attention.values.index_select(0, slots).permute({1, 0, 2});
  const at::Tensor weights = at::softmax(at::bmm(q, k) * scale_of(attention.queries), -1);
  out.select(0, row).copy_(at::bmm(weights, v).reshape({-1, head_dim}));
}

#ifdef OUTRIDER_TORCH_CUDA
void attend_cuda(const SlotAttention& attention, const at::Tensor& out) {
  const at::Tensor queries = attention.queries.contiguous();
  CudaAttention args;
  args.rows = static_cast<int>(attention.table.size(0));
  args.heads = static_cast<int>(queries.size(1));
  args.kv_heads = static_cast<int>(attention.keys.size(1));
  args.head_dim = static_cast<int>(queries.size(2));
  args.longest = static_cast<int>(attention.table.size(1)) - 2;
  args.scale = scale_of(queries);
  const at::Tensor partials =
      at::empty({static_cast<std::int64_t>(cuda_partial_floats(args))}, queries.options());
  args.queries = queries.const_data_ptr<float>();
  args.keys = attention.keys.const_data_ptr<float>();
  args.values = attention.values.const_data_ptr<float>();
  args.table = attention.table.const_data_ptr<std::int32_t>();
  args.partials = partials.mutable_data_ptr<float>();
  args.out = out.mutable_data_ptr<float>();
  cuda_attend(args);
}
#endif

}  // namespace

at::Tensor slot_table(std::span<const std::vector<KvCell>> paths, Position window) {
  std::size_t longest = 0;
  for (const std::vector<KvCell>& path : paths) longest = std::max(longest, path.size());
  const std::size_t stride = longest + 2;
  at::Tensor table = at::zeros(
      {static_cast<std::int64_t>(paths.size()), static_cast<std::int64_t>(stride)}, at::kInt);
  for (std::size_t row = 0; row < paths.size(); ++row) {
    const std::vector<KvCell>& path = paths[row];
    std::int32_t* line = table.mutable_data_ptr<std::int32_t>() + row * stride;
    line[0] = static_cast<std::int32_t>(first_visible(path, window));
    line[1] = static_cast<std::int32_t>(path.size());
    std::copy(path.begin(), path.end(), line + 2);
  }
  return table;
}

void attend_slots(const SlotAttention& attention, const at::Tensor& out) {
#ifdef OUTRIDER_TORCH_CUDA
  if (out.is_cuda()) {
    attend_cuda(attention, out);
    return;
  }
#endif
  for (std::int64_t row = 0; row < attention.table.size(0); ++row) attend_row(attention, row, out);
}

}  // namespace outrider
