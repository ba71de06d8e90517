// SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/device_weights.h"

#include <utility>

#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/cuda/lane_panels.h"

namespace outrider::cuda {

// Each upload waits: what it reads is valid only until the next layer is loaded.
class DeviceWeights::Uploader {
 public:
  Uploader(DeviceApi& api, DeviceWeights& to)
      : api_(api), to_(to), stream_(api.new_stream()), done_(api.new_event()) {}

  Status take(const CpuWeights& weights, std::int32_t index) {
    if (index < static_cast<std::int32_t>(weights.layers.size())) {
      return upload_layer(weights.layers[static_cast<std::size_t>(index)]);
    }
    OUTRIDER_RETURN_IF_ERROR(upload(weights.final_norm, to_.final_norm_));
    return upload(weights.head, to_.head_);
  }

 private:
  Status upload_layer(const CpuLayer& from) {
    DeviceLayer layer;
    layer.window = from.window;
    OUTRIDER_RETURN_IF_ERROR(upload(from.attention_norm, layer.attention_norm));
    OUTRIDER_RETURN_IF_ERROR(upload(from.mlp_norm, layer.mlp_norm));
    OUTRIDER_RETURN_IF_ERROR(upload(from.q_norm, layer.q_norm));
    OUTRIDER_RETURN_IF_ERROR(upload(from.k_norm, layer.k_norm));
    OUTRIDER_RETURN_IF_ERROR(upload(from.q, layer.q));
    OUTRIDER_RETURN_IF_ERROR(upload(from.k, layer.k));
    OUTRIDER_RETURN_IF_ERROR(upload(from.v, layer.v));
    OUTRIDER_RETURN_IF_ERROR(upload(from.o, layer.o));
    OUTRIDER_RETURN_IF_ERROR(upload(from.gate, layer.gate));
    OUTRIDER_RETURN_IF_ERROR(upload(from.up, layer.up));
    OUTRIDER_RETURN_IF_ERROR(upload(from.down, layer.down));
    to_.layers_.push_back(layer);
    return {};
  }

  Status upload(const LinearWeights& from, DeviceLinear& to) {
    OUTRIDER_RETURN_IF_ERROR(upload(from.bias, to.bias));
    if (from.matrix.type == WeightType::kQuantized && !has_kernels(from.matrix.format)) {
      return unimplemented(
          "device cuda: has no kernels for blocks of the types IQ4_NL, IQ4_XS, Q2_K and Q3_K. "
          "Remedy: --dtype int8, or a file of another type");
    }
    to.matrix = from.matrix;
    const void* data = from.matrix.data;
    std::int64_t bytes = bytes_of(from.matrix);
    if (from.matrix.type != WeightType::kQuantized) {
      bytes = lane_panel_bytes(from.matrix);
      panels_.resize(static_cast<std::size_t>(bytes));
      write_lane_panels(from.matrix, panels_.data());
      data = panels_.data();
    }
    OUTRIDER_ASSIGN_OR_RETURN(to.matrix.data, upload_bytes(data, bytes));
    return {};
  }

  Status upload(const std::vector<float>& from, const float*& to) {
    if (from.empty()) return {};
    const auto bytes = static_cast<std::int64_t>(from.size() * sizeof(float));
    OUTRIDER_ASSIGN_OR_RETURN(const std::byte* data, upload_bytes(from.data(), bytes));
    to = reinterpret_cast<const float*>(data);
    return {};
  }

  Result<const std::byte*> upload_bytes(const void* from, std::int64_t bytes) {
    OUTRIDER_ASSIGN_OR_RETURN(DeviceMemory memory,
                              DeviceMemory::make(api_, MemoryKind::kDevice, bytes));
    const std::byte* const data = memory.data();
    api_.upload(memory.data(), from, bytes, stream_);
    api_.signal(done_, stream_);
    OUTRIDER_RETURN_IF_ERROR(api_.synchronize(done_));
    to_.memory_.push_back(std::move(memory));
    return data;
  }

  DeviceApi& api_;
  DeviceWeights& to_;
  const Stream stream_;
  const Event done_;
  std::vector<std::byte> panels_;
};

Result<DeviceWeights> DeviceWeights::load(DeviceApi& api, std::shared_ptr<const ModelFiles> files,
                                          ComputeType type, ThreadPool& pool,
                                          const LoadProgress& progress) {
  DeviceWeights weights;
  Uploader uploader(api, weights);
  OUTRIDER_ASSIGN_OR_RETURN(
      weights.about_,
      CpuWeightsLoader(kernels_for(best_vector_target()), pool, WeightCache("", {}), progress)
          .load_by_layer(std::move(files), type, [&](const CpuWeights& loaded, std::int32_t layer) {
            return uploader.take(loaded, layer);
          }));
  return weights;
}

}  // namespace outrider::cuda
