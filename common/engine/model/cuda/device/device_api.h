// The functions of devices that the cuda backend needs besides its kernels: memory, copies,
// streams, events and graphs. CudaDevice (cuda_device.h) is a GPU, or several; HostDevice
// (host_device.h) runs the same work by fibers on the CPU, in any order that events allow.
//
// Devices are numbered from 0. A stream and an event are one device's; kernels of a stream see that
// device's memory, copies see all of it. A graph may hold work of several.
//
// Work of one stream is done in the order in which it was put there; work of two streams is ordered
// by events alone. Nothing waits for the device except synchronize().
//
//   api.upload(on_device, on_host, bytes, stream);   // on_host stays unchanged until it is done
//   kernel launches (kernels.h)
//   api.download(on_host, result, bytes, stream);
//   api.signal(done, stream);
//   OUTRIDER_RETURN_IF_ERROR(api.synchronize(done));
//
// A graph is work that is recorded once and launched many times, with one call and the same memory:
//
//   api.begin_graph(stream) ... OUTRIDER_ASSIGN_OR_RETURN(Graph graph, api.end_graph(stream));
//   api.launch(graph, stream);
//
// Thread rule: one thread. Ownership: a device outlives what it made; streams, events and graphs
// live as long as it does. Errors: of memory at once; of all other work at the next end_graph() or
// synchronize(), and from then on at each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/engine/model/cuda/device/device_room.h"
#include "common/engine/model/cuda/kernels/kernels.h"

namespace outrider::cuda {

struct DeviceFacts {
  std::string name;          // "NVIDIA H100 80GB HBM3"; of several "2 x NVIDIA H100 80GB HBM3"
  std::string device_class;  // "cuda-sm90": of arithmetic ids that are not the CPU's
};

// The work given to a device so far.
struct DeviceCounts {
  std::int64_t launches = 0;       // of kernels that no graph holds
  std::int64_t graph_kernels = 0;  // recorded in graphs
  std::int64_t graph_launches = 0;
  std::int64_t uploads = 0;
  std::int64_t downloads = 0;
  std::int64_t allocations = 0;
  std::int64_t waits = 0;
};

// kDevice: kernels read and write it. kHost: copies read and write it; they do not hold up the
// thread.
enum class MemoryKind : std::uint8_t { kDevice, kHost };

using Event = void*;
using Graph = void*;

class DeviceApi {
 public:
  virtual ~DeviceApi() = default;

  virtual const DeviceFacts& facts() const = 0;
  virtual int devices() const = 0;
  virtual const DeviceCounts& counts() const = 0;

  // bytes > 0; at a multiple of 256. Memory of the host is no device's. RESOURCE_EXHAUSTED names
  // what is needed and what is free.
  virtual Result<std::byte*> allocate(MemoryKind kind, std::int64_t bytes, int device) = 0;
  virtual FreeMemory free_memory(int device = 0) const = 0;
  // No work uses it any more.
  virtual void free(MemoryKind kind, std::byte* memory) = 0;
  // Makes memory of the host that somebody else allocated, whole pages, as quick to copy as kHost:
  // copies do not hold up the thread. RESOURCE_EXHAUSTED if the system refuses it.
  virtual Status pin(std::byte* memory, std::int64_t bytes) = 0;
  // No work uses it any more; before its owner frees it.
  virtual void unpin(std::byte* memory) = 0;

  // Kernels that this thread puts into streams from now on, and fill_zero(), are the device's.
  virtual void use(int device) = 0;
  virtual Stream new_stream(int device = 0) = 0;
  virtual Event new_event(int device = 0) = 0;

  virtual void upload(std::byte* to, const void* from, std::int64_t bytes, Stream stream) = 0;
  virtual void download(void* to, const std::byte* from, std::int64_t bytes, Stream stream) = 0;
  // `count` pieces of so many bytes, a pitch apart on each side, which do not overlap; from any
  // device to the stream's.
  virtual void copy(std::byte* to, std::int64_t to_pitch, const std::byte* from,
                    std::int64_t from_pitch, std::int64_t bytes, std::int64_t count,
                    Stream stream) = 0;
  virtual void fill_zero(std::byte* to, std::int64_t bytes, Stream stream) = 0;

  // The event stands for all work of the stream so far; later work of another stream waits for it.
  // In a graph this is how a second stream joins it, and has to come back before its end.
  virtual void record(Event event, Stream stream) = 0;
  virtual void wait(Stream stream, Event event) = 0;
  // Works as record() does, for synchronize(). In a graph it happens each time that the graph runs.
  virtual void signal(Event event, Stream stream) = 0;
  // Returns when the work before the last signal() is done.
  virtual Status synchronize(Event event) = 0;
  // Whether that work is done; does not wait.
  virtual bool is_done(Event event) = 0;

  virtual void begin_graph(Stream stream) = 0;
  virtual Result<Graph> end_graph(Stream stream) = 0;
  virtual void launch(Graph graph, Stream stream) = 0;
  // It does not run.
  virtual void destroy(Graph graph) = 0;
};

// Memory of a device with an owner.
class DeviceMemory final {
 public:
  DeviceMemory() = default;
  static Result<DeviceMemory> make(DeviceApi& api, MemoryKind kind, std::int64_t bytes,
                                   int device = 0) {
    OUTRIDER_ASSIGN_OR_RETURN(std::byte * data, api.allocate(kind, bytes, device));
    DeviceMemory memory;
    memory.api_ = &api;
    memory.kind_ = kind;
    memory.data_ = data;
    memory.bytes_ = bytes;
    return memory;
  }
  ~DeviceMemory() {
    if (data_ != nullptr) api_->free(kind_, data_);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { swap(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    swap(other);
    return *this;
  }

  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }

 private:
  void swap(DeviceMemory& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(kind_, other.kind_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  DeviceApi* api_ = nullptr;
  MemoryKind kind_ = MemoryKind::kDevice;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

// Memory of the host that is pinned as long as this lives; its owner outlives this.
class PinnedMemory final {
 public:
  PinnedMemory() = default;
  // Without bytes nothing is pinned.
  static Result<PinnedMemory> make(DeviceApi& api, std::span<std::byte> memory) {
    PinnedMemory pinned;
    if (memory.empty()) return pinned;
    OUTRIDER_RETURN_IF_ERROR(api.pin(memory.data(), std::ssize(memory)));
    pinned.api_ = &api;
    pinned.data_ = memory.data();
    return pinned;
  }
  ~PinnedMemory() {
    if (data_ != nullptr) api_->unpin(data_);
  }
  PinnedMemory(PinnedMemory&& other) noexcept { swap(other); }
  PinnedMemory& operator=(PinnedMemory&& other) noexcept {
    swap(other);
    return *this;
  }

 private:
  void swap(PinnedMemory& other) noexcept {
    std::swap(api_, other.api_);
    std::swap(data_, other.data_);
  }

  DeviceApi* api_ = nullptr;
  std::byte* data_ = nullptr;
};

}  // namespace outrider::cuda
