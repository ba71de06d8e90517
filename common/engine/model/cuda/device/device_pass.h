// One pass of a decoder-only transformer on the cuda backend's kernels, on one device or several:
// each does its part (device_part.h), and the columns of rows that all need whole are exchanged.
//
// A pass is two uploads, one launch of a graph and one wait; each further device has three uploads.
// The graph holds all kernels of all layers, the exchanges, and the copies of the logits and of
// what a tap wants, which a second stream carries beside later layers; heads on it are computed
// there. Passes of one shape share a graph; it is recorded at the first of them. Tokens are chosen
// on the first device. If a row wants its logits, those of all rows come to the host.
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
#include "common/engine/model/cuda/device/device_api.h"
#include "common/engine/model/cuda/device/device_heads.h"
#include "common/engine/model/cuda/device/device_kv.h"
#include "common/engine/model/cuda/device/device_part.h"
#include "common/engine/model/cuda/device/device_weights.h"
#include "common/engine/model/cuda/device/pass_input.h"
#include "common/engine/model/model.h"

namespace outrider::cuda {

class DevicePass final {
 public:
  // max_positions: of a row's path. Errors: RESOURCE_EXHAUSTED if scratch memory does not fit.
  static Result<std::unique_ptr<DevicePass>> make(DeviceApi& api, const DeviceWeights& weights,
                                                  const DeviceKvMemory& kv, ThreadPool& threads,
                                                  Position max_positions);

  // rows: checked, in as many parts as max_rows() wants; first: index of
  // their first among the pass's rows that want logits. logits: [rows that want them, head_size].
  // level: of add_level(); 0: all weights. Fills out.chosen, unless it is empty; logits of rows
  // whose token is chosen are not written. Errors: CANCELLED if the pass was abandoned; those of
  // the device.
  Status run(std::span<const Row> rows, std::size_t first, PassOutput& out, float* logits,
             std::size_t level);
  // Adds a level of an elastic model to what run() computes; its number there. On one device only.
  std::size_t add_level(const ElasticLevel& level);

  // Does what Model::take_heads() says.
  Status take_heads(const LayerHeads& heads);
  // Whether run() chooses tokens of rows that ask for it.
  bool can_choose() const { return input_.can_choose(); }
  // Most rows of a part of a pass whose longest row sees so many positions.
  std::int64_t max_rows(Position positions) const;

 private:
  // The passes for which a graph was recorded.
  struct GraphKey {
    PassShape shape;
    std::vector<std::int32_t> taps;  // layers whose input is shown
    std::size_t level = 0;
    friend auto operator<=>(const GraphKey&, const GraphKey&) = default;
  };
  struct KeptGraph {
    Graph graph = nullptr;
    std::uint64_t last_pass = 0;
  };
  // The residual stream before a layer, for a tap, on the first device.
  struct Shown {
    DeviceMemory device, host;  // [rows that want logits, hidden_stride]
    Event copied = nullptr, fork = nullptr;
  };

  DevicePass(DeviceApi& api, const DeviceWeights& weights, ThreadPool& threads, PassInput input);
  Status add_parts(const DeviceWeights& weights, const DeviceKvMemory& kv, Position max_positions);
  Stream main() const { return parts_.front().stream(); }
  void upload();
  Result<Graph> find_graph(const GraphKey& key);
  Result<Graph> record(const GraphKey& key);
  Status add_shown(std::int32_t layer);
  void record_shown(const GraphKey& key, std::int32_t layer);
  void record_layer(const GraphKey& key, std::size_t layer);
  template <class ColumnsOf>
  void exchange(std::int64_t rows, const ColumnsOf& columns_of);
  void join_main();
  void record_results(const PassShape& shape);
  Status show(const GraphKey& key, std::span<const Row> rows, std::size_t first, PassOutput& out);
  Status take_results(std::span<const Row> rows, std::size_t first, PassOutput& out, float* logits);

  // Constant after construction.
  DeviceApi& api_;
  const DeviceWeights& weights_;
  const ModelConfig& config_;
  ThreadPool& threads_;
  PassInput input_;
  const Stream side_;
  const Event done_, joined_;
  const std::int64_t hidden_stride_;
  std::vector<DevicePart> parts_;    // by device; the first one's stream is the pass's
  DeviceMemory found_, host_found_;  // [kMaxRows] FoundChoices
  DeviceMemory host_logits_;         // [kMaxRows, head_size]

  std::vector<WeightsOnDevice> levels_;  // by number - 1
  std::unique_ptr<DeviceHeads> heads_;   // null: none
  std::map<GraphKey, KeptGraph> graphs_;
  std::map<std::int32_t, Shown> shown_;  // by layer
  std::uint64_t passes_ = 0;
  std::vector<float> gathered_;  // [rows that want logits, hidden]
};

}  // namespace outrider::cuda
