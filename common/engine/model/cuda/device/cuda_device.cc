// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/cuda_device.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>
#include <vector>

#include "common/engine/model/cuda/device/gpu_choice.h"

namespace outrider::cuda {
namespace {

std::string reason(cudaError_t code) {
  return std::string(cudaGetErrorName(code)) + ", " + cudaGetErrorString(code);
}

cudaStream_t stream_of(Stream stream) {
  return static_cast<cudaStream_t>(stream);
}
cudaEvent_t event_of(Event event) {
  return static_cast<cudaEvent_t>(event);
}

class CudaDevice final : public DeviceApi {
 public:
  CudaDevice(DeviceFacts facts, std::vector<int> numbers)
      : facts_(std::move(facts)), numbers_(std::move(numbers)) {
    for (const int from : numbers_) {
      for (const int to : numbers_) enable_copies(from, to);
    }
  }
  ~CudaDevice() override {
    for (int device = 0; device < devices(); ++device) {
      use(device);
      cudaDeviceSynchronize();
    }
    for (const Graph graph : graphs_) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
    for (const Event event : events_) cudaEventDestroy(event_of(event));
    for (const Stream stream : streams_) cudaStreamDestroy(stream_of(stream));
  }

  const DeviceFacts& facts() const override { return facts_; }
  int devices() const override { return static_cast<int>(numbers_.size()); }
  const DeviceCounts& counts() const override { return counts_; }

  Result<std::byte*> allocate(MemoryKind kind, std::int64_t bytes, int device) override {
    ++counts_.allocations;
    use(device);
    const auto size = static_cast<std::size_t>(bytes);
    void* memory = nullptr;
    const cudaError_t code =
        kind == MemoryKind::kDevice ? cudaMalloc(&memory, size) : cudaMallocHost(&memory, size);
    if (code == cudaSuccess) return static_cast<std::byte*>(memory);
    cudaGetLastError();  // this one is reported here
    return resource_exhausted("device cuda: " + std::to_string(bytes >> 20) + " MiB of " +
                              (kind == MemoryKind::kDevice ? "its memory" : "pinned memory") +
                              " are needed and " + std::to_string(free_bytes(device) >> 20) +
                              " MiB of the GPU's are free (" + reason(code) +
                              "). Remedy: a smaller model, --dtype int8 or int4, or fewer pages");
  }
  std::int64_t free_bytes(int device) const override {
    make_current(numbers_[static_cast<std::size_t>(device)]);
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return static_cast<std::int64_t>(free);
  }
  void free(MemoryKind kind, std::byte* memory) override {
    keep(kind == MemoryKind::kDevice ? cudaFree(memory) : cudaFreeHost(memory));
  }

  void use(int device) override { make_current(numbers_[static_cast<std::size_t>(device)]); }
  Stream new_stream(int device) override {
    use(device);
    cudaStream_t stream = nullptr;
    keep(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
    return stream;
  }
  Event new_event(int device) override {
    use(device);
    cudaEvent_t event = nullptr;
    keep(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    events_.push_back(event);
    return event;
  }

  void upload(std::byte* to, const void* from, std::int64_t bytes, Stream stream) override {
    ++counts_.uploads;
    put_copy(to, from, bytes, cudaMemcpyHostToDevice, stream);
  }
  void download(void* to, const std::byte* from, std::int64_t bytes, Stream stream) override {
    ++counts_.downloads;
    put_copy(to, from, bytes, cudaMemcpyDeviceToHost, stream);
  }
  void copy(std::byte* to, std::int64_t to_pitch, const std::byte* from, std::int64_t from_pitch,
            std::int64_t bytes, std::int64_t count, Stream stream) override {
    keep(cudaMemcpy2DAsync(to, static_cast<std::size_t>(to_pitch), from,
                           static_cast<std::size_t>(from_pitch), static_cast<std::size_t>(bytes),
                           static_cast<std::size_t>(count), cudaMemcpyDefault, stream_of(stream)));
  }
  void fill_zero(std::byte* to, std::int64_t bytes, Stream stream) override {
    keep(cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream_of(stream)));
  }

  void record(Event event, Stream stream) override {
    keep(cudaEventRecord(event_of(event), stream_of(stream)));
  }
  void wait(Stream stream, Event event) override {
    keep(cudaStreamWaitEvent(stream_of(stream), event_of(event)));
  }
  void signal(Event event, Stream stream) override {
    const unsigned flags = is_recording_ ? cudaEventRecordExternal : cudaEventRecordDefault;
    keep(cudaEventRecordWithFlags(event_of(event), stream_of(stream), flags));
  }
  Status synchronize(Event event) override {
    ++counts_.waits;
    keep(cudaEventSynchronize(event_of(event)));
    return status();
  }

  bool is_done(Event event) override {
    return cudaEventQuery(event_of(event)) == cudaSuccess;  // an error shows at the next wait
  }

  void begin_graph(Stream stream) override {
    is_recording_ = true;
    keep(cudaStreamBeginCapture(stream_of(stream), cudaStreamCaptureModeThreadLocal));
  }
  Result<Graph> end_graph(Stream stream) override {
    is_recording_ = false;
    cudaGraph_t recorded = nullptr;
    cudaGraphExec_t graph = nullptr;
    keep(cudaStreamEndCapture(stream_of(stream), &recorded));
    OUTRIDER_RETURN_IF_ERROR(status());
    std::size_t nodes = 0;
    keep(cudaGraphGetNodes(recorded, nullptr, &nodes));
    counts_.graph_kernels += static_cast<std::int64_t>(nodes);
    keep(cudaGraphInstantiate(&graph, recorded, 0));
    keep(cudaGraphDestroy(recorded));
    OUTRIDER_RETURN_IF_ERROR(status());
    graphs_.push_back(graph);
    return graph;
  }
  void launch(Graph graph, Stream stream) override {
    ++counts_.graph_launches;
    keep(cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream_of(stream)));
  }
  void destroy(Graph graph) override {
    keep(cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)));
    std::erase(graphs_, graph);
  }

 private:
  // Makes this device the thread's current one. CUDA is not called again for the same one: while a
  // graph is recorded most calls end the recording.
  static void make_current(int number) {
    static thread_local int current = -1;
    if (current == number) return;
    cudaSetDevice(number);
    current = number;
  }
  // Without it copies between devices go through the host.
  static void enable_copies(int from, int to) {
    int can = 0;
    if (from == to || cudaDeviceCanAccessPeer(&can, from, to) != cudaSuccess || can == 0) return;
    make_current(from);
    cudaDeviceEnablePeerAccess(to, 0);
    cudaGetLastError();  // it may be enabled already
  }
  void put_copy(void* to, const void* from, std::int64_t bytes, cudaMemcpyKind kind,
                Stream stream) {
    keep(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream_of(stream)));
  }
  // The first error stays: what comes after it is its consequence.
  void keep(cudaError_t code) {
    if (first_error_ == cudaSuccess) first_error_ = code;
  }
  // Kernels' launches report theirs to the runtime.
  Status status() {
    keep(cudaGetLastError());
    if (first_error_ == cudaSuccess) return {};
    return unavailable("device cuda: " + reason(first_error_) +
                       ". Remedy: start this program anew; if it happens again, look for Xid "
                       "errors in the system's log");
  }

  const DeviceFacts facts_;
  const std::vector<int> numbers_;  // CUDA's, by device
  DeviceCounts counts_;
  cudaError_t first_error_ = cudaSuccess;
  bool is_recording_ = false;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Graph> graphs_;
};

FoundGpus find_gpus() {
  FoundGpus found;
  cudaRuntimeGetVersion(&found.runtime);
  cudaDriverGetVersion(&found.driver);
  int count = 0;
  cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaErrorNoDevice) code = cudaSuccess;
  for (int number = 0; code == cudaSuccess && number < count; ++number) {
    cudaDeviceProp properties{};
    code = cudaGetDeviceProperties(&properties, number);
    found.gpus.push_back({properties.name, properties.major * 10 + properties.minor});
  }
  if (code != cudaSuccess) found.reason = reason(code);
  return found;
}

}  // namespace

Result<std::unique_ptr<DeviceApi>> make_cuda_device(std::span<const int> wanted) {
  std::vector<int> numbers(wanted.begin(), wanted.end());
  if (numbers.empty()) numbers.push_back(0);
  const FoundGpus found = find_gpus();
  OUTRIDER_RETURN_IF_ERROR(check_gpus(found, numbers));
  const Gpu& gpu = found.gpus[static_cast<std::size_t>(numbers.front())];
  const std::string many = numbers.size() > 1 ? std::to_string(numbers.size()) + " x " : "";
  const DeviceFacts facts{many + gpu.name, "cuda-sm" + std::to_string(gpu.capability)};
  return std::unique_ptr<DeviceApi>(std::make_unique<CudaDevice>(facts, std::move(numbers)));
}

}  // namespace outrider::cuda
