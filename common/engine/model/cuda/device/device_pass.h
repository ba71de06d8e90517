// One pass of a decoder-only transformer on the cuda backend's kernels, on one device or several:
// each does its part (device_part.h), and the columns of rows that all need whole are exchanged.
//
// A pass is two uploads, one launch of a graph and one wait; each further device has three uploads.
// The graph holds all kernels of all layers, the exchanges, and the copies of the logits and of
// what a tap wants, which a second stream carries beside later layers; heads on it are computed
// there. Passes of one shape share a graph; it is recorded at the first of them. Tokens are chosen
// on the first device. If a row wants its logits, those of all rows come to the host.
//
// The layers of a streamed model come from a feed (layer_feed.h) in the middle of the pass, so no
// graph holds it: each layer is launched when it has been read. All parts of the pass go through
// the layer while it is on the device, so a pass reads each layer once.
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
#include "common/engine/model/cuda/device/layer_feed.h"
#include "common/engine/model/cuda/device/pass_input.h"
#include "common/engine/model/model.h"

namespace outrider::cuda {

class DevicePass final {
 public:
  // max_positions: of a row's path. feed: of a streamed model on one device; null: all weights are
  // on the devices. Errors: RESOURCE_EXHAUSTED if scratch memory does not fit.
  static Result<std::unique_ptr<DevicePass>> make(DeviceApi& api, const DeviceWeights& weights,
                                                  const DeviceKvMemory& kv, ThreadPool& threads,
                                                  Position max_positions,
                                                  LayerFeed* feed = nullptr);

  // The bytes that make() allocates with a feed, on the device and on the host. weights: with the
  // layers' shapes.
  static std::int64_t streamed_bytes(const CpuWeights& weights);

  // rows: checked, in as many parts as max_rows() wants; first: index of
  // their first among the pass's rows that want logits. logits: [rows that want them, head_size].
  // level: of add_level(); 0: all weights. Fills out.chosen, unless it is empty; logits of rows
  // whose token is chosen are not written. Errors: CANCELLED if the pass was abandoned; those of
  // the device and of the feed.
  Status run(std::span<const Row> rows, std::size_t first, PassOutput& out, float* logits,
             std::size_t level);
  // Adds a level of an elastic model to what run() computes; its number there. On one device only.
  std::size_t add_level(const ElasticLevel& level);

  // Does what Model::take_heads() says.
  Status take_heads(const LayerHeads& heads);
  // Whether run() chooses tokens of rows that ask for it.
  bool can_choose() const { return inputs_.front().can_choose(); }
  // Most rows that run() takes, if the longest sees so many positions.
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

  // Rows of a streamed pass that are computed together.
  struct StreamedPart {
    std::span<const Row> rows;
    std::size_t first = 0;  // as run()'s
    GraphKey key;
  };

  DevicePass(DeviceApi& api, const DeviceWeights& weights, ThreadPool& threads,
             std::vector<PassInput> inputs, LayerFeed* feed);
  Status add_parts(const DeviceWeights& weights, const DeviceKvMemory& kv, Position max_positions);
  std::int64_t part_rows(Position positions) const;
  Result<GraphKey> prepare(std::span<const Row> rows, const PassOutput& out, std::size_t level);
  void use_input(std::size_t number);
  PassInput& input() { return inputs_[input_]; }
  Status run_streamed(std::span<const Row> rows, std::size_t first, PassOutput& out, float* logits);
  Result<std::vector<StreamedPart>> prepare_parts(std::span<const Row> rows, std::size_t first,
                                                  const PassOutput& out);
  Status stream_layers(std::span<const StreamedPart> parts, PassOutput& out);
  Status stream_results(std::span<const StreamedPart> parts, std::size_t first, PassOutput& out,
                        float* logits);
  Status finish();
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
  void show_layer(std::int32_t layer, const GraphKey& key, std::span<const Row> rows,
                  std::size_t first, PassOutput& out);
  const DeviceLayer& layer_of(const GraphKey& key, std::size_t device, std::size_t layer) const;
  Status take_results(std::span<const Row> rows, std::size_t first, PassOutput& out, float* logits);

  // Constant after construction.
  DeviceApi& api_;
  const DeviceWeights& weights_;
  const ModelConfig& config_;
  ThreadPool& threads_;
  LayerFeed* const feed_;  // null: all weights are on the devices
  const PassBounds bounds_;
  std::vector<PassInput> inputs_;  // one; with a feed one for each part of a pass
  const Stream side_;
  const Event done_, joined_;
  const std::int64_t hidden_stride_;
  std::vector<DevicePart> parts_;    // by device; the first one's stream is the pass's
  DeviceMemory found_, host_found_;  // [bounds_.rows] FoundChoices
  DeviceMemory host_logits_;         // [bounds_.rows, head_size]

  std::vector<WeightsOnDevice> levels_;  // by number - 1
  std::unique_ptr<DeviceHeads> heads_;   // null: none
  std::map<GraphKey, KeptGraph> graphs_;
  std::map<std::int32_t, Shown> shown_;  // by layer
  std::uint64_t passes_ = 0;
  std::size_t input_ = 0;               // of the part at hand
  const DeviceLayer* taken_ = nullptr;  // from the feed, at hand; null: there is no feed
  std::vector<float> gathered_;         // [rows that want logits, hidden]
};

}  // namespace outrider::cuda
