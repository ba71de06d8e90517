// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/gpu_choice.h"

namespace outrider::cuda {
namespace {

constexpr int kOldestCapability = 80;  // products of signed bytes, and asynchronous copies

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

Status refused(const std::string& why, const std::string& remedy) {
  return failed_precondition("device cuda: " + why + ". Remedy: " + remedy);
}

}  // namespace

Status check_gpus(const FoundGpus& found, std::span<const int> numbers) {
  const std::string needed = "CUDA " + version(found.runtime);
  if (found.driver == 0) {
    return refused(
        "this machine has no NVIDIA driver, or a container that does not show it",
        "install a driver for " + needed +
            " or newer, start the container with access to the GPU, or use --device cpu");
  }
  if (found.driver / 1000 < found.runtime / 1000) {
    return refused("the NVIDIA driver is too old: it runs CUDA " + version(found.driver) +
                       ", and this program has " + needed,
                   "install a newer driver, or use --device cpu");
  }
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
      return refused(gpu.name + " has compute capability " + std::to_string(gpu.capability / 10) +
                         "." + std::to_string(gpu.capability % 10) +
                         ", below 8.0, and lacks what the kernels use",
                     "another GPU, or --device cpu");
    }
    const Gpu& first = found.gpus[static_cast<std::size_t>(numbers.front())];
    if (gpu.name != first.name) {
      return refused(gpu.name + " and " + first.name + " are not alike",
                     "GPUs of one kind together, or one of them");
    }
  }
  return {};
}

}  // namespace outrider::cuda
