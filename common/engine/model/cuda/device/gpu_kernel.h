// The kernels that a program for a GPU launches. Their machine code, made by CUDA's compiler, is in
// the program as an image for each architecture; the host's compiler knows a kernel by its name
// alone, by which it is found in the image when a GPU is taken.
//
// Thread rule: launch() for the thread's current GPU; load_kernels() from any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <span>
#include <string>
#include <typeinfo>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/cuda/device/gpu_choice.h"
#include "common/engine/model/cuda/kernels/grid.h"

namespace outrider::cuda {

// A kernel of an image: its name without anonymous namespaces, result and parameters, and the
// symbol under which the image has it.
struct KernelSymbol {
  const char* name;
  const char* symbol;
};
// The machine code of a source, for one architecture.
struct GpuImage {
  GpuCode made_for;
  const unsigned char* code;
  std::span<const KernelSymbol> kernels;
};

// Those of the backend's kernels (cmake/embed_kernels.py writes it).
std::span<const GpuImage> kernel_images();
// Another source's, before the first load_kernels(). The images stay.
void add_images(std::span<const GpuImage> images);
// For which architectures all images have code, in order.
std::vector<GpuCode> architectures();

class GpuKernel final {
 public:
  // tag: of KernelTag<&kernel>, by which the kernel's name is known. Lives as long as the program.
  explicit GpuKernel(const std::type_info& tag);
  GpuKernel(const GpuKernel&) = delete;
  GpuKernel& operator=(const GpuKernel&) = delete;

  // Puts it into the stream. argument: the kernel's one, read before this returns. An error is kept
  // for take_launch_error().
  void launch(const Grid& grid, Stream stream, const void* argument) const;

  const std::string& name() const { return name_; }

 private:
  friend Status load_kernels(int gpu, int capability);

  const std::string name_;
  std::array<std::atomic<void*>, kMaxGpus> functions_{};  // CUfunction, by number of the GPU
};

// All kernels that this program launches.
std::span<const GpuKernel* const> launched_kernels();
// Those of them of which the images for an architecture have no code; empty: it has all.
std::vector<std::string> kernels_without_code(int architecture);

// Makes the kernels ready on the thread's current GPU, once for each GPU. INTERNAL if the program
// has no code of one, or the driver does not take it.
Status load_kernels(int gpu, int capability);

// The code of the first launch by this thread that failed since the last call; 0: none did.
int take_launch_error();

// Those of the thread's current GPU; all of a program's are alike.
const DeviceLimits& gpu_limits();

template <auto kKernel>
struct KernelTag {};
template <auto kKernel>
inline const GpuKernel kKernelOnGpu{typeid(KernelTag<kKernel>)};
template <auto kKernel>
const GpuKernel& kernel_on_gpu() {
  return kKernelOnGpu<kKernel>;
}

}  // namespace outrider::cuda
