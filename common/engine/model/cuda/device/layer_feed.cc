// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/layer_feed.h"

#include <algorithm>
#include <utility>

#include "common/engine/model/cuda/kernels/lane_panels.h"

namespace outrider::cuda {
namespace {

constexpr std::int64_t kPanelsBytes = 8 << 20;  // of each of two buffers, at most, or one panel

// Calls visit(LinearWeights of the host, DeviceLinear) for each matrix of a layer, in the order in
// which they lie on the device.
template <class Visit>
void visit_pairs(const CpuLayer& from, DeviceLayer& to, const Visit& visit) {
  visit(from.q, to.q);
  visit(from.k, to.k);
  visit(from.v, to.v);
  visit(from.o, to.o);
  visit(from.gate, to.gate);
  visit(from.up, to.up);
  visit(from.down, to.down);
}

std::int64_t aligned_bytes(const WeightMatrix& matrix) {
  return (device_bytes(matrix) + 255) / 256 * 256;
}

// Sixteen outputs of a matrix that is not quantised.
std::int64_t panel_bytes(const WeightMatrix& matrix) {
  return lane_panel_bytes(matrix) / PanelLayout::panels(matrix.outputs);
}

// The size of each of the two buffers that turn matrices into panels; 0: all are panels.
std::int64_t buffer_bytes(const CpuWeights& weights) {
  std::int64_t bytes = 0;
  const auto add = [&bytes](const LinearWeights& linear) {
    if (linear.matrix.type == WeightType::kQuantized) return;
    const std::int64_t most = std::max(kPanelsBytes, panel_bytes(linear.matrix));
    bytes = std::max(bytes, std::min(most, lane_panel_bytes(linear.matrix)));
  };
  for (const CpuLayer& layer : weights.layers) visit_matrices(layer, add);
  add(weights.head);
  return bytes;
}

std::int64_t largest_layer(const CpuWeights& weights) {
  std::int64_t bytes = 0;
  for (const CpuLayer& layer : weights.layers) {
    bytes = std::max(bytes, LayerFeed::layer_bytes(layer));
  }
  return bytes;
}

}  // namespace

// Uploads each layer before the next one is read to where it was.
class LayerFeed::Keeper final : public LayerKeeper {
 public:
  Keeper(LayerFeed& feed, const CpuWeights& weights) : feed_(feed), at_(feed.kept_.data()) {
    for (std::int64_t layer = 0; layer < feed.kept_layers_; ++layer) {
      places_.push_back(at_);
      at_ += layer_bytes(weights.layers[static_cast<std::size_t>(layer)]);
    }
  }

  Status keep(std::int64_t layer, const CpuLayer& weights) override {
    const auto index = static_cast<std::size_t>(layer);
    OUTRIDER_RETURN_IF_ERROR(feed_.bring(weights, places_[index], feed_.layers_[index]));
    return feed_.finish_uploads();
  }
  Status keep_head(const LinearWeights& head) override {
    std::byte* at = at_;
    OUTRIDER_RETURN_IF_ERROR(feed_.bring(head.matrix, at, feed_.head_.matrix));
    return feed_.finish_uploads();
  }

 private:
  LayerFeed& feed_;
  std::byte* at_;  // of the output matrix, behind the layers
  std::vector<std::byte*> places_;
};

std::int64_t LayerFeed::layer_bytes(const CpuLayer& layer) {
  std::int64_t bytes = 0;
  visit_matrices(layer,
                 [&](const LinearWeights& linear) { bytes += aligned_bytes(linear.matrix); });
  return bytes;
}

std::int64_t LayerFeed::head_bytes(const LinearWeights& head) {
  return aligned_bytes(head.matrix);
}

std::int64_t LayerFeed::buffers_bytes(const CpuWeights& weights) {
  return 2 * (largest_layer(weights) + buffer_bytes(weights));
}

LayerFeed::LayerFeed(DeviceApi& api, const DeviceWeights& weights, ThreadPool& threads)
    : api_(api),
      threads_(threads),
      stream_(api.new_stream()),
      finished_(api.new_event()),
      layers_(weights.on_device(0).layers),
      head_(weights.on_device(0).head) {
  for (Buffer& buffer : buffers_) {
    buffer.uploaded = api.new_event();
    buffer.computed = api.new_event();
  }
  for (Panels& panels : panels_) panels.uploaded = api.new_event();
}

Result<std::unique_ptr<LayerFeed>> LayerFeed::open(DeviceApi& api, const DeviceWeights& weights,
                                                   std::int64_t kept_layers,
                                                   const LayerSource::Open& open,
                                                   ThreadPool& threads) {
  std::unique_ptr<LayerFeed> feed(new LayerFeed(api, weights, threads));
  OUTRIDER_RETURN_IF_ERROR(feed->allocate_kept(weights.about(), kept_layers));
  Keeper keeper(*feed, weights.about());
  OUTRIDER_ASSIGN_OR_RETURN(feed->store_, open(keeper));
  OUTRIDER_RETURN_IF_ERROR(feed->allocate_buffers(weights.about()));
  OUTRIDER_ASSIGN_OR_RETURN(feed->pinned_, PinnedMemory::make(api, feed->store_->buffers()));
  return feed;
}

Status LayerFeed::allocate_kept(const CpuWeights& weights, std::int64_t kept_layers) {
  kept_layers_ = kept_layers;
  std::int64_t kept = head_bytes(weights.head);
  for (std::int64_t layer = 0; layer < kept_layers; ++layer) {
    kept += layer_bytes(weights.layers[static_cast<std::size_t>(layer)]);
  }
  OUTRIDER_ASSIGN_OR_RETURN(kept_, DeviceMemory::make(api_, MemoryKind::kDevice, kept));
  if (const std::int64_t bytes = buffer_bytes(weights); bytes > 0) {
    for (Panels& panels : panels_) {
      OUTRIDER_ASSIGN_OR_RETURN(panels.memory, DeviceMemory::make(api_, MemoryKind::kHost, bytes));
    }
  }
  return {};
}

Status LayerFeed::allocate_buffers(const CpuWeights& weights) {
  if (kept_layers_ == std::ssize(layers_)) {
    for (Panels& panels : panels_) panels.memory = DeviceMemory();  // nothing more is brought
    return {};
  }
  const std::int64_t largest = largest_layer(weights);
  OUTRIDER_ASSIGN_OR_RETURN(streamed_, DeviceMemory::make(api_, MemoryKind::kDevice, 2 * largest));
  buffers_[0].memory = streamed_.data();
  buffers_[1].memory = streamed_.data() + largest;
  return {};
}

Result<const DeviceLayer*> LayerFeed::take(std::int64_t layer, Stream stream) {
  OUTRIDER_RETURN_IF_ERROR(finish_uploads());  // the store may read over the layer before
  OUTRIDER_ASSIGN_OR_RETURN(const CpuLayer* from, store_->acquire(layer));
  const DeviceLayer& shape = layers_[static_cast<std::size_t>(layer)];
  if (layer < kept_layers_) return &shape;
  buffer_ = (buffer_ + 1) % buffers_.size();
  const Buffer& buffer = buffers_[buffer_];
  layer_ = shape;
  api_.wait(stream_, buffer.computed);
  OUTRIDER_RETURN_IF_ERROR(bring(*from, buffer.memory, layer_));
  api_.record(buffer.uploaded, stream_);
  api_.wait(stream, buffer.uploaded);
  return &layer_;
}

void LayerFeed::release(std::int64_t layer, Stream stream) {
  if (layer >= kept_layers_) api_.record(buffers_[buffer_].computed, stream);
}

Result<const DeviceLinear*> LayerFeed::take_head() {
  OUTRIDER_RETURN_IF_ERROR(finish_uploads());
  OUTRIDER_RETURN_IF_ERROR(store_->acquire_head().status());
  return &head_;
}

Status LayerFeed::end_pass() {
  const Status finished = finish_uploads();
  store_->end_pass();
  return finished;
}

// Puts the uploads of a layer's matrices, to one place after the other.
Status LayerFeed::bring(const CpuLayer& from, std::byte* at, DeviceLayer& to) {
  Status status;
  visit_pairs(from, to, [&](const LinearWeights& host, DeviceLinear& device) {
    if (status.ok()) status = bring(host.matrix, at, device.matrix);
  });
  return status;
}

Status LayerFeed::bring(const WeightMatrix& from, std::byte*& at, WeightMatrix& to) {
  to.data = at;
  is_uploading_ = true;
  std::byte* const begin = std::exchange(at, at + aligned_bytes(from));
  if (from.type != WeightType::kQuantized) return bring_panels(from, begin);
  api_.upload(begin, from.data, device_bytes(from), stream_);
  return {};
}

// One buffer is filled while the other one is uploaded.
Status LayerFeed::bring_panels(const WeightMatrix& from, std::byte* to) {
  const std::int64_t panel = panel_bytes(from);
  const std::int64_t row = from.inputs * element_bytes(from.type);
  const std::int64_t count = PanelLayout::panels(from.outputs);
  const std::int64_t most = panels_.front().memory.bytes() / panel;
  for (std::int64_t begin = 0; begin < count; begin += most) {
    Panels& panels = panels_[std::exchange(next_panels_, 1 - next_panels_)];
    if (std::exchange(panels.is_used, true)) {
      OUTRIDER_RETURN_IF_ERROR(api_.synchronize(panels.uploaded));
    }
    const std::int64_t these = std::min(most, count - begin);
    threads_.parallel_for(these, 1, [&](std::int64_t first, std::int64_t end) {
      WeightMatrix part = from;
      part.data = static_cast<const std::byte*>(from.data) + (begin + first) * kPanelOutputs * row;
      part.outputs =
          std::min(from.outputs - (begin + first) * kPanelOutputs, (end - first) * kPanelOutputs);
      write_lane_panels(part, panels.memory.data() + first * panel);
    });
    api_.upload(to + begin * panel, panels.memory.data(), these * panel, stream_);
    api_.signal(panels.uploaded, stream_);
  }
  return {};
}

Status LayerFeed::finish_uploads() {
  if (!std::exchange(is_uploading_, false)) return {};
  api_.signal(finished_, stream_);
  return api_.synchronize(finished_);
}

}  // namespace outrider::cuda
