// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/device_weights.h"

#include <span>
#include <utility>

#include "common/engine/model/cuda/device/device_upload.h"
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

// The first `count` columns; with none the product is left out.
void keep_inputs(DeviceLinear& linear, std::int64_t count) {
  linear.matrix.stored_inputs = linear.matrix.row_inputs();
  linear.matrix.inputs = count;
  if (count == 0) linear = {};
}

}  // namespace

// To one device, of its share.
class DeviceWeights::Uploader {
 public:
  Uploader(DeviceApi& api, const DeviceSplit& split, int device, bool brings_matrices,
           DeviceWeights& to)
      : split_(split),
        device_(device),
        brings_matrices_(brings_matrices),
        to_(to.devices_[static_cast<std::size_t>(device)]),
        upload_(api, device, to.memory_) {}

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
    if (!from.bias.empty() && share.count() > 0) {
      OUTRIDER_ASSIGN_OR_RETURN(to.bias, upload_.floats(std::span(from.bias).subspan(
                                             static_cast<std::size_t>(share.begin),
                                             static_cast<std::size_t>(share.count()))));
    }
    if (!brings_matrices_) {
      to.matrix = from.matrix;
      to.matrix.data = nullptr;
      return {};
    }
    OUTRIDER_ASSIGN_OR_RETURN(to.matrix, upload_.matrix(outputs_of(from.matrix, share)));
    return {};
  }

  Status upload(const std::vector<float>& from, const float*& to) {
    OUTRIDER_ASSIGN_OR_RETURN(to, upload_.floats(from));
    return {};
  }

  const DeviceSplit& split_;
  const int device_;
  const bool brings_matrices_;
  WeightsOnDevice& to_;
  DeviceUpload upload_;
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
    uploaders.emplace_back(api, split, device, true, weights);
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
  // A second copy in the page cache would take the same memory until it is needed elsewhere.
  if (api.free_memory().is_shared) weights.about_.files->weights.forget_pages();
  return weights;
}

Result<DeviceWeights> DeviceWeights::without_matrices(DeviceApi& api, CpuWeights about) {
  DeviceWeights weights;
  weights.devices_.resize(1);
  const DeviceSplit split(about.files->config, 1);
  Uploader uploader(api, split, 0, false, weights);
  for (std::int32_t layer = 0; layer <= about.files->config.num_layers; ++layer) {
    OUTRIDER_RETURN_IF_ERROR(uploader.take(about, layer));
  }
  weights.about_ = std::move(about);
  return weights;
}

WeightsOnDevice DeviceWeights::of_level(const ElasticLevel& level) const {
  const ModelConfig& config = about_.files->config;
  WeightsOnDevice weights = on_device(0);
  for (std::size_t i = 0; i < weights.layers.size(); ++i) {
    const LayerWidths& widths = level.layers[i];
    DeviceLayer& layer = weights.layers[i];
    const std::int64_t columns = widths.kv_groups * group_columns(config);
    const std::int64_t heads = std::int64_t{widths.kv_groups} * config.head_dim;
    layer.q.matrix.outputs = columns;
    layer.k.matrix.outputs = layer.v.matrix.outputs = heads;
    layer.gate.matrix.outputs = layer.up.matrix.outputs = widths.neurons;
    keep_inputs(layer.o, columns);
    keep_inputs(layer.down, widths.neurons);
  }
  return weights;
}

}  // namespace outrider::cuda
