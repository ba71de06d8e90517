// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/loader/loader.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/pack/weight_cache.h"

namespace outrider {
namespace {

std::string cache_folder(const std::string& flag) {
  if (flag == "none") return {};
  return flag == "auto" ? default_cache_dir() : flag;
}

void print_notice(const std::string& text) {
  std::fprintf(stderr, "weights: %s\n", text.c_str());
}

}  // namespace

LoadOptions for_device(LoadOptions options, const std::string& device) {
  options.device = device;
  if (device == "cpu") options.gpus.clear();
  return options;
}

Result<std::unique_ptr<Model>> load_model(const LoadOptions& options,
                                          const CudaFactory& make_cuda) {
  const bool is_cpu = options.device == "cpu";
  if (std::ranges::find(kDevices, options.device) == kDevices.end()) {
    return invalid_argument("device \"" + options.device.substr(0, 60) +
                            "\": must be cpu, cuda, torch-cuda or host-cuda");
  }
  if (std::set<int>(options.gpus.begin(), options.gpus.end()).size() != options.gpus.size()) {
    return invalid_argument("--gpus: one is named twice. Remedy: each number once");
  }
  if (is_cpu && !options.gpus.empty()) {
    return invalid_argument("--gpus: device cpu has none. Remedy: --device cuda, or no --gpus");
  }
  if (!is_cpu && !make_cuda) {
    return failed_precondition("device " + options.device +
                               ": this program was built without it. Remedy: --device cpu");
  }
  if (!options.elastic.empty() && (options.device == "torch-cuda" || options.gpus.size() > 1)) {
    return unimplemented("--elastic " + options.elastic + " on device " + options.device +
                         (options.gpus.size() > 1 ? " with several GPUs" : "") +
                         ": levels are computed on the CPU or one GPU. Remedy: --device cpu or "
                         "cuda, one GPU, or no --elastic");
  }
  OUTRIDER_ASSIGN_OR_RETURN(
      std::shared_ptr<const ModelFiles> files,
      load_model_files(options.directory, {.check_finite = options.check_finite,
                                           .max_context = options.max_context,
                                           .ignore_eos = options.ignore_eos,
                                           .elastic = options.elastic}));
  if (!is_cpu) return make_cuda(std::move(files), options);
  return make_cpu_model(std::move(files), {.dtype = options.dtype,
                                           .kv_dtype = options.kv_dtype,
                                           .threads = options.threads,
                                           .kernel = options.kernel,
                                           .cache_dir = cache_folder(options.cache_dir),
                                           .notice = print_notice,
                                           .progress = options.progress});
}

}  // namespace outrider
