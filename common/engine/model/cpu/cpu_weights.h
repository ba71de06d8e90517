// A model's weights in the form that the cpu kernels read: mapped as stored, or converted at
// loading.
//
// f32, bf16 and f16 matrices stay mapped and are widened exactly in registers, so a bf16 file gives
// the same bits under --dtype f32 and bf16. These are converted copies: int8 and int4, bf16 from a
// wider file, the block types of GGUF files, and rows that GGUF stores in another order. Blocks are
// int8 or int4 with scales: `auto`, int8, and int4 for blocks of 4 bits, keep their numbers
// (stored_blocks.h). int4 leaves the output matrix at int8: it is few of the weights, and every
// logit depends on it. A router stays in f32 or bf16.
//
// Thread rule: immutable once made. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/compute_type.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/pack/weight_cache.h"
#include "common/engine/model/cpu/weight_converter.h"
#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/model_files.h"

namespace outrider {

struct LinearWeights {
  WeightMatrix matrix;
  std::vector<float> bias;  // [outputs] or empty
  // Where a pack keeps a layer level by level: the matrix's parts, one below the other or one
  // beside the other; `matrix` then has its shape, and no data. Empty: it is in one piece.
  std::vector<WeightMatrix> parts = {};

  bool is_beside() const { return !parts.empty() && parts.front().outputs == matrix.outputs; }
};

struct CpuExpert {
  LinearWeights gate, up, down;
};

// A vector that the model lacks is empty; a matrix that it lacks has no outputs.
struct CpuLayer {
  std::vector<float> attention_norm;  // [hidden]
  LinearWeights q, k, v, o;
  std::vector<float> q_norm, k_norm;  // [head_dim]
  std::vector<float> mlp_norm;        // [hidden]
  LinearWeights gate, up, down;
  std::int64_t window = 0;  // positions seen; 0: all
  LayerRope rope = LayerRope::kMain;
  std::vector<float> attention_norm_bias, mlp_norm_bias;      // [hidden], of a kLayer norm
  std::vector<float> attention_output_norm, mlp_output_norm;  // [hidden], sandwich norms
  LinearWeights router;                                       // [experts, hidden]
  std::vector<CpuExpert> experts;                             // in the place of gate, up and down

  // A level of an elastic model may leave out either half of a layer.
  bool has_attention() const { return q.matrix.outputs > 0; }
  bool has_feed_forward() const { return up.matrix.outputs > 0 || !experts.empty(); }
};

// Calls visit(LinearWeights&) for each matrix of a layer, in the order of layer_matrices(). Layer:
// CpuLayer, const or not.
template <class Layer, class Visit>
void visit_matrices(Layer& layer, const Visit& visit) {
  for (auto* weights : {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down,
                        &layer.router}) {
    if (weights->matrix.outputs > 0) visit(*weights);
  }
  for (auto& expert : layer.experts) {
    for (auto* weights : {&expert.gate, &expert.up, &expert.down}) visit(*weights);
  }
}

// Called from the loading thread as matrices are converted, with bytes read so far and in total.
using LoadProgress = std::function<void(std::int64_t done, std::int64_t total)>;

struct CpuWeights {
  std::shared_ptr<const ModelFiles> files;  // keeps the mapping
  TensorView embedding;                     // [vocab, hidden], read a row at a time
  std::vector<CpuLayer> layers;
  TensorView positions;  // [positions, hidden] if they are learned
  std::vector<float> final_norm, final_norm_bias;
  LinearWeights head;
  bool quantized = false;  // some matrices are int8 or int4
  std::string dtype;       // "f32", "bf16", "int8", "int4"; for mixed blocks the narrowest
  std::string arithmetic;  // "exact" (every weight as stored), "bf16", "int8", "int4", or "blocks"
                           // (stored in mixed block types and not converted)
  std::string order;       // of units (order_id()); empty: as stored
  const ElasticLevel* level = nullptr;  // of files->elastic; null: the full model
  std::int64_t bytes_per_pass = 0;
  WeightArena converted;
  std::shared_ptr<const CachedWeights> kept;  // converted weights of an earlier start, or null
};

// The memory that a product reads, piece by piece; of `weights`, which outlive it.
inline std::span<const WeightMatrix> pieces_of(const LinearWeights& weights) {
  if (weights.parts.empty()) return {&weights.matrix, 1};
  return weights.parts;
}

// The weights of a level of files->elastic: views of the full ones, which outlive them, with their
// norms and biases. A layer without heads or without neurons has no matrices for them.
CpuWeights weights_of_level(const CpuWeights& full, const ElasticLevel& level);

// Returns a matrix of a layer, with its data; of layer num_layers, the output matrix.
using MatrixSource =
    std::function<Result<WeightMatrix>(const LayerMatrix& which, std::int32_t layer)>;

// Called for each complete layer; num_layers: the output matrix.
using LayerDone = std::function<Status(std::int32_t layer)>;

// Fills in everything after the embedding, from weights.files and `source`, layer by layer; the
// output matrix comes last, as layer num_layers.
Status fill_layers(const MatrixSource& source, CpuWeights& weights, const LayerDone& done = {});

// Uses the pool for conversions, and for reading a cache of earlier ones.
class CpuWeightsLoader final {
 public:
  CpuWeightsLoader(const Kernels& kernels, ThreadPool& pool, WeightCache cache,
                   LoadProgress progress)
      : pool_(pool),
        cache_(std::move(cache)),
        converter_(kernels, pool),
        progress_(std::move(progress)) {}

  // Errors: RESOURCE_EXHAUSTED if converted weights do not fit.
  Result<CpuWeights> load(std::shared_ptr<const ModelFiles> files, ComputeType type);

  // Loads a layer at a time, for callers without memory for all layers: the layer's matrices are
  // valid only during the call of `take`. num_layers: the output matrix.
  using TakeLayer = std::function<Status(const CpuWeights& weights, std::int32_t layer)>;
  Result<CpuWeights> load_by_layer(std::shared_ptr<const ModelFiles> files, ComputeType type,
                                   const TakeLayer& take);

 private:
  void begin(std::shared_ptr<const ModelFiles> files, ComputeType type);
  Status fill(const LayerDone& done);
  Result<WeightMatrix> load_matrix(const LayerMatrix& which, std::int32_t layer);
  WeightMatrix planned_matrix(const LayerMatrix& which, std::int32_t layer) const;
  std::span<const TokenId> chosen_rows(std::int32_t layer) const;
  bool converts(const LayerMatrix& which, std::int32_t layer) const;
  std::int64_t bytes_to_convert() const;
  void note_kind(const TensorView& source, const WeightMatrix& matrix);
  Status convert(const std::string& name, std::int64_t layer, std::span<const TokenId> chosen,
                 WeightMatrix& matrix);

  ThreadPool& pool_;
  const WeightCache cache_;
  WeightConverter converter_;
  LoadProgress progress_;
  ComputeType type_ = ComputeType::kAuto;
  std::string kind_;  // the kind of conversion, in caches
  std::int64_t bytes_read_ = 0;
  std::int64_t bytes_to_read_ = 0;    // without a progress: 0
  std::vector<NamedMatrix> to_keep_;  // converted by this load
  CpuWeights weights_;
};

}  // namespace outrider
