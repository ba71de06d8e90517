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

#if defined(OUTRIDER_HAS_GPU) || defined(OUTRIDER_HAS_HOST_CUDA)
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

Result<std::unique_ptr<Model>> on_device(const std::shared_ptr<const ModelFiles>& files,
                                         Result<std::unique_ptr<cuda::DeviceApi>> device,
                                         const LoadOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(device.status());
  OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t bytes, kv_bytes(files->config, options));
  return cuda::make_cuda_model(
      files, *std::move(device),
      {.dtype = options.dtype,
       .kv_dtype = options.kv_dtype,
       .threads = options.threads,
       .kv_bytes = bytes,
       .progress = options.progress,
       .notice = [](const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }});
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

Result<std::unique_ptr<Model>> make_device_model(
    [[maybe_unused]] const std::shared_ptr<const ModelFiles>& files, const LoadOptions& options) {
#ifdef OUTRIDER_HAS_GPU
  if (options.device == "cuda") {
    return on_device(files, cuda::make_cuda_device(options.gpus), options);
  }
#endif
#ifdef OUTRIDER_HAS_HOST_CUDA
  if (options.device == "host-cuda") {
    const int devices = std::max(static_cast<int>(options.gpus.size()), 1);
    return on_device(files, cuda::make_host_device({.devices = devices}), options);
  }
#endif
  return failed_precondition(
      "device " + options.device +
      ": this program was built without it. Remedy: use cpu, or build "
      "with OUTRIDER_GPU for cuda, OUTRIDER_TORCH_CUDA for a server's torch-cuda, "
      "OUTRIDER_TESTS for host-cuda");
}

}  // namespace outrider
