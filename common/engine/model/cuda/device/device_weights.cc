// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_weights.h"

#include <utility>

#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/cuda/kernels/lane_panels.h"

namespace outrider::cuda {
namespace {

// Outputs of a matrix on the host, from a multiple of 32 on.
WeightMatrix outputs_of(const WeightMatrix& matrix, const Share& share) {
  WeightMatrix part = matrix;
  part.outputs = share.count();
  const std::int64_t bytes =
      matrix.type == WeightType::kQuantized
          ? share.begin / kPanelOutputs * PanelLayout(matrix.format, matrix.inputs).panel_bytes
          : share.begin * matrix.inputs * element_bytes(matrix.type);
  part.data = static_cast<const std::byte*>(matrix.data) + bytes;
  return part;
}

}  // namespace

// To one device. Each upload waits: what it reads is valid only until the next layer is loaded.
class DeviceWeights::Uploader {
 public:
  Uploader(DeviceApi& api, const DeviceSplit& split, int device, DeviceWeights& to)
      : api_(api),
        split_(split),
        device_(device),
        to_(to.devices_[static_cast<std::size_t>(device)]),
        memory_(to.memory_),
        stream_(api.new_stream(device)),
        done_(api.new_event(device)) {}

  Status take(const CpuWeights& weights, std::int32_t index) {
    if (index < static_cast<std::int32_t>(weights.layers.size())) {
      return upload_layer(weights.layers[static_cast<std::size_t>(index)]);
    }
    OUTRIDER_RETURN_IF_ERROR(upload(weights.final_norm, to_.final_norm));
    return upload(weights.head, split_.head(device_), to_.head);
  }

 private:
  Status upload_layer(const CpuLayer& from) {
    DeviceLayer layer;
    layer.window = from.window;
    OUTRIDER_RETURN_IF_ERROR(upload(from.attention_norm, layer.attention_norm));
    OUTRIDER_RETURN_IF_ERROR(upload(from.mlp_norm, layer.mlp_norm));
    OUTRIDER_RETURN_IF_ERROR(upload(from.q_norm, layer.q_norm));
    OUTRIDER_RETURN_IF_ERROR(upload(from.k_norm, layer.k_norm));
    OUTRIDER_RETURN_IF_ERROR(upload(from.q, split_.queries(device_), layer.q));
    OUTRIDER_RETURN_IF_ERROR(upload(from.k, split_.keys(device_), layer.k));
    OUTRIDER_RETURN_IF_ERROR(upload(from.v, split_.keys(device_), layer.v));
    OUTRIDER_RETURN_IF_ERROR(upload(from.o, split_.hidden(device_), layer.o));
    OUTRIDER_RETURN_IF_ERROR(upload(from.gate, split_.inner(device_), layer.gate));
    OUTRIDER_RETURN_IF_ERROR(upload(from.up, split_.inner(device_), layer.up));
    OUTRIDER_RETURN_IF_ERROR(upload(from.down, split_.hidden(device_), layer.down));
    to_.layers.push_back(layer);
    return {};
  }

  Status upload(const LinearWeights& from, const Share& share, DeviceLinear& to) {
    if (from.matrix.type == WeightType::kQuantized && !has_kernels(from.matrix.format)) {
      return unimplemented(
          "device cuda: has no kernels for blocks of the types IQ4_NL, IQ4_XS, Q2_K and Q3_K. "
          "Remedy: --dtype int8, or a file of another type");
    }
    to.matrix = outputs_of(from.matrix, share);
    if (share.count() == 0) return {};
    if (!from.bias.empty()) {
      const auto bias = from.bias.begin();
      OUTRIDER_RETURN_IF_ERROR(
          upload(std::vector<float>(bias + share.begin, bias + share.end), to.bias));
    }
    const void* data = to.matrix.data;
    std::int64_t bytes = bytes_of(to.matrix);
    if (to.matrix.type != WeightType::kQuantized) {
      bytes = lane_panel_bytes(to.matrix);
      panels_.resize(static_cast<std::size_t>(bytes));
      write_lane_panels(to.matrix, panels_.data());
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
                              DeviceMemory::make(api_, MemoryKind::kDevice, bytes, device_));
    const std::byte* const data = memory.data();
    api_.upload(memory.data(), from, bytes, stream_);
    api_.signal(done_, stream_);
    OUTRIDER_RETURN_IF_ERROR(api_.synchronize(done_));
    memory_.push_back(std::move(memory));
    return data;
  }

  DeviceApi& api_;
  const DeviceSplit& split_;
  const int device_;
  WeightsOnDevice& to_;
  std::vector<DeviceMemory>& memory_;
  const Stream stream_;
  const Event done_;
  std::vector<std::byte> panels_;
};

Result<DeviceWeights> DeviceWeights::load(DeviceApi& api, std::shared_ptr<const ModelFiles> files,
                                          ComputeType type, ThreadPool& pool,
                                          const LoadProgress& progress) {
  DeviceWeights weights;
  weights.devices_.resize(static_cast<std::size_t>(api.devices()));
  const DeviceSplit split(files->config, api.devices());
  std::vector<Uploader> uploaders;
  uploaders.reserve(weights.devices_.size());
  for (int device = 0; device < api.devices(); ++device) {
    uploaders.emplace_back(api, split, device, weights);
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      weights.about_,
      CpuWeightsLoader(kernels_for(best_vector_target()), pool, WeightCache("", {}), progress)
          .load_by_layer(files, type, [&](const CpuWeights& loaded, std::int32_t layer) -> Status {
            for (Uploader& uploader : uploaders) {
              OUTRIDER_RETURN_IF_ERROR(uploader.take(loaded, layer));
            }
            return {};
          }));
  return weights;
}

}  // namespace outrider::cuda
