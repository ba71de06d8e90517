// Brings the layers of a streamed model to a device: the first ones and the output matrix stay
// there; each other layer goes through one of two buffers in turn, so that one is uploaded while
// the layer before it computes.
//
//   for (i = 0; i < num_layers; ++i) {
//     layer = *feed.take(i, stream);   // blocks until the layer has been read, not for its upload
//     compute(*layer, stream);
//     feed.release(i, stream);
//   }
//   head = *feed.take_head();
//   synchronize(stream);
//   feed.end_pass();
//
// Uploads have a stream of their own. Events make a layer's work wait for its upload, and an upload
// for the work on the layer that was in its buffer. A layer's buffer on the host is read into again
// only after its upload.
//
// Thread rule: the thread that runs passes; open() from another one before. Ownership: device,
// weights and threads outlive this. Errors: those of the store, which fail the pass; of the device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/streaming_device.h"
#include "common/engine/model/cuda/device/device_api.h"
#include "common/engine/model/cuda/device/device_weights.h"

namespace outrider::cuda {

class LayerFeed final {
 public:
  // Takes what stays and opens the store. weights: of a LayerSource, without matrices; kept_layers
  // and open: the same one's. Errors: those of `open`; RESOURCE_EXHAUSTED.
  static Result<std::unique_ptr<LayerFeed>> open(DeviceApi& api, const DeviceWeights& weights,
                                                 std::int64_t kept_layers,
                                                 const LayerSource::Open& open,
                                                 ThreadPool& threads);

  // The layer's weights on the device, for work that is put into this stream next.
  Result<const DeviceLayer*> take(std::int64_t layer, Stream stream);
  // That work has been put.
  void release(std::int64_t layer, Stream stream);
  Result<const DeviceLinear*> take_head();
  // All work of the pass is done.
  Status end_pass();

  // The bytes on the device of a layer's matrices, and of the buffers for layers that do not
  // stay, with those on the host.
  static std::int64_t layer_bytes(const CpuLayer& layer);
  static std::int64_t head_bytes(const LinearWeights& head);
  static std::int64_t buffers_bytes(const CpuWeights& weights);

 private:
  class Keeper;
  // The place on the device of a layer that does not stay.
  struct Buffer {
    std::byte* memory = nullptr;
    Event uploaded = nullptr;
    Event computed = nullptr;
  };
  // Matrices that are no panels yet become panels here, a part at a time.
  struct Panels {
    DeviceMemory memory;
    Event uploaded = nullptr;
    bool is_used = false;
  };

  LayerFeed(DeviceApi& api, const DeviceWeights& weights, ThreadPool& threads);
  Status allocate_kept(const CpuWeights& weights, std::int64_t kept_layers);
  Status allocate_buffers(const CpuWeights& weights);
  Status bring(const CpuLayer& from, std::byte* at, DeviceLayer& to);
  Status bring(const WeightMatrix& from, std::byte*& at, WeightMatrix& to);
  Status bring_panels(const WeightMatrix& from, std::byte* to);
  Status finish_uploads();

  DeviceApi& api_;
  ThreadPool& threads_;
  const Stream stream_;   // of uploads
  const Event finished_;  // all of them
  bool is_uploading_ = false;

  std::vector<DeviceLayer> layers_;  // the kept ones have their matrices' data
  DeviceLinear head_;
  std::int64_t kept_layers_ = 0;
  DeviceMemory kept_, streamed_;
  std::array<Panels, 2> panels_;
  std::size_t next_panels_ = 0;
  std::array<Buffer, 2> buffers_;
  std::size_t buffer_ = 0;  // of the layer at hand, if it does not stay
  DeviceLayer layer_;       // that one

  std::unique_ptr<LayerStore> store_;
  PinnedMemory pinned_;  // the store's buffers
};

}  // namespace outrider::cuda
