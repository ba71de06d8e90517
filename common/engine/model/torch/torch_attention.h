// Attention of rows over the slots on their paths. Includes ATen: for the torch backend's own
// files.
//
// Thread rule: belongs to the thread that runs the model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/engine/model/kv_slots.h"

namespace outrider {

// Rows of one cache.
struct SlotAttention {
  at::Tensor queries;  // [rows, heads, head_dim] f32
  at::Tensor keys;     // [slots, kv_heads, head_dim] f32
  at::Tensor values;   // [slots, kv_heads, head_dim] f32
  at::Tensor table;    // slot_table() of the rows, on their device
};

// [rows, 2 + longest path] i32 on the cpu: per row the begin and end of its visible positions, and
// its slots by position. paths: by row and position, the row itself last. window: 0 for all
// positions.
at::Tensor slot_table(std::span<const std::vector<KvCell>> paths, Position window);

// Writes softmax(q k^T / sqrt(head_dim)) v: [rows, heads, head_dim] f32. A row's order of sums
// depends on its own positions only. Throws libtorch's exceptions.
void attend_slots(const SlotAttention& attention, const at::Tensor& out);

}  // namespace outrider
