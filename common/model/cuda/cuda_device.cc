// SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/cuda_device.h"

#include <cuda_runtime_api.h>

#include <string>
#include <vector>

namespace outrider::cuda {
namespace {

constexpr int kOldestCapability = 80;  // products of signed bytes, and asynchronous copies

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
  explicit CudaDevice(DeviceFacts facts) : facts_(std::move(facts)) {}
  ~CudaDevice() override {
    cudaDeviceSynchronize();
    for (const Graph graph : graphs_) cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph));
    for (const Event event : events_) cudaEventDestroy(event_of(event));
    for (const Stream stream : streams_) cudaStreamDestroy(stream_of(stream));
  }

  const DeviceFacts& facts() const override { return facts_; }
  const DeviceCounts& counts() const override { return counts_; }

  Result<std::byte*> allocate(MemoryKind kind, std::int64_t bytes) override {
    ++counts_.allocations;
    const auto size = static_cast<std::size_t>(bytes);
    void* memory = nullptr;
    const cudaError_t code =
        kind == MemoryKind::kDevice ? cudaMalloc(&memory, size) : cudaMallocHost(&memory, size);
    if (code == cudaSuccess) return static_cast<std::byte*>(memory);
    cudaGetLastError();  // this one is reported here
    return resource_exhausted("device cuda: " + std::to_string(bytes >> 20) + " MiB of " +
                              (kind == MemoryKind::kDevice ? "its memory" : "pinned memory") +
                              " are needed and " + std::to_string(free_bytes() >> 20) +
                              " MiB of the GPU's are free (" + reason(code) +
                              "). Remedy: a smaller model, --dtype int8 or int4, or fewer pages");
  }
  std::int64_t free_bytes() const override {
    std::size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return static_cast<std::int64_t>(free);
  }
  void free(MemoryKind kind, std::byte* memory) override {
    keep(kind == MemoryKind::kDevice ? cudaFree(memory) : cudaFreeHost(memory));
  }

  Stream new_stream() override {
    cudaStream_t stream = nullptr;
    keep(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    streams_.push_back(stream);
    return stream;
  }
  Event new_event() override {
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
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes, std::int64_t pitch,
            std::int64_t count, Stream stream) override {
    const auto apart = static_cast<std::size_t>(pitch);
    keep(cudaMemcpy2DAsync(to, apart, from, apart, static_cast<std::size_t>(bytes),
                           static_cast<std::size_t>(count), cudaMemcpyDeviceToDevice,
                           stream_of(stream)));
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
  DeviceCounts counts_;
  cudaError_t first_error_ = cudaSuccess;
  bool is_recording_ = false;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Graph> graphs_;
};

}  // namespace

Result<std::unique_ptr<DeviceApi>> make_cuda_device(int number) {
  int count = 0;
  const cudaError_t found = cudaGetDeviceCount(&count);
  if (found != cudaSuccess) {
    return failed_precondition("device cuda: no GPU can be used (" + reason(found) +
                               "). Remedy: install NVIDIA's driver for CUDA 13 and give the "
                               "program access to the GPU, or use --device cpu");
  }
  if (number < 0 || number >= count) {
    return failed_precondition("device cuda: GPU number " + std::to_string(number) +
                               " is not there. Remedy: 0 to " + std::to_string(count - 1));
  }
  cudaDeviceProp properties;
  cudaError_t code = cudaSetDevice(number);
  if (code == cudaSuccess) code = cudaGetDeviceProperties(&properties, number);
  if (code != cudaSuccess) return failed_precondition("device cuda: " + reason(code));
  const int capability = properties.major * 10 + properties.minor;
  if (capability < kOldestCapability) {
    return failed_precondition(std::string("device cuda: ") + properties.name +
                               " has compute capability " + std::to_string(capability) +
                               ", below " + std::to_string(kOldestCapability) +
                               ", and lacks what the kernels use. Remedy: --device cpu");
  }
  return std::unique_ptr<DeviceApi>(std::make_unique<CudaDevice>(
      DeviceFacts{properties.name, "cuda-sm" + std::to_string(capability)}));
}

}  // namespace outrider::cuda
