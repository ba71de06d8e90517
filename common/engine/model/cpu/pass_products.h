// The matrix products of a pass, as parallel loops over their outputs.
//
// Thread rule: one thread calls; the pool's threads work inside. Ownership: everything passed in
// outlives this. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/kernels/aligned_buffer.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/pass_loops.h"

namespace outrider {

// Rows of activations prepared for products: f32, and int8 where the weights are quantised.
struct Activations {
  explicit Activations(std::int64_t elements);

  // Makes room for so many rows of the widest kind; their contents may be lost.
  void grow(std::int64_t rows, bool is_quantized);
  // From now on rows have so many elements, at most those that it was made with; fewer are a
  // multiple of 16. Their contents are lost.
  void narrow(std::int64_t elements);
  float* row(std::int64_t r) { return values.data() + r * stride; }

  const std::int64_t widest;
  std::int64_t count;                  // elements used of a row
  std::int64_t stride;                 // pad_to_lanes(count)
  std::int64_t quantized_bytes;        // of a row, see QuantizedGroup
  AlignedBuffer<float> values;         // [rows, stride]
  AlignedBuffer<std::byte> quantized;  // [rows, quantized_bytes]
};

// A norm's weights, [hidden]; with a bias it is a layer norm, without one an RMS norm.
struct NormVectors {
  const std::vector<float>& weight;
  const std::vector<float>& bias;
};

// y = the norm of a row x, [weight.size()]; y may be x.
inline void apply_norm(const Kernels& kernels, const NormVectors& norm, float epsilon,
                       const float* x, float* y) {
  const auto count = static_cast<std::int64_t>(norm.weight.size());
  if (norm.bias.empty()) {
    kernels.rms_norm(x, norm.weight.data(), count, epsilon, y);
  } else {
    kernels.layer_norm(x, {norm.weight.data(), norm.bias.data()}, count, epsilon, y);
  }
}

class PassProducts final {
 public:
  // One matrix product of a loop over several.
  struct Product {
    const LinearWeights* weights;
    MatmulOutput y;
  };

  // Threads get outputs of a matrix in multiples of this.
  static constexpr std::int64_t kOutputGrain = 16;

  PassProducts(bool is_quantized, const Kernels& kernels, PassLoops& loops)
      : is_quantized_(is_quantized), kernels_(kernels), loops_(loops) {}

  bool is_quantized() const { return is_quantized_; }
  PassLoops& loops() { return loops_; }
  // Prepares a row whose values are in x.values.
  void quantize(Activations& x, std::int64_t row) const;
  void quantize_rows(Activations& x, std::int64_t rows);
  // Prepared rows; they do not change while this is in use.
  static MatmulInput input(const Activations& x, std::int64_t rows);
  // Several products of the same activations as one loop over all their outputs.
  void multiply(std::span<const Product> products, const MatmulInput& x);
  // Some outputs of one product, without a loop.
  void multiply(const Product& product, const MatmulInput& x, Outputs part) const;

 private:
  const bool is_quantized_;
  const Kernels& kernels_;
  PassLoops& loops_;
};

}  // namespace outrider
