// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/cuda_driver.h"

#include <dlfcn.h>

#include <map>
#include <type_traits>

#include "common/base/mutex.h"

// A function's name in the driver, with the version that cuda.h gives it.
#define OUTRIDER_NAME(function) OUTRIDER_TEXT(function)
#define OUTRIDER_TEXT(text) #text

namespace outrider::cuda {
namespace {

CudaDriver find_driver() {
  CudaDriver driver;
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return driver;
  const auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (function == nullptr && driver.missing.empty()) driver.missing = name;
  };
  decltype(&::cuDriverGetVersion) get_version = nullptr;
  find("cuDriverGetVersion", get_version);
  if (get_version == nullptr || get_version(&driver.version) != CUDA_SUCCESS) return driver;
#define OUTRIDER_FIND(name, function) find(OUTRIDER_NAME(function), driver.name);
  OUTRIDER_DRIVER_FUNCTIONS(OUTRIDER_FIND)
#undef OUTRIDER_FIND
  return driver;
}

thread_local int current = -1;

}  // namespace

CUresult context_of(int gpu, CUcontext& context) {
  static Mutex mu;
  static std::map<int, CUcontext> contexts;
  const MutexLock lock(mu);
  const auto at = contexts.find(gpu);
  if (at != contexts.end()) {
    context = at->second;
    return CUDA_SUCCESS;
  }
  const CUresult code = cuda_driver().retain_context(&context, device_of(gpu));
  if (code == CUDA_SUCCESS) contexts.emplace(gpu, context);
  return code;
}

const CudaDriver& cuda_driver() {
  static const CudaDriver driver = find_driver();
  return driver;
}

std::string reason(CUresult code) {
  const char* name = nullptr;
  const char* text = nullptr;
  if (cuda_driver().error_name(code, &name) != CUDA_SUCCESS ||
      cuda_driver().error_text(code, &text) != CUDA_SUCCESS) {
    return "error " + std::to_string(static_cast<int>(code));
  }
  return std::string(name) + ", " + text;
}

CUresult use_gpu(int number) {
  if (current == number) return CUDA_SUCCESS;
  CUcontext context = nullptr;
  CUresult code = context_of(number, context);
  if (code == CUDA_SUCCESS) code = cuda_driver().set_context(context);
  if (code == CUDA_SUCCESS) current = number;
  return code;
}

int current_gpu() {
  return current;
}

CUdevice device_of(int gpu) {
  CUdevice device = gpu;
  cuda_driver().device(&device, gpu);
  return device;
}

int attribute_of(int gpu, CUdevice_attribute attribute) {
  int value = 0;
  cuda_driver().device_attribute(&value, attribute, device_of(gpu));
  return value;
}

}  // namespace outrider::cuda
