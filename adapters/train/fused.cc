// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/fused.h"

#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

constexpr std::int64_t kRowsPerTask = 32;

template <typename Body>
void for_rows(std::int64_t rows, const Body& body) {
  at::parallel_for(0, rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) body(row);
  });
}

// Calls body(T*) with the element type of `tensor`.
template <typename Body>
void by_type(const at::Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kBFloat16) {
    body(static_cast<Bf16*>(tensor.data_ptr()));
  } else {
    TORCH_CHECK(tensor.scalar_type() == at::kFloat, "compute type must be f32 or bf16");
    body(static_cast<float*>(tensor.data_ptr()));
  }
}

// ---- RMS norm
// ------------------------------------------------------------------------------------

template <typename T>
OUTRIDER_ALWAYS_INLINE float norm_row_body(const float* x, const float* gain, std::int64_t width,
                                           float epsilon, T* out) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += x[i + l] * x[i + l];
  }
  float sum = sum_of(lanes);
  for (; i < width; ++i) sum += x[i] * x[i];
  const float scale = 1.0f / std::sqrt(sum / static_cast<float>(width) + epsilon);
  for (i = 0; i < width; ++i) narrow(x[i] * scale * gain[i], out[i]);
  return scale;
}

// gx = scale (gain g - x scale^2 mean(gain g x)); gain_gradient += g x scale.
template <typename T>
OUTRIDER_ALWAYS_INLINE void norm_row_backward_body(const float* x, const float* gain, const T* g,
                                                   float scale, std::int64_t width, float* gx,
                                                   float* gain_gradient) {
  float lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= width; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      lanes[l] += gain[i + l] * widen(g[i + l]) * x[i + l];
    }
  }
  float sum = sum_of(lanes);
  for (; i < width; ++i) sum += gain[i] * widen(g[i]) * x[i];
  const float along = sum / static_cast<float>(width) * scale * scale;
  for (i = 0; i < width; ++i) {
    const float up = widen(g[i]);
    gx[i] = scale * (gain[i] * up - x[i] * along);
    gain_gradient[i] += up * x[i] * scale;
  }
}

OUTRIDER_VECTOR_CLONES float norm_row(const float* x, const float* gain, std::int64_t width,
                                      float epsilon, float* out) {
  return norm_row_body(x, gain, width, epsilon, out);
}
OUTRIDER_VECTOR_CLONES float norm_row(const float* x, const float* gain, std::int64_t width,
                                      float epsilon, Bf16* out) {
  return norm_row_body(x, gain, width, epsilon, out);
}
OUTRIDER_VECTOR_CLONES void norm_row_backward(const float* x, const float* gain, const float* g,
                                              float scale, std::int64_t width, float* gx,
                                              float* gain_gradient) {
  norm_row_backward_body(x, gain, g, scale, width, gx, gain_gradient);
}
OUTRIDER_VECTOR_CLONES void norm_row_backward(const float* x, const float* gain, const Bf16* g,
                                              float scale, std::int64_t width, float* gx,
                                              float* gain_gradient) {
  norm_row_backward_body(x, gain, g, scale, width, gx, gain_gradient);
}

class RmsNorm final : public torch::autograd::Function<RmsNorm> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& gain,
                            double epsilon, at::ScalarType type) {
    const std::int64_t rows = x.size(0), width = x.size(1);
    at::Tensor out = at::empty({rows, width}, x.options().dtype(type));
    at::Tensor scale = at::empty({rows}, at::kFloat);
    by_type(out, [&](auto* y) {
      for_rows(rows, [&](std::int64_t row) {
        data<float>(scale)[row] = norm_row(data<float>(x) + row * width, data<float>(gain), width,
                                           static_cast<float>(epsilon), y + row * width);
      });
    });
    context->save_for_backward({x, gain, scale});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const at::Tensor &x = saved[0], &gain = saved[1], &scale = saved[2];
    const at::Tensor g = gradients[0].contiguous();
    const std::int64_t rows = x.size(0), width = x.size(1);
    at::Tensor gx = at::empty_like(x);
    // Gain gradients are summed per block of rows, then over blocks: each thread writes its own
    // sums.
    const std::int64_t blocks = (rows + kRowsPerTask - 1) / kRowsPerTask;
    at::Tensor partial = at::zeros({blocks, width}, at::kFloat);
    by_type(g, [&](auto* gradient) {
      at::parallel_for(0, blocks, 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t row = begin * kRowsPerTask; row < std::min(rows, end * kRowsPerTask);
             ++row) {
          norm_row_backward(data<float>(x) + row * width, data<float>(gain), gradient + row * width,
                            data<float>(scale)[row], width, data<float>(gx) + row * width,
                            data<float>(partial) + row / kRowsPerTask * width);
        }
      });
    });
    return {gx, partial.sum(0), at::Tensor(), at::Tensor()};
  }
};

// ---- residual
// ------------------------------------------------------------------------------------

OUTRIDER_VECTOR_CLONES void add_row(const float* x, const Bf16* y, std::int64_t n, float* out) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = x[i] + widen(y[i]);
}
OUTRIDER_VECTOR_CLONES void narrow_row(const float* x, std::int64_t n, Bf16* out) {
  for (std::int64_t i = 0; i < n; ++i) narrow(x[i], out[i]);
}

class Residual final : public torch::autograd::Function<Residual> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, const at::Tensor& y) {
    at::Tensor out = at::empty_like(x);
    const std::int64_t width = x.size(1);
    for_rows(x.size(0), [&](std::int64_t row) {
      add_row(data<float>(x) + row * width, data<Bf16>(y) + row * width, width,
              data<float>(out) + row * width);
    });
    return out;
  }

  static variable_list backward(AutogradContext*, const variable_list& gradients) {
    const at::Tensor g = gradients[0].contiguous();
    const std::int64_t width = g.size(1);
    at::Tensor gy = at::empty_like(g, g.options().dtype(at::kBFloat16));
    for_rows(g.size(0), [&](std::int64_t row) {
      narrow_row(data<float>(g) + row * width, width, data<Bf16>(gy) + row * width);
    });
    return {g, gy};
  }
};

// ---- SwiGLU
// --------------------------------------------------------------------------------------

template <typename T>
OUTRIDER_ALWAYS_INLINE void swiglu_row_body(const T* gate, const T* up, std::int64_t n, T* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = widen(gate[i]);
    narrow(x / (1.0f + exp_of(-x)) * widen(up[i]), out[i]);
  }
}
template <typename T>
OUTRIDER_ALWAYS_INLINE void swiglu_row_backward_body(const T* gate, const T* up, const T* g,
                                                     std::int64_t n, T* gate_gradient,
                                                     T* up_gradient) {
  for (std::int64_t i = 0; i < n; ++i) {
    const float x = widen(gate[i]), gradient = widen(g[i]);
    const float sigmoid = 1.0f / (1.0f + exp_of(-x));
    narrow(gradient * widen(up[i]) * sigmoid * (1.0f + x * (1.0f - sigmoid)), gate_gradient[i]);
    narrow(gradient * x * sigmoid, up_gradient[i]);
  }
}

OUTRIDER_VECTOR_CLONES void swiglu_row(const float* gate, const float* up, std::int64_t n,
                                       float* out) {
  swiglu_row_body(gate, up, n, out);
}
OUTRIDER_VECTOR_CLONES void swiglu_row(const Bf16* gate, const Bf16* up, std::int64_t n,
                                       Bf16* out) {
  swiglu_row_body(gate, up, n, out);
}
OUTRIDER_VECTOR_CLONES void swiglu_row_backward(const float* gate, const float* up, const float* g,
                                                std::int64_t n, float* gate_gradient,
                                                float* up_gradient) {
  swiglu_row_backward_body(gate, up, g, n, gate_gradient, up_gradient);
}
OUTRIDER_VECTOR_CLONES void swiglu_row_backward(const Bf16* gate, const Bf16* up, const Bf16* g,
                                                std::int64_t n, Bf16* gate_gradient,
                                                Bf16* up_gradient) {
  swiglu_row_backward_body(gate, up, g, n, gate_gradient, up_gradient);
}

class SwiGlu final : public torch::autograd::Function<SwiGlu> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& both) {
    const std::int64_t rows = both.size(0), width = both.size(1) / 2;
    at::Tensor out = at::empty({rows, width}, both.options());
    by_type(both, [&](auto* x) {
      auto* y = static_cast<decltype(x)>(out.data_ptr());
      for_rows(rows, [&](std::int64_t row) {
        swiglu_row(x + 2 * row * width, x + (2 * row + 1) * width, width, y + row * width);
      });
    });
    context->save_for_backward({both});
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor both = context->get_saved_variables()[0];
    const at::Tensor g = gradients[0].contiguous();
    const std::int64_t rows = both.size(0), width = both.size(1) / 2;
    at::Tensor out = at::empty_like(both);
    by_type(both, [&](auto* x) {
      auto* up = static_cast<decltype(x)>(g.data_ptr());
      auto* y = static_cast<decltype(x)>(out.data_ptr());
      for_rows(rows, [&](std::int64_t row) {
        swiglu_row_backward(x + 2 * row * width, x + (2 * row + 1) * width, up + row * width, width,
                            y + 2 * row * width, y + (2 * row + 1) * width);
      });
    });
    return {out};
  }
};

// ---- cross entropy
// -------------------------------------------------------------------------------

// Writes softmax(x) minus the one-hot target, times `scale`; returns -log softmax(x)[target].
template <typename T>
OUTRIDER_ALWAYS_INLINE float cross_entropy_row_body(const T* x, std::int64_t target, std::int64_t n,
                                                    float scale, float* scratch, T* gradient) {
  float top[kLanes], lanes[kLanes] = {};
  for (std::int64_t l = 0; l < kLanes; ++l) top[l] = -std::numeric_limits<float>::infinity();
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) {
      const float value = widen(x[i + l]);
      top[l] = value > top[l] ? value : top[l];
    }
  }
  float largest = top[0];
  for (std::int64_t l = 1; l < kLanes; ++l) largest = std::max(largest, top[l]);
  for (; i < n; ++i) largest = std::max(largest, widen(x[i]));
  for (i = 0; i < n; ++i) scratch[i] = exp_of(widen(x[i]) - largest);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    for (std::int64_t l = 0; l < kLanes; ++l) lanes[l] += scratch[i + l];
  }
  float sum = sum_of(lanes);
  for (; i < n; ++i) sum += scratch[i];
  const float to_gradient = scale / sum;
  const float loss = std::log(sum) - (widen(x[target]) - largest);
  for (i = 0; i < n; ++i) narrow(scratch[i] * to_gradient, gradient[i]);
  narrow(scratch[target] * to_gradient - scale, gradient[target]);
  return loss;
}

OUTRIDER_VECTOR_CLONES float cross_entropy_row(const float* x, std::int64_t target, std::int64_t n,
                                               float scale, float* scratch, float* gradient) {
  return cross_entropy_row_body(x, target, n, scale, scratch, gradient);
}
OUTRIDER_VECTOR_CLONES float cross_entropy_row(const Bf16* x, std::int64_t target, std::int64_t n,
                                               float scale, float* scratch, Bf16* gradient) {
  return cross_entropy_row_body(x, target, n, scale, scratch, gradient);
}

class CrossEntropy final : public torch::autograd::Function<CrossEntropy> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& targets) {
    const std::int64_t rows = logits.size(0), width = logits.size(1);
    at::Tensor losses = at::empty({rows}, at::kFloat), gradient = at::empty_like(logits);
    by_type(logits, [&](auto* x) {
      auto* g = static_cast<decltype(x)>(gradient.data_ptr());
      at::parallel_for(0, rows, kRowsPerTask, [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> scratch(static_cast<std::size_t>(width));
        for (std::int64_t row = begin; row < end; ++row) {
          data<float>(losses)[row] =
              cross_entropy_row(x + row * width, data<std::int64_t>(targets)[row], width,
                                1.0f / static_cast<float>(rows), scratch.data(), g + row * width);
        }
      });
    });
    context->save_for_backward({gradient});
    return losses.mean();
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor gradient = context->get_saved_variables()[0];
    const double scale = gradients[0].item<double>();
    return {scale == 1.0 ? gradient : gradient * scale, at::Tensor()};
  }
};

}  // namespace

at::Tensor fused_rms_norm(const at::Tensor& x, const at::Tensor& gain, double epsilon,
                          at::ScalarType type) {
  return RmsNorm::apply(x, gain, epsilon, type);
}

at::Tensor fused_residual(const at::Tensor& x, const at::Tensor& y) {
  return y.scalar_type() == at::kFloat ? x + y : Residual::apply(x, y);
}

at::Tensor fused_swiglu(const at::Tensor& both) {
  return SwiGlu::apply(both);
}

at::Tensor fused_cross_entropy(const at::Tensor& logits, const at::Tensor& targets) {
  return CrossEntropy::apply(logits, targets);
}

}  // namespace outrider
