// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>

namespace outrider::gpu {
namespace {

constexpr std::size_t kGap = 256;
constexpr int kFill = 0xc5;

}  // namespace

void require_cuda(int code, const char* what) {
  if (code == cudaSuccess) return;
  throw std::runtime_error(std::string(what) + ": " +
                           cudaGetErrorString(static_cast<cudaError_t>(code)));
}

DeviceFacts device_facts() {
  cudaDeviceProp properties;
  require_cuda(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  DeviceFacts facts;
  facts.name = properties.name;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  facts.cache_bytes = properties.l2CacheSize;
  require_cuda(cudaDriverGetVersion(&facts.driver), "cudaDriverGetVersion");
  require_cuda(cudaRuntimeGetVersion(&facts.runtime), "cudaRuntimeGetVersion");
  return facts;
}

CudaMemory::CudaMemory(std::size_t bytes) : bytes_(bytes) {
  void* memory = nullptr;
  require_cuda(cudaMalloc(&memory, bytes), "cudaMalloc");
  begin_ = static_cast<std::byte*>(memory);
}

CudaMemory::~CudaMemory() {
  cudaFree(begin_);
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
  require_cuda(cudaMemset(to, kFill, bytes + kGap), "cudaMemset");
  gaps_.push_back(to + bytes);
  return to;
}

void CudaMemory::write(std::byte* to, std::span<const std::byte> bytes) {
  require_cuda(cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
}

void CudaMemory::read(const std::byte* from, std::span<std::byte> bytes) {
  require_cuda(cudaGetLastError(), "a kernel's launch");
  require_cuda(cudaDeviceSynchronize(), "a kernel");
  require_cuda(cudaMemcpy(bytes.data(), from, bytes.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
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
  cudaStream_t stream = nullptr;
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t runnable = nullptr;
  cudaEvent_t begin = nullptr, end = nullptr;
  require_cuda(cudaStreamCreate(&stream), "cudaStreamCreate");
  require_cuda(cudaEventCreate(&begin), "cudaEventCreate");
  require_cuda(cudaEventCreate(&end), "cudaEventCreate");
  require_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "begin of a graph");
  work(stream);
  require_cuda(cudaGetLastError(), "a launch in a graph");
  require_cuda(cudaStreamEndCapture(stream, &graph), "end of a graph");
  require_cuda(cudaGraphInstantiate(&runnable, graph, 0), "cudaGraphInstantiate");
  require_cuda(cudaGraphLaunch(runnable, stream), "cudaGraphLaunch");
  require_cuda(cudaStreamSynchronize(stream), "the first run of a graph");
  std::vector<double> times;
  double total = 0;
  constexpr std::size_t kMinRuns = 5, kMaxRuns = 200;
  while (times.size() < kMinRuns || (total < seconds && times.size() < kMaxRuns)) {
    float milliseconds = 0;
    require_cuda(cudaEventRecord(begin, stream), "cudaEventRecord");
    require_cuda(cudaGraphLaunch(runnable, stream), "cudaGraphLaunch");
    require_cuda(cudaEventRecord(end, stream), "cudaEventRecord");
    require_cuda(cudaEventSynchronize(end), "a run of a graph");
    require_cuda(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    times.push_back(milliseconds * 1e-3);
    total += times.back();
  }
  cudaGraphExecDestroy(runnable);
  cudaGraphDestroy(graph);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaStreamDestroy(stream);
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

}  // namespace outrider::gpu
