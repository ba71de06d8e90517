// The cuda backend: decoder-only transformers on our own kernels, on devices behind DeviceApi: one
// GPU or several, or the CPU by fibers. Logits, exits and arithmetic id are those of the cpu
// backend (docs/gpu.md), whatever the number of devices.
//
// Takes what the cpu backend takes: every dtype and block type, keys and values in f32 or bf16. A
// pruner is ignored, and logits are never on demand.
//
//   auto device = *cuda::make_cuda_device(std::vector{0, 1});
//   auto model = cuda::make_cuda_model(*files, std::move(device), {.dtype = "int8"});
//
// Thread rule: as model.h; forward() may be called from another thread than the one that made the
// model. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/engine/model/cpu/cpu_weights.h"
#include "common/engine/model/cpu/streaming_device.h"
#include "common/engine/model/cuda/device/device_api.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/model.h"

namespace outrider::cuda {

struct CudaModelOptions {
  std::string dtype = "auto";    // as CpuModelOptions
  std::string kv_dtype = "f32";  // as CpuModelOptions
  int threads = 0;               // of the host, for exits and conversions; 0: one per CPU
  // Bytes for all sequences, on all devices, at most nine tenths of the free memory; 0 means that
  // much.
  std::int64_t kv_bytes = 0;
  LoadProgress progress = {};
  std::function<void(const std::string&)> notice = {};  // messages for the user
};

// Compares every kernel with the CPU's on drawn inputs first; a device whose bits differ anywhere
// gets an arithmetic id of its own, with a notice. Errors: those of make_cpu_model();
// RESOURCE_EXHAUSTED if weights, scratch memory or one page of keys and values do not fit.
Result<std::unique_ptr<Model>> make_cuda_model(std::shared_ptr<const ModelFiles> files,
                                               std::unique_ptr<DeviceApi> device,
                                               const CudaModelOptions& options);

// A model whose layers are read during each pass, on one device (streaming_device.h), with the same
// logits: uploads run beside the layer before. options: dtype and progress are ignored, because the
// source's weights determine them.
//
// Errors: UNIMPLEMENTED for blocks, formats or levels that the device does not compute, and for
// several devices; those of the source; RESOURCE_EXHAUSTED.
Result<std::unique_ptr<Model>> make_streamed_cuda_model(LayerSource source,
                                                        std::unique_ptr<DeviceApi> device,
                                                        const CudaModelOptions& options);
// The memory that it takes, with keys and values of one context and a tree. kv_bytes of its options
// is keys_and_values of this. Errors: UNIMPLEMENTED as above; those of kv_layout().
Result<DeviceNeeds> needs_of_streamed(const CpuWeights& weights, const std::string& kv_dtype);

// The work given so far to the device of a model of make_cuda_model(), for tests.
DeviceCounts device_counts(const Model& model);

}  // namespace outrider::cuda
