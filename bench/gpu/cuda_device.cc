// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/cuda_device.h"

#include <algorithm>
#include <stdexcept>

#include "common/engine/model/cuda/device/cuda_driver.h"
#include "common/engine/model/cuda/device/gpu_kernel.h"

namespace outrider::gpu {
namespace {

constexpr std::size_t kGap = 256;
constexpr int kFill = 0xc5;

const cuda::CudaDriver& driver() {
  return cuda::cuda_driver();
}

CUdeviceptr address_of(const std::byte* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

}  // namespace

void require_cuda(int code, const char* what) {
  if (code == CUDA_SUCCESS) return;
  throw std::runtime_error(std::string(what) + ": " + cuda::reason(static_cast<CUresult>(code)));
}

DeviceFacts device_facts() {
  char name[256] = {};
  std::size_t memory_bytes = 0;
  require_cuda(driver().device_name(name, sizeof(name), cuda::device_of(0)), "the GPU's name");
  require_cuda(driver().device_memory(&memory_bytes, cuda::device_of(0)), "the GPU's memory");
  DeviceFacts facts;
  facts.name = name;
  facts.multiprocessors = cuda::attribute_of(0, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  facts.memory_bytes = static_cast<std::int64_t>(memory_bytes);
  facts.cache_bytes = cuda::attribute_of(0, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  facts.driver = driver().version;
  return facts;
}

CudaMemory::CudaMemory(std::size_t bytes) : bytes_(bytes) {
  CUdeviceptr memory = 0;
  require_cuda(driver().allocate(&memory, bytes), "the check's memory");
  begin_ = reinterpret_cast<std::byte*>(memory);
}

CudaMemory::~CudaMemory() {
  driver().free(address_of(begin_));
}

std::byte* CudaMemory::reserve(std::size_t bytes) {
  const std::size_t whole = (bytes + kGap - 1) / kGap * kGap;
  if (used_ + whole + kGap > bytes_) throw std::runtime_error("the check's device memory is full");
  std::byte* const to = begin_ + used_;
  used_ += whole;
  return to;
}

std::byte* CudaMemory::allocate(std::size_t bytes) {
  std::byte* const to = reserve(bytes + kGap);
  require_cuda(driver().fill(address_of(to), kFill, bytes + kGap, nullptr), "filling memory");
  gaps_.push_back(to + bytes);
  return to;
}

void CudaMemory::write(std::byte* to, std::span<const std::byte> bytes) {
  require_cuda(driver().copy_to_device(address_of(to), bytes.data(), bytes.size(), nullptr),
               "a copy to the device");
  require_cuda(driver().synchronize_stream(nullptr), "a copy to the device");
}

void CudaMemory::read(const std::byte* from, std::span<std::byte> bytes) {
  require_cuda(cuda::take_launch_error(), "a kernel's launch");
  require_cuda(driver().synchronize_context(), "a kernel");
  require_cuda(driver().copy_to_host(bytes.data(), address_of(from), bytes.size(), nullptr),
               "a copy to the host");
  require_cuda(driver().synchronize_stream(nullptr), "a copy to the host");
}

void CudaMemory::check_gaps() {
  std::byte gap[kGap];
  for (const std::byte* at : gaps_) {
    read(at, gap);
    const bool is_whole = std::all_of(
        gap, gap + kGap, [](std::byte byte) { return byte == static_cast<std::byte>(kFill); });
    changed_gaps_ += is_whole ? 0 : 1;
  }
}

void CudaMemory::clear() {
  check_gaps();
  gaps_.clear();
  used_ = 0;
}

double median_seconds(const std::function<void(void* stream)>& work, double seconds) {
  const cuda::CudaDriver& api = driver();
  CUstream stream = nullptr;
  CUgraph graph = nullptr;
  CUgraphExec runnable = nullptr;
  CUevent begin = nullptr, end = nullptr;
  require_cuda(api.create_stream(&stream, CU_STREAM_DEFAULT), "a stream");
  require_cuda(api.create_event(&begin, CU_EVENT_DEFAULT), "an event");
  require_cuda(api.create_event(&end, CU_EVENT_DEFAULT), "an event");
  require_cuda(api.begin_capture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), "begin of a graph");
  work(stream);
  require_cuda(cuda::take_launch_error(), "a launch in a graph");
  require_cuda(api.end_capture(stream, &graph), "end of a graph");
  require_cuda(api.instantiate_graph(&runnable, graph, 0), "a graph");
  require_cuda(api.launch_graph(runnable, stream), "a graph's launch");
  require_cuda(api.synchronize_stream(stream), "the first run of a graph");
  std::vector<double> times;
  double total = 0;
  constexpr std::size_t kMinRuns = 5, kMaxRuns = 200;
  while (times.size() < kMinRuns || (total < seconds && times.size() < kMaxRuns)) {
    float milliseconds = 0;
    require_cuda(api.record_event(begin, stream), "an event");
    require_cuda(api.launch_graph(runnable, stream), "a graph's launch");
    require_cuda(api.record_event(end, stream), "an event");
    require_cuda(api.synchronize_event(end), "a run of a graph");
    require_cuda(api.elapsed_time(&milliseconds, begin, end), "the time of a run");
    times.push_back(milliseconds * 1e-3);
    total += times.back();
  }
  api.destroy_runnable(runnable);
  api.destroy_graph(graph);
  api.destroy_event(begin);
  api.destroy_event(end);
  api.destroy_stream(stream);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

}  // namespace outrider::gpu
