// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/fibers/host_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/engine/model/cuda/fibers/fibers.h"

namespace outrider::cuda {
namespace {

constexpr int kPoison = 0xc5;
constexpr std::size_t kAddresses = std::size_t{1} << 36;  // of a device's memory
constexpr int kEveryDevice = -1;

// Work, and what has to be done before it.
struct HostStream;
struct Operation;
using Work = std::shared_ptr<Operation>;
struct Operation {
  std::function<void()> run;
  const HostStream* stream = nullptr;
  int device = kEveryDevice;  // whose memory it sees
  std::vector<Work> after;
  bool is_done = false;

  bool is_ready() const {
    return std::ranges::all_of(after, [](const Work& other) { return other->is_done; });
  }
};

struct HostEvent {
  explicit HostEvent(int device) : device(device) {}

  const int device;
  Work recorded;   // null: nothing is before it
  Work signalled;  // what synchronize() waits for
};

struct HostGraph {
  std::vector<Work> work;  // each behind those that it comes after
  std::vector<std::pair<HostEvent*, Work>> signals;
};

class HostDevice;

struct HostStream final : public fibers::WorkQueue {
  HostStream(HostDevice& api, int device) : api(api), device(device) {}
  void put(std::function<void()> kernel) override;

  HostDevice& api;
  const int device;
  Work last;
  std::vector<Work> waits;  // of the next work, besides `last`
};

HostStream& stream_of(Stream stream) {
  return *static_cast<HostStream*>(static_cast<fibers::WorkQueue*>(stream));
}
HostEvent& event_of(Event event) {
  return *static_cast<HostEvent*>(event);
}

// Addresses of one device's memory, which can be read and written while it is open.
struct Arena {
  std::byte* begin = nullptr;
  std::size_t end = 0;  // of what was given
  std::int64_t used = 0;
  bool is_open = true;
};

class HostDevice final : public DeviceApi {
 public:
  explicit HostDevice(const HostDeviceOptions& options)
      : options_(options),
        arenas_(static_cast<std::size_t>(options.devices)),
        random_(options.seed) {
    fibers::set_seed(options.seed);
    for (Arena& arena : arenas_) {
      void* const memory =
          mmap(nullptr, kAddresses, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (memory == MAP_FAILED) throw std::bad_alloc();
      arena.begin = static_cast<std::byte*>(memory);
    }
  }
  ~HostDevice() override {
    for (const auto& [memory, piece] : memory_) {
      if (piece.kind == MemoryKind::kHost) munmap(memory, piece.bytes);
    }
    for (const Arena& arena : arenas_) munmap(arena.begin, kAddresses);
  }

  const DeviceFacts& facts() const override { return facts_; }
  int devices() const override { return options_.devices; }
  const DeviceCounts& counts() const override { return counts_; }

  Result<std::byte*> allocate(MemoryKind kind, std::int64_t bytes, int device) override;
  FreeMemory free_memory(int device) const override {
    return {.on_device = options_.limit > 0 ? options_.limit - arena(device).used : 0,
            .on_host = options_.host_free,
            .is_shared = options_.is_integrated};
  }
  void free(MemoryKind kind, std::byte* memory) override;
  Status pin(std::byte* memory, std::int64_t bytes) override;
  void unpin(std::byte* memory) override {
    if (pinned_.erase(memory) == 1) return;
    throw std::logic_error("memory is unpinned that is not pinned");
  }

  void use(int device) override { current_ = device; }
  Stream new_stream(int device) override {
    streams_.push_back(std::make_unique<HostStream>(*this, device));
    return static_cast<fibers::WorkQueue*>(streams_.back().get());
  }
  Event new_event(int device) override {
    events_.push_back(std::make_unique<HostEvent>(device));
    return events_.back().get();
  }

  void upload(std::byte* to, const void* from, std::int64_t bytes, Stream stream) override {
    ++counts_.uploads;
    put_copy(to, from, bytes, stream);
  }
  void download(void* to, const std::byte* from, std::int64_t bytes, Stream stream) override {
    ++counts_.downloads;
    put_copy(to, from, bytes, stream);
  }
  void copy(std::byte* to, std::int64_t to_pitch, const std::byte* from, std::int64_t from_pitch,
            std::int64_t bytes, std::int64_t count, Stream stream) override {
    add(stream_of(stream), [=] {
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * to_pitch, from + i * from_pitch, static_cast<std::size_t>(bytes));
      }
    });
  }
  void fill_zero(std::byte* to, std::int64_t bytes, Stream stream) override {
    check_current(stream_of(stream));
    add(stream_of(stream), [=] { std::memset(to, 0, static_cast<std::size_t>(bytes)); });
  }

  void record(Event event, Stream stream) override {
    check_device(event, stream);
    HostStream& from = stream_of(stream);
    if (!from.waits.empty()) add(from, [] {});  // what the stream waits for comes before it too
    event_of(event).recorded = from.last;
  }
  void wait(Stream stream, Event event) override {
    const Work& before = event_of(event).recorded;
    if (before != nullptr) stream_of(stream).waits.push_back(before);
  }
  void signal(Event event, Stream stream) override;
  Status synchronize(Event event) override;
  // How long work takes means nothing here.
  bool is_done(Event event) override {
    return options_.is_fast && event_of(event).signalled->is_done;
  }

  void begin_graph(Stream stream) override;
  Result<Graph> end_graph(Stream stream) override;
  void launch(Graph graph, Stream stream) override;
  void destroy(Graph graph) override {
    std::erase_if(graphs_, [&](const auto& other) { return other.get() == graph; });
  }

  void put_kernel(HostStream& stream, std::function<void()> kernel) {
    check_current(stream);
    ++(graph_ != nullptr ? counts_.graph_kernels : counts_.launches);
    add(stream, std::move(kernel), stream.device);
  }

 private:
  struct Piece {
    std::size_t bytes;
    MemoryKind kind;
    int device;
  };

  const Arena& arena(int device) const { return arenas_.at(static_cast<std::size_t>(device)); }
  Arena& arena(int device) { return arenas_.at(static_cast<std::size_t>(device)); }
  // One device's memory, or that of all, can be touched from now on.
  void open(int device);
  std::byte* take(Arena& from, std::int64_t bytes);
  void check_current(const HostStream& stream) const {
    if (stream.device == current_) return;
    throw std::logic_error("a kernel goes to a device that is not in use");
  }
  static void check_device(Event event, Stream stream) {
    if (event_of(event).device == stream_of(stream).device) return;
    throw std::logic_error("an event of one device stands for work of another");
  }

  void put_copy(void* to, const void* from, std::int64_t bytes, Stream stream) {
    add(stream_of(stream), [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }
  Work add(HostStream& stream, std::function<void()> run, int device = kEveryDevice);
  std::uint64_t next_random();
  bool is_random() const { return options_.seed != 0; }
  void run_some();
  bool run_one(bool also_held);
  void check_joined(const Work& last) const;

  const HostDeviceOptions options_;
  const DeviceFacts facts_{"the CPU, by fibers", "host-cuda"};
  DeviceCounts counts_;
  std::vector<Arena> arenas_;  // by device
  std::map<std::byte*, Piece> memory_;
  std::map<std::byte*, std::int64_t> pinned_;  // bytes
  std::vector<std::unique_ptr<HostStream>> streams_;
  std::vector<std::unique_ptr<HostEvent>> events_;
  std::vector<std::unique_ptr<HostGraph>> graphs_;
  std::vector<Work> pending_;         // in the order in which it came
  std::unique_ptr<HostGraph> graph_;  // while one is recorded
  std::vector<Work> before_graph_;    // the streams' last work before it
  std::uint64_t random_;
  const HostStream* held_ = nullptr;  // whose work is done only when it is waited for; null: none
  int current_ = 0;
};

void HostStream::put(std::function<void()> kernel) {
  api.put_kernel(*this, std::move(kernel));
}

void HostDevice::open(int device) {
  if (options_.devices == 1) return;
  for (int i = 0; i < options_.devices; ++i) {
    Arena& each = arena(i);
    const bool is_open = device == kEveryDevice || device == i;
    if (each.is_open == is_open) continue;
    each.is_open = is_open;
    mprotect(each.begin, each.end, is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

// Null: there is not so much.
std::byte* HostDevice::take(Arena& from, std::int64_t bytes) {
  constexpr std::size_t kPage = 4096;
  const std::size_t size = (static_cast<std::size_t>(bytes) + kPage - 1) / kPage * kPage;
  const bool fits = options_.limit == 0 || bytes <= options_.limit - from.used;
  std::byte* const data = from.begin + from.end;
  if (!fits || size > kAddresses - from.end) return nullptr;
  open(kEveryDevice);
  if (mprotect(data, size, PROT_READ | PROT_WRITE) != 0) return nullptr;
  from.end += size;
  from.used += bytes;
  return data;
}

Result<std::byte*> HostDevice::allocate(MemoryKind kind, std::int64_t bytes, int device) {
  ++counts_.allocations;
  std::byte* data = nullptr;
  if (kind == MemoryKind::kDevice) {
    data = take(arena(device), bytes);
  } else {
    void* const memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data = memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  }
  if (data == nullptr) {
    const std::string free =
        options_.limit > 0 ? std::to_string(free_memory(device).on_device) : "fewer";
    return resource_exhausted("device host-cuda: " + std::to_string(bytes) +
                              " bytes are needed and " + free +
                              " are free. Remedy: a smaller model or context");
  }
  if (options_.poisons) std::memset(data, kPoison, static_cast<std::size_t>(bytes));
  memory_[data] = {static_cast<std::size_t>(bytes), kind, device};
  return data;
}

void HostDevice::free(MemoryKind kind, std::byte* memory) {
  const auto found = memory_.find(memory);
  if (found == memory_.end() || found->second.kind != kind) {
    throw std::logic_error("memory is freed that was not allocated");
  }
  const Piece piece = found->second;
  memory_.erase(found);
  if (kind == MemoryKind::kHost) {
    munmap(memory, piece.bytes);
    return;
  }
  arena(piece.device).used -= static_cast<std::int64_t>(piece.bytes);
  madvise(memory, piece.bytes, MADV_DONTNEED);  // its addresses are not given again
}

// A GPU's driver pins whole pages, each once.
Status HostDevice::pin(std::byte* memory, std::int64_t bytes) {
  constexpr std::int64_t kPage = 4096;
  const bool pages =
      bytes > 0 && bytes % kPage == 0 && reinterpret_cast<std::uintptr_t>(memory) % kPage == 0;
  const auto next = pinned_.lower_bound(memory + bytes);
  const bool overlaps =
      next != pinned_.begin() && std::prev(next)->first + std::prev(next)->second > memory;
  if (overlaps || !pages) {
    throw std::logic_error("memory is pinned twice, or not in whole pages");
  }
  pinned_[memory] = bytes;
  return {};
}

std::uint64_t HostDevice::next_random() {
  random_ += 0x9e3779b97f4a7c15u;
  std::uint64_t x = random_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Work HostDevice::add(HostStream& stream, std::function<void()> run, int device) {
  auto work = std::make_shared<Operation>();
  work->run = std::move(run);
  work->stream = &stream;
  work->device = device;
  work->after = std::move(stream.waits);
  stream.waits.clear();
  if (stream.last != nullptr) work->after.push_back(stream.last);
  stream.last = work;
  if (graph_ != nullptr) {
    graph_->work.push_back(work);
  } else {
    pending_.push_back(work);
    run_some();
  }
  return work;
}

// Now and then much, mostly nothing: streams run ahead of each other, and behind. For a while one
// of them is far behind.
void HostDevice::run_some() {
  if (!is_random()) return;
  if (next_random() % 64 == 0) {
    const std::size_t held = next_random() % (2 * streams_.size());
    held_ = held < streams_.size() ? streams_[held].get() : nullptr;
  }
  if (next_random() % 4 != 0) return;
  for (std::uint64_t count = next_random() % 16; count > 0 && run_one(false); --count) {
  }
}

// False if nothing may run. With the held stream's there is always some: work comes after earlier
// work only.
bool HostDevice::run_one(bool also_held) {
  const std::size_t begin = is_random() && !pending_.empty() ? next_random() % pending_.size() : 0;
  std::size_t at = pending_.size();
  for (std::size_t i = 0; i < pending_.size() && at == pending_.size(); ++i) {
    const std::size_t next = (begin + i) % pending_.size();
    const Work& work = pending_[next];
    if (work->is_ready() && (also_held || work->stream != held_)) at = next;
  }
  if (at == pending_.size()) return false;
  const Work work = pending_[at];
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(at));
  open(work->device);
  work->run();
  work->is_done = true;
  work->after.clear();  // else all that ever ran would stay
  return true;
}

void HostDevice::signal(Event event, Stream stream) {
  check_device(event, stream);
  const Work mark = add(stream_of(stream), [] {});
  if (graph_ != nullptr) {
    graph_->signals.emplace_back(&event_of(event), mark);
  } else {
    event_of(event).signalled = mark;
  }
}

Status HostDevice::synchronize(Event event) {
  ++counts_.waits;
  const Work mark = event_of(event).signalled;
  if (mark == nullptr) throw std::logic_error("an event is waited for that nothing signals");
  while (!mark->is_done || (options_.is_fast && !pending_.empty())) {
    if (!run_one(false)) run_one(true);
  }
  return {};
}

void HostDevice::begin_graph(Stream /*stream*/) {
  if (graph_ != nullptr) throw std::logic_error("a graph begins within another");
  graph_ = std::make_unique<HostGraph>();
  before_graph_.clear();
  for (const auto& each : streams_) before_graph_.push_back(std::move(each->last));
  for (const auto& each : streams_) each->last = nullptr;
}

// All that is recorded comes before the last work of the stream that began the graph.
void HostDevice::check_joined(const Work& last) const {
  std::set<const Operation*> joined;
  std::vector<const Operation*> next;
  if (last != nullptr) next.push_back(last.get());
  while (!next.empty()) {
    const Operation* const work = next.back();
    next.pop_back();
    if (!joined.insert(work).second) continue;
    for (const Work& before : work->after) next.push_back(before.get());
  }
  if (joined.size() != graph_->work.size()) {
    throw std::logic_error("a graph ends before a stream that joined it came back");
  }
}

Result<Graph> HostDevice::end_graph(Stream stream) {
  HostStream& origin = stream_of(stream);
  if (!origin.waits.empty()) add(origin, [] {});
  check_joined(origin.last);
  for (std::size_t i = 0; i < streams_.size(); ++i) streams_[i]->last = before_graph_[i];
  graphs_.push_back(std::move(graph_));
  return graphs_.back().get();
}

void HostDevice::launch(Graph graph, Stream stream) {
  ++counts_.graph_launches;
  const HostGraph& recorded = *static_cast<const HostGraph*>(graph);
  HostStream& to = stream_of(stream);
  const Work begin = add(to, [] {});
  std::map<const Operation*, Work> made;
  for (const Work& work : recorded.work) {
    auto copy = std::make_shared<Operation>();
    copy->run = work->run;
    copy->stream = work->stream;
    copy->device = work->device;
    for (const Work& before : work->after) copy->after.push_back(made.at(before.get()));
    if (copy->after.empty()) copy->after.push_back(begin);
    made[work.get()] = copy;
    pending_.push_back(copy);
    to.last = copy;  // in the end the last one, which all others come before
  }
  for (const auto& [event, mark] : recorded.signals) event->signalled = made.at(mark.get());
  run_some();
}

}  // namespace

std::unique_ptr<DeviceApi> make_host_device(const HostDeviceOptions& options) {
  return std::make_unique<HostDevice>(options);
}

}  // namespace outrider::cuda
