// Causal grouped-query attention with rotary positions, forward and backward.
//
// Queries are stored as [batch kv_heads, length group, head_dim]. So a block of positions is one
// matrix for all heads that share a key head. Keys are never repeated, and a block of queries
// multiplies only the keys that it may see. SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>

#include "adapters/train/fused.h"
#include "adapters/train/fused_kernels.h"

namespace outrider {
namespace {

using fused::Bf16;
using fused::exp_of;
using fused::kLanes;
using fused::narrow;
using fused::sum_of;
using fused::widen;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kQueryBlock = 128;

// Rotates the pairs (i, i + half) of one head by one position's angles; `turn` -1 rotates back.
template <typename From, typename To>
OUTRIDER_ALWAYS_INLINE void rotate_head_body(const From* x, const float* cosine, const float* sine,
                                             std::int64_t half, float scale, float turn, To* out) {
  for (std::int64_t i = 0; i < half; ++i) {
    const float a = widen(x[i]) * scale, b = widen(x[i + half]) * scale;
    const float s = sine[i] * turn;
    narrow(a * cosine[i] - b * s, out[i]);
    narrow(b * cosine[i] + a * s, out[i + half]);
  }
}

// Softmax over the scores from `first` to before `end` of `n`, in place; the rest becomes 0.
template <typename T>
OUTRIDER_ALWAYS_INLINE void softmax_row_body(T* row, std::int64_t first, std::int64_t end,
                                             std::int64_t n, float* scratch) {
  T* x = row + first;
  const std::int64_t seen = end - first;
  float largest = widen(x[0]);
  for (std::int64_t i = 1; i < seen; ++i) {
    const float value = widen(x[i]);
    largest = value > largest ? value : largest;
  }
  const std::int64_t padded = (seen + kLanes - 1) / kLanes * kLanes;
  for (std::int64_t i = 0; i < seen; ++i) scratch[i] = exp_of(widen(x[i]) - largest);
  for (std::int64_t i = seen; i < padded; ++i) scratch[i] = 0;
  float lanes[kLanes] = {};
  for (std::int64_t i = 0; i < padded; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += scratch[i + l];
  }
  const float scale = 1.0f / sum_of(lanes);
  for (std::int64_t i = 0; i < seen; ++i) narrow(scratch[i] * scale, x[i]);
  for (std::int64_t i = 0; i < first; ++i) narrow(0.0f, row[i]);
  for (std::int64_t i = end; i < n; ++i) narrow(0.0f, row[i]);
}

// g: gradient of the softmax's values p. It becomes the gradient of the scores, p (g - sum(p g)).
template <typename T>
OUTRIDER_ALWAYS_INLINE void softmax_row_backward_body(const T* p, T* g, std::int64_t n) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += widen(p[i + l]) * widen(g[i + l]);
  }
  float sum = sum_of(lanes);
  for (; i < n; ++i) sum += widen(p[i]) * widen(g[i]);
  for (i = 0; i < n; ++i) narrow(widen(p[i]) * (widen(g[i]) - sum), g[i]);
}

OUTRIDER_VECTOR_CLONES void rotate_head(const float* x, const float* cosine, const float* sine,
                                        std::int64_t half, float scale, float turn, float* out) {
  rotate_head_body(x, cosine, sine, half, scale, turn, out);
}
OUTRIDER_VECTOR_CLONES void rotate_head(const Bf16* x, const float* cosine, const float* sine,
                                        std::int64_t half, float scale, float turn, Bf16* out) {
  rotate_head_body(x, cosine, sine, half, scale, turn, out);
}
OUTRIDER_VECTOR_CLONES void rotate_head(const float* x, const float* cosine, const float* sine,
                                        std::int64_t half, float scale, float turn, Bf16* out) {
  rotate_head_body(x, cosine, sine, half, scale, turn, out);
}
OUTRIDER_VECTOR_CLONES void softmax_row(float* row, std::int64_t first, std::int64_t end,
                                        std::int64_t n, float* scratch) {
  softmax_row_body(row, first, end, n, scratch);
}
OUTRIDER_VECTOR_CLONES void softmax_row(Bf16* row, std::int64_t first, std::int64_t end,
                                        std::int64_t n, float* scratch) {
  softmax_row_body(row, first, end, n, scratch);
}
OUTRIDER_VECTOR_CLONES void softmax_row_backward(const float* p, float* g, std::int64_t n) {
  softmax_row_backward_body(p, g, n);
}
OUTRIDER_VECTOR_CLONES void softmax_row_backward(const Bf16* p, Bf16* g, std::int64_t n) {
  softmax_row_backward_body(p, g, n);
}
OUTRIDER_VECTOR_CLONES void copy_head(const float* x, std::int64_t n, float* out) {
  std::copy_n(x, n, out);
}
OUTRIDER_VECTOR_CLONES void copy_head(const Bf16* x, std::int64_t n, Bf16* out) {
  std::copy_n(x, n, out);
}
OUTRIDER_VECTOR_CLONES void copy_head(const float* x, std::int64_t n, Bf16* out) {
  for (std::int64_t i = 0; i < n; ++i) narrow(x[i], out[i]);
}

template <typename Body>
void by_type(at::ScalarType type, const Body& body) {
  if (type == at::kBFloat16) {
    body(Bf16{});
  } else {
    body(float{});
  }
}

struct Parts {
  at::Tensor query;       // [batch kv_heads, length group, head_dim] compute, scaled
  at::Tensor key, value;  // [batch kv_heads, length, head_dim] compute
};

// Where Parts holds the heads of one position.
struct Places {
  std::int64_t group, width, query, key;
  Places(const AttentionShape& s, std::int64_t batch, std::int64_t position, std::int64_t kv)
      : group(s.heads / s.kv_heads),
        width(s.head_dim),
        query(((batch * s.kv_heads + kv) * s.length + position) * group * width),
        key(((batch * s.kv_heads + kv) * s.length + position) * width) {}
};

// Calls body(row of qkv, position, kv head, Places) for each.
template <typename Body>
void for_heads(const AttentionShape& s, const Body& body) {
  at::parallel_for(0, s.batch * s.length, 32, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t position = row % s.length;
      for (std::int64_t kv = 0; kv < s.kv_heads; ++kv) {
        body(row, position, kv, Places(s, row / s.length, position, kv));
      }
    }
  });
}

Parts take_apart(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                 const AttentionShape& s) {
  const std::int64_t sequences = s.batch * s.kv_heads, group = s.heads / s.kv_heads;
  Parts parts{at::empty({sequences, s.length * group, s.head_dim}, qkv.options()),
              at::empty({sequences, s.length, s.head_dim}, qkv.options()),
              at::empty({sequences, s.length, s.head_dim}, qkv.options())};
  const std::int64_t half = s.head_dim / 2, width = (s.heads + 2 * s.kv_heads) * s.head_dim;
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  by_type(qkv.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    for_heads(s, [&](std::int64_t row, std::int64_t position, std::int64_t kv, const Places& at) {
      const T* from = data<T>(qkv) + row * width;
      const float* c = data<float>(cosine) + position * half;
      const float* n = data<float>(sine) + position * half;
      for (std::int64_t g = 0; g < group; ++g) {
        rotate_head(from + (kv * group + g) * s.head_dim, c, n, half, scale, 1.0f,
                    data<T>(parts.query) + at.query + g * s.head_dim);
      }
      rotate_head(from + (s.heads + kv) * s.head_dim, c, n, half, 1.0f, 1.0f,
                  data<T>(parts.key) + at.key);
      copy_head(from + (s.heads + s.kv_heads + kv) * s.head_dim, s.head_dim,
                data<T>(parts.value) + at.key);
    });
  });
  return parts;
}

// The inverse, for gradients: query in the compute type, key and value in f32.
at::Tensor put_together(const Parts& parts, const at::Tensor& cosine, const at::Tensor& sine,
                        const AttentionShape& s) {
  const std::int64_t group = s.heads / s.kv_heads, half = s.head_dim / 2;
  const std::int64_t width = (s.heads + 2 * s.kv_heads) * s.head_dim;
  at::Tensor qkv = at::empty({s.batch * s.length, width}, parts.query.options());
  const float scale = 1.0f / std::sqrt(static_cast<float>(s.head_dim));
  by_type(qkv.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    for_heads(s, [&](std::int64_t row, std::int64_t position, std::int64_t kv, const Places& at) {
      T* to = data<T>(qkv) + row * width;
      const float* c = data<float>(cosine) + position * half;
      const float* n = data<float>(sine) + position * half;
      for (std::int64_t g = 0; g < group; ++g) {
        rotate_head(data<T>(parts.query) + at.query + g * s.head_dim, c, n, half, scale, -1.0f,
                    to + (kv * group + g) * s.head_dim);
      }
      rotate_head(data<float>(parts.key) + at.key, c, n, half, 1.0f, -1.0f,
                  to + (s.heads + kv) * s.head_dim);
      copy_head(data<float>(parts.value) + at.key, s.head_dim,
                to + (s.heads + s.kv_heads + kv) * s.head_dim);
    });
  });
  return qkv;
}

// scores: [batch kv_heads, rows group, seen]; `begin` is the block's first position.
void causal_softmax(const at::Tensor& scores, const at::Tensor& starts, std::int64_t begin,
                    const AttentionShape& s) {
  const std::int64_t per_sequence = scores.size(1), n = scores.size(2);
  const std::int64_t group = s.heads / s.kv_heads;
  const auto* first_seen = starts.const_data_ptr<std::int64_t>();
  by_type(scores.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    at::parallel_for(
        0, scores.size(0) * per_sequence, 64, [&](std::int64_t first, std::int64_t last) {
          std::vector<float> scratch(static_cast<std::size_t>(n + kLanes));
          for (std::int64_t row = first; row < last; ++row) {
            const std::int64_t position = begin + row % per_sequence / group;
            const std::int64_t batch = row / per_sequence / s.kv_heads;
            const std::int64_t start = first_seen[batch * s.length + position];
            softmax_row(data<T>(scores) + row * n, start, position + 1, n, scratch.data());
          }
        });
  });
}

void softmax_backward(const at::Tensor& probabilities, const at::Tensor& gradient) {
  const std::int64_t n = gradient.size(2);
  by_type(gradient.scalar_type(), [&](auto zero) {
    using T = decltype(zero);
    at::parallel_for(
        0, gradient.size(0) * gradient.size(1), 64, [&](std::int64_t first, std::int64_t last) {
          for (std::int64_t row = first; row < last; ++row) {
            softmax_row_backward(data<T>(probabilities) + row * n, data<T>(gradient) + row * n, n);
          }
        });
  });
}

// [batch kv_heads, length group, head_dim] <-> [batch length, heads head_dim].
at::Tensor to_rows(const at::Tensor& x, const AttentionShape& s) {
  const std::int64_t group = s.heads / s.kv_heads;
  return x.view({s.batch, s.kv_heads, s.length, group, s.head_dim})
      .permute({0, 2, 1, 3, 4})
      .reshape({s.batch * s.length, s.heads * s.head_dim});
}
at::Tensor from_rows(const at::Tensor& x, const AttentionShape& s) {
  const std::int64_t group = s.heads / s.kv_heads;
  return x.view({s.batch, s.length, s.kv_heads, group, s.head_dim})
      .permute({0, 2, 1, 3, 4})
      .reshape({s.batch * s.kv_heads, s.length * group, s.head_dim});
}

class Attention final : public torch::autograd::Function<Attention> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& qkv,
                            const at::Tensor& cosine, const at::Tensor& sine,
                            const at::Tensor& starts, const AttentionShape& s) {
    const Parts parts = take_apart(qkv.contiguous(), cosine, sine, s);
    const std::int64_t group = s.heads / s.kv_heads;
    at::Tensor out = at::empty_like(parts.query);
    variable_list saved = {cosine, sine, parts.query, parts.key, parts.value};
    for (std::int64_t begin = 0; begin < s.length; begin += kQueryBlock) {
      const std::int64_t rows = std::min(kQueryBlock, s.length - begin), seen = begin + rows;
      const at::Tensor scores = at::bmm(parts.query.narrow(1, begin * group, rows * group),
                                        parts.key.narrow(1, 0, seen).transpose(1, 2));
      causal_softmax(scores, starts, begin, s);
      out.narrow(1, begin * group, rows * group)
          .copy_(at::bmm(scores, parts.value.narrow(1, 0, seen)));
      saved.push_back(scores);
    }
    context->save_for_backward(saved);
    context->saved_data["shape"] =
        std::vector<std::int64_t>{s.batch, s.length, s.heads, s.kv_heads, s.head_dim};
    return to_rows(out, s);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto sizes = context->saved_data["shape"].toIntVector();
    const AttentionShape s{sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]};
    const Parts parts{saved[2], saved[3], saved[4]};
    const std::int64_t group = s.heads / s.kv_heads;
    const at::Tensor g = from_rows(gradients[0].contiguous(), s);
    const auto f32 = parts.key.options().dtype(at::kFloat);
    Parts result{at::empty_like(parts.query), at::zeros(parts.key.sizes(), f32),
                 at::zeros(parts.value.sizes(), f32)};
    for (std::int64_t begin = 0, block = 5; begin < s.length; begin += kQueryBlock, ++block) {
      const std::int64_t rows = std::min(kQueryBlock, s.length - begin), seen = begin + rows;
      const at::Tensor& probabilities = saved[static_cast<std::size_t>(block)];
      const at::Tensor block_g = g.narrow(1, begin * group, rows * group);
      const at::Tensor scores = at::bmm(block_g, parts.value.narrow(1, 0, seen).transpose(1, 2));
      softmax_backward(probabilities, scores);
      result.query.narrow(1, begin * group, rows * group)
          .copy_(at::bmm(scores, parts.key.narrow(1, 0, seen)));
      result.key.narrow(1, 0, seen)
          .add_(
              at::bmm(scores.transpose(1, 2), parts.query.narrow(1, begin * group, rows * group)));
      result.value.narrow(1, 0, seen).add_(at::bmm(probabilities.transpose(1, 2), block_g));
    }
    return {put_together(result, saved[0], saved[1], s), {}, {}, {}, {}};
  }
};

}  // namespace

at::Tensor fused_attention(const at::Tensor& qkv, const at::Tensor& cosine, const at::Tensor& sine,
                           const AttentionShape& shape, const at::Tensor& starts) {
  return Attention::apply(
      qkv, cosine, sine,
      starts.defined() ? starts : at::zeros({shape.batch * shape.length}, at::kLong), shape);
}

}  // namespace outrider
