// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/gpu_choice.h"

#include <algorithm>

namespace outrider::cuda {
namespace {

constexpr int kOldestCapability = 80;  // products of signed bytes, and asynchronous copies
constexpr int kOrin = 87;

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

Status refused(const std::string& why, const std::string& remedy) {
  return failed_precondition("device cuda: " + why + ". Remedy: " + remedy);
}

Status too_old(int driver, int needed) {
  return refused("the NVIDIA driver is too old: it runs CUDA " + version(driver) +
                     ", and this program has CUDA " + version(needed),
                 "install a newer driver, or use --device cpu");
}

std::string capability_of(const Gpu& gpu) {
  return gpu.name + " has compute capability " + std::to_string(gpu.capability / 10) + "." +
         std::to_string(gpu.capability % 10);
}

std::string list_of(std::span<const GpuCode> made) {
  std::string list;
  for (const GpuCode& code : made) {
    list += (list.empty() ? "sm_" : ", sm_") + std::to_string(code.architecture);
  }
  return list;
}

}  // namespace

const GpuCode* code_for(int capability, std::span<const GpuCode> made) {
  const GpuCode* best = nullptr;
  for (const GpuCode& code : made) {
    if (code.architecture == capability) return &code;
    const bool runs = code.architecture / 10 == capability / 10 && code.architecture < capability &&
                      code.architecture != kOrin && capability != kOrin;
    if (runs && (best == nullptr || best->architecture < code.architecture)) best = &code;
  }
  return best;
}

Status check_gpus(const FoundGpus& found, std::span<const int> numbers,
                  std::span<const GpuCode> made) {
  const auto [oldest, newest] = std::ranges::minmax(made, {}, &GpuCode::toolkit);
  if (found.driver == 0) {
    return refused(
        "this machine has no NVIDIA driver, or a container that does not show it",
        "install a driver for CUDA " + version(newest.toolkit) +
            " or newer, start the container with access to the GPU, or use --device cpu");
  }
  if (found.driver / 1000 < oldest.toolkit / 1000) return too_old(found.driver, oldest.toolkit);
  if (!found.reason.empty()) {
    return refused("no GPU can be used (" + found.reason + ")",
                   "give the program access to the GPU, or use --device cpu");
  }
  if (found.gpus.empty()) {
    return refused("the driver shows no GPU", "look at CUDA_VISIBLE_DEVICES, or use --device cpu");
  }
  const auto count = static_cast<int>(found.gpus.size());
  for (const int number : numbers) {
    if (number < 0 || number >= count) {
      return refused(
          "--gpus " + std::to_string(number) + ": this machine has no GPU of that number",
          count == 1 ? "0, the only one" : "0 to " + std::to_string(count - 1));
    }
    const Gpu& gpu = found.gpus[static_cast<std::size_t>(number)];
    if (gpu.capability < kOldestCapability) {
      return refused(capability_of(gpu) + ", below 8.0, and lacks what the kernels use",
                     "another GPU, or --device cpu");
    }
    const GpuCode* const code = code_for(gpu.capability, made);
    if (code == nullptr) {
      return refused(
          capability_of(gpu) + ", and this program has machine code for " + list_of(made) + " only",
          "build it with OUTRIDER_GPU_ARCHITECTURES, or use --device cpu");
    }
    if (found.driver / 1000 < code->toolkit / 1000) return too_old(found.driver, code->toolkit);
    const Gpu& first = found.gpus[static_cast<std::size_t>(numbers.front())];
    if (gpu.name != first.name) {
      return refused(gpu.name + " and " + first.name + " are not alike",
                     "GPUs of one kind together, or one of them");
    }
  }
  return {};
}

}  // namespace outrider::cuda
