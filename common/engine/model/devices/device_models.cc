// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/devices/device_models.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>

#if defined(OUTRIDER_HAS_GPU) || defined(OUTRIDER_HAS_HOST_CUDA)
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cuda/device/cuda_model.h"
#endif
#ifdef OUTRIDER_HAS_GPU
#include "common/engine/model/cuda/device/cuda_device.h"
#endif
#ifdef OUTRIDER_HAS_HOST_CUDA
#include "common/engine/model/cuda/fibers/host_device.h"
#endif

namespace outrider {
namespace {

Status not_built(const std::string& device) {
  return failed_precondition(
      "device " + device +
      ": this program was built without it. Remedy: use cpu, or build "
      "with OUTRIDER_GPU for cuda, OUTRIDER_TORCH_CUDA for a server's torch-cuda, "
      "OUTRIDER_TESTS for host-cuda");
}

#if defined(OUTRIDER_HAS_GPU) || defined(OUTRIDER_HAS_HOST_CUDA)
#ifdef OUTRIDER_HAS_GPU
constexpr const char* kDevice = "cuda";
#else
constexpr const char* kDevice = "host-cuda";
#endif

Result<std::unique_ptr<cuda::DeviceApi>> open_device(const LoadOptions& options) {
#ifdef OUTRIDER_HAS_GPU
  return cuda::make_cuda_device(options.gpus);
#else
  const int devices = std::max(static_cast<int>(options.gpus.size()), 1);
  return cuda::make_host_device({.devices = devices});
#endif
}

// Beside its context a sequence has a tree's rows, and pages that are not full.
constexpr std::int64_t kSpareRows = 1024;
constexpr std::int64_t kMaxSequences = 2;

// 0: what is free.
Result<std::int64_t> kv_bytes(const ModelConfig& config, const LoadOptions& options) {
  if (options.kv_positions == 0) return 0;
  OUTRIDER_ASSIGN_OR_RETURN(const KvLayout layout, kv_layout(config, options.kv_dtype));
  const std::int64_t most = kMaxSequences * (std::int64_t{config.max_positions} + kSpareRows);
  const std::int64_t rows =
      std::min<std::int64_t>(options.kv_positions, most - kSpareRows) + kSpareRows;
  return (rows / KvPages::kRows + 2) * layout.page_bytes();
}

cuda::CudaModelOptions options_of(const LoadOptions& options, std::int64_t kv_bytes) {
  return {.dtype = options.dtype,
          .kv_dtype = options.kv_dtype,
          .threads = options.threads,
          .kv_bytes = kv_bytes,
          .progress = options.progress,
          .notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }};
}
#endif

}  // namespace

void add_device_flags(CLI::App& app, LoadOptions& options, const char* group, const char* rare) {
  app.add_option(
         "--device", options.device,
         "Where to compute: cpu, cuda; torch-cuda: libtorch, whose text is its own; host-cuda: "
         "cuda's kernels on the CPU, slow, for tests")
      ->check(CLI::IsMember(kDevices))
      ->group(group);
  app.add_option("--gpus", options.gpus,
                 "With --device cuda: numbers of the GPUs that share a model (tensor parallelism), "
                 "as in 0,1; the text stays the same [0]")
      ->delimiter(',')
      ->check(CLI::Range(0, 63))
      ->group(rare);
}

#if defined(OUTRIDER_HAS_GPU) || defined(OUTRIDER_HAS_HOST_CUDA)
Result<std::unique_ptr<Model>> make_device_model(const std::shared_ptr<const ModelFiles>& files,
                                                 const LoadOptions& options) {
  if (options.device != kDevice) return not_built(options.device);
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<cuda::DeviceApi> device, open_device(options));
  OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t bytes, kv_bytes(files->config, options));
  return cuda::make_cuda_model(files, std::move(device), options_of(options, bytes));
}

StreamingDevice streaming_device(const LoadOptions& options) {
  const auto needs = [options](const CpuWeights& weights) -> Result<DeviceNeeds> {
    if (options.device != kDevice) return not_built(options.device);
    return cuda::needs_of_streamed(weights, options.kv_dtype);
  };
  const auto make = [options, needs](LayerSource source) -> Result<std::unique_ptr<Model>> {
    OUTRIDER_ASSIGN_OR_RETURN(const DeviceNeeds needed, needs(source.weights));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<cuda::DeviceApi> device, open_device(options));
    const auto bytes = static_cast<std::int64_t>(needed.keys_and_values);
    return cuda::make_streamed_cuda_model(std::move(source), std::move(device),
                                          options_of(options, bytes));
  };
  return {options.device, needs, make};
}
#else
Result<std::unique_ptr<Model>> make_device_model(const std::shared_ptr<const ModelFiles>&,
                                                 const LoadOptions& options) {
  return not_built(options.device);
}

StreamingDevice streaming_device(const LoadOptions& options) {
  const Status refused = not_built(options.device);
  return {options.device, [refused](const CpuWeights&) -> Result<DeviceNeeds> { return refused; },
          [refused](LayerSource) -> Result<std::unique_ptr<Model>> { return refused; }};
}
#endif

}  // namespace outrider
