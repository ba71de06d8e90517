// A model's weights in devices' memory: of each matrix a device has its outputs (device_split.h).
// Quantised matrices are the CPU's panels as they are; others are lane panels (lane_panels.h).
// Their numbers are those of the cpu backend.
//
// Thread rule: immutable once made. Ownership: the devices outlive them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/compute_type.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cuda/device/device_api.h"
#include "common/engine/model/cuda/device/device_split.h"

namespace outrider::cuda {

struct DeviceLinear {
  WeightMatrix matrix;          // the device's outputs, data on it; it may have none
  const float* bias = nullptr;  // [outputs] or null
};

struct DeviceLayer {
  const float* attention_norm = nullptr;  // [hidden]
  DeviceLinear q, k, v, o;
  const float* q_norm = nullptr;  // [head_dim] or null
  const float* k_norm = nullptr;
  const float* mlp_norm = nullptr;  // [hidden]
  DeviceLinear gate, up, down;
  std::int64_t window = 0;  // positions seen; 0: all
};

// The weights on one device.
struct WeightsOnDevice {
  std::vector<DeviceLayer> layers;
  const float* final_norm = nullptr;
  DeviceLinear head;
};

class DeviceWeights final {
 public:
  // Converts with the pool and uploads a layer at a time, so that the host never holds all
  // converted weights. Errors: those of CpuWeightsLoader; RESOURCE_EXHAUSTED if a device has not
  // enough memory.
  static Result<DeviceWeights> load(DeviceApi& api, std::shared_ptr<const ModelFiles> files,
                                    ComputeType type, ThreadPool& pool,
                                    const LoadProgress& progress);

  // Norms and biases of a model on one device whose matrices come from elsewhere: they have their
  // shapes and no data. RESOURCE_EXHAUSTED.
  static Result<DeviceWeights> without_matrices(DeviceApi& api, CpuWeights about);

  // The loader's findings: files, embedding, and the names of the arithmetic, without matrices.
  const CpuWeights& about() const { return about_; }
  const WeightsOnDevice& on_device(int device) const {
    return devices_[static_cast<std::size_t>(device)];
  }
  // The first device's weights of a level of about().files->elastic: views of the whole ones. A
  // layer without heads or without neurons has no matrices for them.
  WeightsOnDevice of_level(const ElasticLevel& level) const;

 private:
  class Uploader;

  CpuWeights about_;
  std::vector<WeightsOnDevice> devices_;
  std::vector<DeviceMemory> memory_;
};

}  // namespace outrider::cuda
