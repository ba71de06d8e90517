// SPDX-License-Identifier: Apache-2.0
#include "common/model/torch/torch_device.h"

#ifdef OUTRIDER_CUDA
#include <dlfcn.h>

#include "common/model/torch/cuda_attention.h"
#endif

namespace outrider {
namespace {

#ifdef OUTRIDER_CUDA
// Loading it registers its kernels with libtorch; it stays for the life of the process.
Status load_cuda_library() {
  if (dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr) return {};
  const char* reason = dlerror();
  return failed_precondition(
      std::string("device cuda: libtorch's CUDA library does not load (") +
      (reason == nullptr ? "no reason given" : reason) +
      "); install the torch wheel with all its dependencies, or use --device cpu");
}

Result<TorchDevice> find_cuda(c10::ScalarType dtype) {
  OUTRIDER_ASSIGN_OR_RETURN(std::string name, find_cuda_device());
  OUTRIDER_RETURN_IF_ERROR(load_cuda_library());
  return TorchDevice{c10::Device(c10::kCUDA, 0), dtype, std::move(name)};
}
#else
Result<TorchDevice> find_cuda(c10::ScalarType /*dtype*/) {
  return failed_precondition(
      "device cuda: this program was built without it; build the preset cuda, or use cpu");
}
#endif

}  // namespace

Result<TorchDevice> find_torch_device(const std::string& device, const std::string& dtype,
                                      bool stored_f32) {
  const bool cuda = device == "cuda";
  if (dtype != "auto" && dtype != "f32" && !(cuda && dtype == "bf16")) {
    return invalid_argument("dtype \"" + dtype.substr(0, 60) + "\": libtorch computes in " +
                            (cuda ? "f32 or bf16 on cuda" : "f32 on the cpu"));
  }
  if (!cuda) return TorchDevice{c10::Device(c10::kCPU), c10::ScalarType::Float, "torch-cpu"};
  const bool f32 = dtype == "f32" || (dtype == "auto" && stored_f32);
  return find_cuda(f32 ? c10::ScalarType::Float : c10::ScalarType::BFloat16);
}

}  // namespace outrider
