// The steps between the matrix products of a training pass. Each is one autograd function with one
// loop over its data; with libtorch's elementwise functions they cost three times as much as the
// products.
//
// `type` (and every tensor called "compute") is f32 or bf16; the arithmetic is always f32. One
// thread computes a row, so results do not depend on the number of threads.
// Thread rule: like libtorch's functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace outrider {

// x: [n, width] f32, gain: [width] f32 -> x / rms(x) * gain, [n, width] of `type`.
at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& gain, double epsilon,
                          at::ScalarType type);

// x: [n, width] f32, y: [n, width] compute -> x + y, f32.
at::Tensor fused_residual(const at::Tensor& x, const at::Tensor& y);

// both: [n, 2 ffn] compute, gates before ups -> silu(gate) * up, [n, ffn].
at::Tensor fused_swiglu(const at::Tensor& both);

struct AttentionShape {
  std::int64_t batch = 0, length = 0, heads = 0, kv_heads = 0, head_dim = 0;
};

// qkv: [batch * length, (heads + 2 kv_heads) head_dim] compute; cosine, sine: [>= length, head_dim
// / 2] f32. Rotates queries and keys by position (half split), then causal grouped-query attention
// -> [batch * length, heads head_dim]. starts: [batch * length] int64, contiguous: the first
// position of its sequence that each position sees, so that documents packed side by side do not
// see each other. Undefined: all see from 0.
at::Tensor fused_attention(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                           const AttentionShape& shape, const at::Tensor& starts = {});

// logits: [n, vocab] compute, targets: [n] int64 -> mean cross entropy, f32 scalar.
at::Tensor fused_cross_entropy(const at::Tensor& logits, const at::Tensor& targets);

}  // namespace outrider
