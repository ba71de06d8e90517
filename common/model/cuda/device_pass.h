// One pass of a decoder-only transformer on the cuda backend's kernels: the stages of the cpu
// backend's pass (common/model/cpu/cpu_pass.h), with its bits.
//
// A pass is two uploads, one launch of a graph and one wait. The graph holds all kernels of all
// layers, and the copies of the logits and of what a tap wants, which a second stream carries
// beside later layers. Passes of one shape share a graph; it is recorded at the first of them.
//
// Thread rule: one thread. Ownership: everything passed in outlives this.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/model/cuda/device_api.h"
#include "common/model/cuda/device_kv.h"
#include "common/model/cuda/device_weights.h"
#include "common/model/cuda/pass_input.h"
#include "common/model/model.h"

namespace outrider::cuda {

class DevicePass final {
 public:
  // Most rows computed together. Bounds the scratch memory and changes no bit.
  static constexpr std::int64_t kMaxRows = 512;

  // max_positions: of a row's path. Errors: RESOURCE_EXHAUSTED if scratch memory does not fit.
  static Result<std::unique_ptr<DevicePass>> make(DeviceApi& api, const DeviceWeights& weights,
                                                  const DeviceKvMemory& kv, ThreadPool& threads,
                                                  Position max_positions);

  // rows: checked, in as many parts as max_rows() wants; first: index of
  // their first among the pass's rows that want logits. logits: [rows that want them, head_size].
  // Errors: CANCELLED if the pass was abandoned; those of the device.
  Status run(std::span<const Row> rows, std::size_t first, PassOutput& out, float* logits);

  // Most rows of a part of a pass whose longest row sees so many positions.
  std::int64_t max_rows(Position positions) const;

 private:
  // What a graph was recorded for.
  struct GraphKey {
    PassShape shape;
    std::vector<std::int32_t> taps;  // layers whose input is shown
    friend auto operator<=>(const GraphKey&, const GraphKey&) = default;
  };
  struct KeptGraph {
    Graph graph = nullptr;
    std::uint64_t last_pass = 0;
  };
  // The residual stream before a layer, for a tap.
  struct Shown {
    DeviceMemory device, host;  // [rows that want logits, hidden_stride]
    Event copied = nullptr, fork = nullptr;
  };
  // Rows between two stages: f32, quantised, or both, as the next matrices take them.
  struct Activations {
    float* values = nullptr;  // [kMaxRows, stride]
    std::byte* quantized = nullptr;
    std::int64_t stride = 0;
  };

  DevicePass(DeviceApi& api, const DeviceWeights& weights, const DeviceKvMemory& kv,
             ThreadPool& threads, PassInput input);
  Status allocate(Position max_positions);
  Result<Graph> find_graph(const GraphKey& key);
  Result<Graph> record(const GraphKey& key);
  Status add_shown(std::int32_t layer);
  void record_shown(const GraphKey& key, std::int32_t layer);
  void record_layer(const PassShape& shape, const DeviceLayer& layer, std::int64_t index);
  void record_attention(const PassShape& shape, const DeviceLayer& layer, std::int64_t index);
  void record_head(const PassShape& shape);
  void multiply_all(std::span<const Product> products, const Activations& x, std::int64_t rows);
  Status show(const GraphKey& key, std::span<const Row> rows, std::size_t first, PassOutput& out);

  // Constant after construction.
  DeviceApi& api_;
  const DeviceWeights& weights_;
  const ModelConfig& config_;
  const DeviceKvMemory& kv_;
  ThreadPool& threads_;
  PassInput input_;
  const Stream main_, side_;
  const Event done_, joined_;
  const std::int64_t hidden_stride_, head_stride_;
  std::int64_t scratch_floats_ = 0;  // of attention
  DeviceMemory memory_;              // what the pointers below point into
  Activations normed_, attended_, gate_;
  float *queries_ = nullptr, *keys_ = nullptr, *values_ = nullptr, *rotated_ = nullptr;
  float *up_ = nullptr, *scratch_ = nullptr, *logits_ = nullptr;
  DeviceMemory host_logits_;  // [kMaxRows, head_size]

  std::map<GraphKey, KeptGraph> graphs_;
  std::map<std::int32_t, Shown> shown_;  // by layer
  std::uint64_t passes_ = 0;
  std::vector<float> gathered_;  // [rows that want logits, hidden]
};

}  // namespace outrider::cuda
