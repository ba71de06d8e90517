// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/gpu_kernel.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string_view>
#include <utility>

#include "common/base/mutex.h"
#include "common/engine/model/cuda/device/cuda_driver.h"

namespace outrider::cuda {
namespace {

std::vector<GpuKernel*>& all_kernels() {
  static std::vector<GpuKernel*> kernels;  // grows before main() only
  return kernels;
}

std::vector<GpuImage>& all_images() {
  static std::vector<GpuImage> images = [] {
    const std::span<const GpuImage> own = kernel_images();
    return std::vector<GpuImage>(own.begin(), own.end());
  }();
  return images;
}

// "outrider::cuda::norm_row" of "outrider::cuda::KernelTag<&outrider::cuda::(anonymous
// namespace)::norm_row>"; a template's is in brackets, with its result and parameters.
std::string name_of(const std::type_info& tag) {
  const std::unique_ptr<char, decltype(&std::free)> whole(
      abi::__cxa_demangle(tag.name(), nullptr, nullptr, nullptr), &std::free);
  OUTRIDER_CHECK(whole != nullptr);
  std::string name = whole.get();
  constexpr std::string_view kAnonymous = "(anonymous namespace)::", kResult = "(void ";
  for (std::size_t at = 0; (at = name.find(kAnonymous)) != std::string::npos;) {
    name.erase(at, kAnonymous.size());
  }
  name = name.substr(name.find("<&") + 2);
  name.erase(name.rfind('>'));
  if (name.starts_with(kResult)) {
    name = name.substr(kResult.size());
    name.erase(name.rfind('('));  // its parameters, which name types alone
  }
  return name;
}

const char* symbol_of(const GpuImage& image, const std::string& name) {
  const auto at = std::ranges::find_if(
      image.kernels, [&](const KernelSymbol& kernel) { return name == kernel.name; });
  return at == image.kernels.end() ? nullptr : at->symbol;
}

thread_local CUresult first_error = CUDA_SUCCESS;

void keep(CUresult code) {
  if (first_error == CUDA_SUCCESS) first_error = code;
}

Status refused(const std::string& what, CUresult code) {
  return internal_error("device cuda: " + what + " (" + reason(code) +
                        "). Remedy: a newer driver, or --device cpu");
}

}  // namespace

void add_images(std::span<const GpuImage> images) {
  all_images().insert(all_images().end(), images.begin(), images.end());
}

std::vector<GpuCode> architectures() {
  std::vector<GpuCode> made;
  for (const GpuImage& image : all_images()) {
    if (std::ranges::find(made, image.made_for.architecture, &GpuCode::architecture) ==
        made.end()) {
      made.push_back(image.made_for);
    }
  }
  std::ranges::sort(made, {}, &GpuCode::architecture);
  return made;
}

GpuKernel::GpuKernel(const std::type_info& tag) : name_(name_of(tag)) {
  all_kernels().push_back(this);
}

void GpuKernel::launch(const Grid& grid, Stream stream, const void* argument) const {
  const CudaDriver& driver = cuda_driver();
  OUTRIDER_CHECK(current_gpu() >= 0);  // DeviceApi::use() comes before
  auto* const function = static_cast<CUfunction>(
      functions_[static_cast<std::size_t>(current_gpu())].load(std::memory_order_acquire));
  if (grid.shared_bytes > 48 << 10) {
    keep(driver.set_function_attribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                       static_cast<int>(grid.shared_bytes)));
  }
  CUlaunchAttribute attribute{};
  attribute.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config{};
  config.gridDimX = grid.x;
  config.gridDimY = grid.y;
  config.gridDimZ = grid.z;
  config.blockDimX = grid.threads;
  config.blockDimY = 1;
  config.blockDimZ = 1;
  config.sharedMemBytes = static_cast<unsigned>(grid.shared_bytes);
  config.hStream = static_cast<CUstream>(stream);
  config.attrs = &attribute;
  const bool is_beside = grid.start == Start::kBesidePrevious && gpu_limits().overlaps;
  config.numAttrs = is_beside ? 1 : 0;
  void* arguments[] = {const_cast<void*>(argument)};
  keep(driver.launch_kernel(&config, function, arguments, nullptr));
}

std::span<const GpuKernel* const> launched_kernels() {
  return {all_kernels().data(), all_kernels().size()};
}

std::vector<std::string> kernels_without_code(int architecture) {
  std::vector<std::string> missing;
  for (const GpuKernel* const kernel : all_kernels()) {
    const bool has_code = std::ranges::any_of(all_images(), [&](const GpuImage& image) {
      return image.made_for.architecture == architecture &&
             symbol_of(image, kernel->name()) != nullptr;
    });
    if (!has_code) missing.push_back(kernel->name());
  }
  return missing;
}

Status load_kernels(int gpu, int capability) {
  static Mutex mu;
  static std::set<int> loaded;
  const MutexLock lock(mu);
  if (loaded.contains(gpu)) return {};
  const std::vector<GpuCode> made = architectures();
  const GpuCode* const code = code_for(capability, made);
  OUTRIDER_CHECK(code != nullptr);  // check_gpus() refuses the GPU
  if (const std::vector<std::string> missing = kernels_without_code(code->architecture);
      !missing.empty()) {
    return internal_error("device cuda: this program lacks the machine code of " + missing.front() +
                          ". Remedy: build it anew");
  }
  for (const GpuImage& image : all_images()) {
    if (image.made_for.architecture != code->architecture) continue;
    CUmodule module = nullptr;
    CUresult result = cuda_driver().load_module(&module, image.code);
    if (result != CUDA_SUCCESS) return refused("the driver does not take the kernels", result);
    for (GpuKernel* const kernel : all_kernels()) {
      const char* const symbol = symbol_of(image, kernel->name_);
      if (symbol == nullptr) continue;
      CUfunction function = nullptr;
      result = cuda_driver().find_function(&function, module, symbol);
      if (result != CUDA_SUCCESS) return refused("no kernel " + kernel->name_, result);
      kernel->functions_[static_cast<std::size_t>(gpu)].store(function, std::memory_order_release);
    }
  }
  loaded.insert(gpu);
  return {};
}

int take_launch_error() {
  return static_cast<int>(std::exchange(first_error, CUDA_SUCCESS));
}

const DeviceLimits& gpu_limits() {
  static const DeviceLimits limits = [] {
    const int gpu = current_gpu();
    return DeviceLimits{attribute_of(gpu, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
                        attribute_of(gpu, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
                        attribute_of(gpu, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
                        attribute_of(gpu, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9};
  }();
  return limits;
}

}  // namespace outrider::cuda
