// The logits of a pass, from the residual stream after its last layer: of all rows that want them,
// or on demand.
//
//   (write | offer (compute* end))*
//
// Thread rule: the thread that runs passes. Ownership: everything passed in outlives this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/layer_store.h"
#include "common/engine/model/cpu/pass_products.h"
#include "common/engine/model/cpu/pass_rows.h"
#include "common/engine/model/model.h"

namespace outrider {

class PassLogits final : public RowLogits {
 public:
  PassLogits(const ModelConfig& config, const Kernels& kernels, PassRows& rows,
             PassProducts& products);

  // Writes the logits of the wanted rows one after the other, then ends the layers' pass. Errors:
  // those of reading the output matrix.
  Status write(const PassModel& model, float* logits);

  // Offers logits on demand: until end() the output matrix stays acquired, the residual stream must
  // not change, and out.row_logits is this. Does nothing if no row wants logits. Errors: as
  // write().
  Status offer(const PassModel& model, PassOutput& out);
  Status compute(std::span<const std::size_t> rows, PassOutput& out) override;
  void end() override;

 private:
  Status acquire(const PassModel& model);
  void multiply(std::span<const std::int64_t> rows, float* logits);
  void scale(std::int64_t rows, float* logits);
  void spread(std::int64_t rows, float* logits);

  const ModelConfig& config_;
  const Kernels& kernels_;
  PassRows& rows_;
  PassProducts& products_;

  // While the output matrix is acquired, and of the pass that acquired it.
  const LinearWeights* head_ = nullptr;
  const CpuWeights* weights_ = nullptr;
  LayerStore* layers_ = nullptr;
  std::vector<std::int64_t> wanted_;  // the rows that want logits
  std::vector<std::int64_t> asked_;   // the rows of one call of compute()
  Activations normed_;                // [rows multiplied together, hidden]
  std::vector<float> listed_;         // [the same rows, head_tokens]
  std::vector<float> computed_;       // [the same rows, vocab]
};

}  // namespace outrider
