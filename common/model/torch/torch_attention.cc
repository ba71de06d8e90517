// SPDX-License-Identifier: Apache-2.0
#include "common/model/torch/torch_attention.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/softmax.h>

#include <algorithm>
#include <cmath>

#ifdef OUTRIDER_CUDA
#include "common/model/torch/cuda_attention.h"
#endif

namespace outrider {
namespace {

// The first position that a row at the end of `path` sees.
std::size_t first_visible(const std::vector<Slot>& path, Position window) {
  if (window == 0) return 0;
  return path.size() - std::min(path.size(), static_cast<std::size_t>(window));
}

float scale_of(const at::Tensor& queries) {
  return 1.0f / std::sqrt(static_cast<float>(queries.size(2)));
}

void attend_row(const SlotAttention& attention, std::size_t row, const at::Tensor& out) {
  const std::vector<Slot>& path = attention.paths[row];
  const std::size_t first = first_visible(path, attention.window);
  const at::Tensor slots = at::empty({static_cast<std::int64_t>(path.size() - first)}, at::kLong);
  std::copy(path.begin() + static_cast<std::ptrdiff_t>(first), path.end(),
            slots.mutable_data_ptr<std::int64_t>());
  const std::int64_t kv_heads = attention.keys.size(1);
  const std::int64_t head_dim = attention.keys.size(2);
  // [kv_heads, heads of a group, head_dim] against [kv_heads, head_dim, positions].
  const auto index = static_cast<std::int64_t>(row);
  const at::Tensor q = attention.queries.select(0, index).reshape({kv_heads, -1, head_dim});
  const at::Tensor k = attention.keys.index_select(0, slots).permute({1, 2, 0});
  const at::Tensor v = attention.values.index_select(0, slots).permute({1, 0, 2});
  const at::Tensor weights = at::softmax(at::bmm(q, k) * scale_of(attention.queries), -1);
  out.select(0, index).copy_(at::bmm(weights, v).reshape({-1, head_dim}));
}

#ifdef OUTRIDER_CUDA
void attend_cuda(const SlotAttention& attention, const at::Tensor& out) {
  std::size_t longest = 0;
  for (const auto& path : attention.paths) longest = std::max(longest, path.size());
  const auto rows = static_cast<std::int64_t>(attention.paths.size());
  // Per row: where it begins, where it ends, then its slots by position.
  const at::Tensor table = at::empty({rows, static_cast<std::int64_t>(longest) + 2}, at::kInt);
  for (std::size_t row = 0; row < attention.paths.size(); ++row) {
    const std::vector<Slot>& path = attention.paths[row];
    std::int32_t* line = table.mutable_data_ptr<std::int32_t>() + row * (longest + 2);
    line[0] = static_cast<std::int32_t>(first_visible(path, attention.window));
    line[1] = static_cast<std::int32_t>(path.size());
    std::copy(path.begin(), path.end(), line + 2);
  }
  const at::Tensor device_table = table.to(out.device());
  const at::Tensor queries = attention.queries.contiguous();
  CudaAttention args;
  args.rows = static_cast<int>(rows);
  args.heads = static_cast<int>(queries.size(1));
  args.kv_heads = static_cast<int>(attention.keys.size(1));
  args.head_dim = static_cast<int>(queries.size(2));
  args.longest = static_cast<int>(longest);
  args.scale = scale_of(queries);
  const at::Tensor partials =
      at::empty({static_cast<std::int64_t>(cuda_partial_floats(args))}, queries.options());
  args.queries = queries.const_data_ptr<float>();
  args.keys = attention.keys.const_data_ptr<float>();
  args.values = attention.values.const_data_ptr<float>();
  args.table = device_table.const_data_ptr<std::int32_t>();
  args.partials = partials.mutable_data_ptr<float>();
  args.out = out.mutable_data_ptr<float>();
  cuda_attend(args);
}
#endif

}  // namespace

void attend_slots(const SlotAttention& attention, const at::Tensor& out) {
#ifdef OUTRIDER_CUDA
  if (out.is_cuda()) {
    attend_cuda(attention, out);
    return;
  }
#endif
  for (std::size_t row = 0; row < attention.paths.size(); ++row) attend_row(attention, row, out);
}

}  // namespace outrider
