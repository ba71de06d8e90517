// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/device/cuda_device.h"

#include <algorithm>
#include <string>
#include <vector>

#include "common/base/free_memory.h"
#include "common/engine/model/cuda/device/cuda_driver.h"
#include "common/engine/model/cuda/device/device_room.h"
#include "common/engine/model/cuda/device/gpu_choice.h"
#include "common/engine/model/cuda/device/gpu_kernel.h"

namespace outrider::cuda {
namespace {

CUstream stream_of(Stream stream) {
  return static_cast<CUstream>(stream);
}
CUevent event_of(Event event) {
  return static_cast<CUevent>(event);
}
CUgraphExec graph_of(Graph graph) {
  return static_cast<CUgraphExec>(graph);
}
CUdeviceptr address_of(const std::byte* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
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
      driver().synchronize_context();
    }
    for (const Graph graph : graphs_) driver().destroy_runnable(graph_of(graph));
    for (const Event event : events_) driver().destroy_event(event_of(event));
    for (const Stream stream : streams_) driver().destroy_stream(stream_of(stream));
  }

  const DeviceFacts& facts() const override { return facts_; }
  int devices() const override { return static_cast<int>(numbers_.size()); }
  const DeviceCounts& counts() const override { return counts_; }

  Result<std::byte*> allocate(MemoryKind kind, std::int64_t bytes, int device) override {
    ++counts_.allocations;
    use(device);
    const auto size = static_cast<std::size_t>(bytes);
    CUdeviceptr on_device = 0;
    void* on_host = nullptr;
    const CUresult code = kind == MemoryKind::kDevice
                              ? driver().allocate(&on_device, size)
                              : driver().allocate_host(&on_host, size, CU_MEMHOSTALLOC_PORTABLE);
    if (code == CUDA_SUCCESS) {
      return kind == MemoryKind::kDevice ? reinterpret_cast<std::byte*>(on_device)
                                         : static_cast<std::byte*>(on_host);
    }
    return resource_exhausted("device cuda: " + std::to_string(bytes >> 20) + " MiB of " +
                              (kind == MemoryKind::kDevice ? "its memory" : "pinned memory") +
                              " are needed and " + words_of(free_memory(device)) + " (" +
                              reason(code) +
                              "). Remedy: a smaller model, --dtype int8 or int4, or fewer pages");
  }
  FreeMemory free_memory(int device) const override {
    const int gpu = numbers_[static_cast<std::size_t>(device)];
    use_gpu(gpu);
    std::size_t free = 0, total = 0;
    driver().memory_info(&free, &total);
    return {.on_device = static_cast<std::int64_t>(free),
            .on_host = outrider::free_memory(),
            .is_shared = attribute_of(gpu, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0};
  }
  void free(MemoryKind kind, std::byte* memory) override {
    keep(kind == MemoryKind::kDevice ? driver().free(address_of(memory))
                                     : driver().free_host(memory));
  }
  Status pin(std::byte* memory, std::int64_t bytes) override {
    const CUresult code =
        driver().pin(memory, static_cast<std::size_t>(bytes), CU_MEMHOSTREGISTER_PORTABLE);
    if (code == CUDA_SUCCESS) return {};
    return resource_exhausted("device cuda: " + std::to_string(bytes >> 20) +
                              " MiB of the host's memory cannot be pinned (" + reason(code) +
                              "). Remedy: a smaller --memory-budget, or --device cpu");
  }
  void unpin(std::byte* memory) override { keep(driver().unpin(memory)); }

  void use(int device) override { keep(use_gpu(numbers_[static_cast<std::size_t>(device)])); }
  Stream new_stream(int device) override {
    use(device);
    CUstream stream = nullptr;
    keep(driver().create_stream(&stream, CU_STREAM_NON_BLOCKING));
    streams_.push_back(stream);
    return stream;
  }
  Event new_event(int device) override {
    use(device);
    CUevent event = nullptr;
    keep(driver().create_event(&event, CU_EVENT_DISABLE_TIMING));
    events_.push_back(event);
    return event;
  }

  void upload(std::byte* to, const void* from, std::int64_t bytes, Stream stream) override {
    ++counts_.uploads;
    keep(driver().copy_to_device(address_of(to), from, static_cast<std::size_t>(bytes),
                                 stream_of(stream)));
  }
  void download(void* to, const std::byte* from, std::int64_t bytes, Stream stream) override {
    ++counts_.downloads;
    keep(driver().copy_to_host(to, address_of(from), static_cast<std::size_t>(bytes),
                               stream_of(stream)));
  }
  void copy(std::byte* to, std::int64_t to_pitch, const std::byte* from, std::int64_t from_pitch,
            std::int64_t bytes, std::int64_t count, Stream stream) override {
    CUDA_MEMCPY2D pieces{};
    pieces.srcMemoryType = pieces.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    pieces.srcDevice = address_of(from);
    pieces.srcPitch = static_cast<std::size_t>(from_pitch);
    pieces.dstDevice = address_of(to);
    pieces.dstPitch = static_cast<std::size_t>(to_pitch);
    pieces.WidthInBytes = static_cast<std::size_t>(bytes);
    pieces.Height = static_cast<std::size_t>(count);
    keep(driver().copy_pieces(&pieces, stream_of(stream)));
  }
  void fill_zero(std::byte* to, std::int64_t bytes, Stream stream) override {
    keep(driver().fill(address_of(to), 0, static_cast<std::size_t>(bytes), stream_of(stream)));
  }

  void record(Event event, Stream stream) override {
    keep(driver().record_event(event_of(event), stream_of(stream)));
  }
  void wait(Stream stream, Event event) override {
    keep(driver().wait_for_event(stream_of(stream), event_of(event), CU_EVENT_WAIT_DEFAULT));
  }
  void signal(Event event, Stream stream) override {
    const unsigned flags = is_recording_ ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT;
    keep(driver().record_event_with_flags(event_of(event), stream_of(stream), flags));
  }
  Status synchronize(Event event) override {
    ++counts_.waits;
    keep(driver().synchronize_event(event_of(event)));
    return status();
  }

  bool is_done(Event event) override {
    // An error shows at the next wait.
    return driver().query_event(event_of(event)) == CUDA_SUCCESS;
  }

  void begin_graph(Stream stream) override {
    is_recording_ = true;
    keep(driver().begin_capture(stream_of(stream), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  }
  Result<Graph> end_graph(Stream stream) override {
    is_recording_ = false;
    CUgraph recorded = nullptr;
    CUgraphExec graph = nullptr;
    keep(driver().end_capture(stream_of(stream), &recorded));
    OUTRIDER_RETURN_IF_ERROR(status());
    std::size_t nodes = 0;
    keep(driver().graph_nodes(recorded, nullptr, &nodes));
    counts_.graph_kernels += static_cast<std::int64_t>(nodes);
    keep(driver().instantiate_graph(&graph, recorded, 0));
    keep(driver().destroy_graph(recorded));
    OUTRIDER_RETURN_IF_ERROR(status());
    graphs_.push_back(graph);
    return graph;
  }
  void launch(Graph graph, Stream stream) override {
    ++counts_.graph_launches;
    keep(driver().launch_graph(graph_of(graph), stream_of(stream)));
  }
  void destroy(Graph graph) override {
    keep(driver().destroy_runnable(graph_of(graph)));
    std::erase(graphs_, graph);
  }

 private:
  // For calls of any thread, such as one that frees what another took: it has a current GPU then.
  const CudaDriver& driver() const {
    if (current_gpu() < 0) use_gpu(numbers_.front());
    return driver_;
  }
  // Without it copies between devices go through the host.
  void enable_copies(int from, int to) {
    int can = 0;
    CUcontext context = nullptr;
    if (from == to ||
        driver().can_access_peer(&can, device_of(from), device_of(to)) != CUDA_SUCCESS ||
        can == 0 || context_of(to, context) != CUDA_SUCCESS || use_gpu(from) != CUDA_SUCCESS) {
      return;
    }
    driver().enable_peer_access(context, 0);  // it may be enabled already
  }
  // The first error stays: what comes after it is its consequence.
  void keep(CUresult code) {
    if (first_error_ == CUDA_SUCCESS) first_error_ = code;
  }
  Status status() {
    keep(static_cast<CUresult>(take_launch_error()));
    if (first_error_ == CUDA_SUCCESS) return {};
    return unavailable("device cuda: " + reason(first_error_) +
                       ". Remedy: start this program anew; if it happens again, look for Xid "
                       "errors in the system's log");
  }

  const CudaDriver& driver_ = cuda_driver();
  const DeviceFacts facts_;
  const std::vector<int> numbers_;  // CUDA's, by device
  DeviceCounts counts_;
  CUresult first_error_ = CUDA_SUCCESS;
  bool is_recording_ = false;
  std::vector<Stream> streams_;
  std::vector<Event> events_;
  std::vector<Graph> graphs_;
};

FoundGpus find_gpus() {
  const CudaDriver& driver = cuda_driver();
  FoundGpus found{.driver = driver.version, .reason = {}, .gpus = {}};
  if (found.driver == 0) return found;
  if (!driver.missing.empty()) {
    found.reason = "the driver has no " + driver.missing;
    return found;
  }
  int count = 0;
  CUresult code = driver.initialize(0);
  if (code == CUDA_SUCCESS) code = driver.count_devices(&count);
  if (code == CUDA_ERROR_NO_DEVICE) code = CUDA_SUCCESS;
  for (int number = 0; code == CUDA_SUCCESS && number < std::min(count, kMaxGpus); ++number) {
    char name[256] = {};
    code = driver.device_name(name, sizeof(name), device_of(number));
    found.gpus.push_back(
        {name, attribute_of(number, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) * 10 +
                   attribute_of(number, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)});
  }
  if (code != CUDA_SUCCESS) found.reason = reason(code);
  return found;
}

}  // namespace

Result<std::unique_ptr<DeviceApi>> make_cuda_device(std::span<const int> wanted) {
  std::vector<int> numbers(wanted.begin(), wanted.end());
  if (numbers.empty()) numbers.push_back(0);
  const FoundGpus found = find_gpus();
  OUTRIDER_RETURN_IF_ERROR(check_gpus(found, numbers, architectures()));
  const Gpu& gpu = found.gpus[static_cast<std::size_t>(numbers.front())];
  for (const int number : numbers) {
    if (const CUresult code = use_gpu(number); code != CUDA_SUCCESS) {
      return failed_precondition("device cuda: GPU " + std::to_string(number) +
                                 " cannot be used (" + reason(code) +
                                 "). Remedy: look what else uses it, or --device cpu");
    }
    OUTRIDER_RETURN_IF_ERROR(load_kernels(number, gpu.capability));
  }
  const std::string many = numbers.size() > 1 ? std::to_string(numbers.size()) + " x " : "";
  const DeviceFacts facts{many + gpu.name, "cuda-sm" + std::to_string(gpu.capability)};
  return std::unique_ptr<DeviceApi>(std::make_unique<CudaDevice>(facts, std::move(numbers)));
}

}  // namespace outrider::cuda
