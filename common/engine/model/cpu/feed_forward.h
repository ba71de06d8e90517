// The second half of a layer: its MLP, or the experts that a router chooses for each row.
//
//   MLP      down(f(gate(x)) * up(x)), or down(f(up(x))) without a gate
//   experts  the sum over the chosen experts, in order of their ids, of share * the expert's MLP
//
// A row's experts and shares depend on the row alone, and an expert computes all its rows together,
// so a row has the same bits in every company (docs/row-invariance.md).
//
// Thread rule: one thread calls; the loops' threads work inside. Ownership: everything passed in
// outlives this. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/kernels/aligned_buffer.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/layer_store.h"
#include "common/engine/model/cpu/pass_loops.h"
#include "common/engine/model/cpu/pass_products.h"

namespace outrider {

class FeedForward final {
 public:
  FeedForward(const ModelConfig& config, const Kernels& kernels, PassLoops& loops,
              PassProducts& products);

  // Makes room for passes of so many rows.
  void grow(std::int64_t rows);

  // y [rows, stride] = the result of layer `index` for the prepared rows x, or that is added to it.
  // layers: that have its experts. Errors: those of acquiring these; y is then incomplete.
  Status run(LayerStore& layers, const CpuLayer& layer, std::int64_t index, Activations& x,
             std::int64_t rows, const MatmulOutput& y);

 private:
  // A row that goes to an expert.
  struct Routed {
    std::int64_t row;
    float share;
  };
  struct Mlp {
    const LinearWeights& gate;
    const LinearWeights& up;
    const LinearWeights& down;
  };

  void run_mlp(const Mlp& mlp, const MatmulInput& x, const MatmulOutput& y);
  void route(const CpuLayer& layer, Activations& x, std::int64_t rows);
  void route_row(std::int64_t row);
  void run_expert(const CpuExpert& expert, const std::vector<Routed>& routed, Activations& x,
                  const MatmulOutput& y);

  // Constant after construction.
  const ModelConfig& config_;
  PassLoops& loops_;
  PassProducts& products_;
  const ActivationFunction activate_;

  Activations inner_;        // [rows, inner], as wide as the layer's
  AlignedBuffer<float> up_;  // [rows, pad_to_lanes(inner)]

  // The experts' scores, and the rows that each expert gets.
  AlignedBuffer<float> scores_;              // [rows, experts]
  std::vector<std::vector<Routed>> routed_;  // [experts], rows rising
  std::vector<std::int32_t> chosen_;         // experts with rows, rising
  std::vector<std::int32_t> ranked_;         // a row's experts
  std::vector<double> shares_;               // a row's, [experts]
  Activations gathered_;                     // [rows of an expert, hidden]
  AlignedBuffer<float> result_;              // [the same rows, pad_to_lanes(hidden)]
};

}  // namespace outrider
