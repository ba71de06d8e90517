// SPDX-License-Identifier: Apache-2.0
#include "common/model/cuda/host_device.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "common/model/cuda/fibers.h"

namespace outrider::cuda {
namespace {

constexpr int kPoison = 0xc5;

// Work, and what has to be done before it.
struct Operation;
using Work = std::shared_ptr<Operation>;
struct Operation {
  std::function<void()> run;
  std::vector<Work> after;
  bool is_done = false;

  bool is_ready() const {
    return std::ranges::all_of(after, [](const Work& other) { return other->is_done; });
  }
};

struct HostEvent {
  Work recorded;   // null: nothing is before it
  Work signalled;  // what synchronize() waits for
};

struct HostGraph {
  std::vector<Work> work;  // each behind those that it comes after
  std::vector<std::pair<HostEvent*, Work>> signals;
};

class HostDevice;

struct HostStream final : public fibers::WorkQueue {
  explicit HostStream(HostDevice& device) : device(device) {}
  void put(std::function<void()> kernel) override;

  HostDevice& device;
  Work last;
  std::vector<Work> waits;  // of the next work, besides `last`
};

HostStream& stream_of(Stream stream) {
  return *static_cast<HostStream*>(static_cast<fibers::WorkQueue*>(stream));
}
HostEvent& event_of(Event event) {
  return *static_cast<HostEvent*>(event);
}

class HostDevice final : public DeviceApi {
 public:
  explicit HostDevice(const HostDeviceOptions& options) : options_(options), random_(options.seed) {
    fibers::set_seed(options.seed);
  }
  ~HostDevice() override {
    for (const auto& [memory, piece] : memory_) munmap(memory, piece.bytes);
  }

  const DeviceFacts& facts() const override { return facts_; }
  const DeviceCounts& counts() const override { return counts_; }

  Result<std::byte*> allocate(MemoryKind kind, std::int64_t bytes) override;
  std::int64_t free_bytes() const override {
    return options_.limit > 0 ? options_.limit - used_ : 0;
  }
  void free(MemoryKind kind, std::byte* memory) override;

  Stream new_stream() override {
    streams_.push_back(std::make_unique<HostStream>(*this));
    return static_cast<fibers::WorkQueue*>(streams_.back().get());
  }
  Event new_event() override {
    events_.push_back(std::make_unique<HostEvent>());
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
  void copy(std::byte* to, const std::byte* from, std::int64_t bytes, std::int64_t pitch,
            std::int64_t count, Stream stream) override {
    add(stream_of(stream), [=] {
      for (std::int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * pitch, from + i * pitch, static_cast<std::size_t>(bytes));
      }
    });
  }
  void fill_zero(std::byte* to, std::int64_t bytes, Stream stream) override {
    add(stream_of(stream), [=] { std::memset(to, 0, static_cast<std::size_t>(bytes)); });
  }

  void record(Event event, Stream stream) override {
    event_of(event).recorded = stream_of(stream).last;
  }
  void wait(Stream stream, Event event) override {
    const Work& before = event_of(event).recorded;
    if (before != nullptr) stream_of(stream).waits.push_back(before);
  }
  void signal(Event event, Stream stream) override;
  Status synchronize(Event event) override;

  void begin_graph(Stream stream) override;
  Result<Graph> end_graph(Stream stream) override;
  void launch(Graph graph, Stream stream) override;
  void destroy(Graph graph) override {
    std::erase_if(graphs_, [&](const auto& other) { return other.get() == graph; });
  }

  void put_kernel(HostStream& stream, std::function<void()> kernel) {
    ++(graph_ != nullptr ? counts_.graph_kernels : counts_.launches);
    add(stream, std::move(kernel));
  }

 private:
  struct Piece {
    std::size_t bytes;
    MemoryKind kind;
  };

  void put_copy(void* to, const void* from, std::int64_t bytes, Stream stream) {
    add(stream_of(stream), [=] { std::memcpy(to, from, static_cast<std::size_t>(bytes)); });
  }
  Work add(HostStream& stream, std::function<void()> run);
  std::uint64_t next_random();
  bool is_random() const { return options_.seed != 0; }
  void run_some();
  void run_one();
  void check_joined(const Work& last) const;

  const HostDeviceOptions options_;
  const DeviceFacts facts_{"the CPU, by fibers", "host-cuda"};
  DeviceCounts counts_;
  std::map<std::byte*, Piece> memory_;
  std::int64_t used_ = 0;  // of kDevice
  std::vector<std::unique_ptr<HostStream>> streams_;
  std::vector<std::unique_ptr<HostEvent>> events_;
  std::vector<std::unique_ptr<HostGraph>> graphs_;
  std::vector<Work> pending_;         // in the order in which it came
  std::unique_ptr<HostGraph> graph_;  // while one is recorded
  std::vector<Work> before_graph_;    // the streams' last work before it
  std::uint64_t random_;
};

void HostStream::put(std::function<void()> kernel) {
  device.put_kernel(*this, std::move(kernel));
}

Result<std::byte*> HostDevice::allocate(MemoryKind kind, std::int64_t bytes) {
  ++counts_.allocations;
  const bool is_device = kind == MemoryKind::kDevice;
  const bool fits = !is_device || options_.limit == 0 || bytes <= options_.limit - used_;
  void* const memory = fits ? mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                            : MAP_FAILED;
  if (memory == MAP_FAILED) {
    return resource_exhausted(
        "device host-cuda: " + std::to_string(bytes) + " bytes are needed and " +
        (options_.limit > 0 ? std::to_string(options_.limit - used_) : std::string("fewer")) +
        " are free. Remedy: a smaller model or context");
  }
  auto* const data = static_cast<std::byte*>(memory);
  if (options_.poisons) std::memset(data, kPoison, static_cast<std::size_t>(bytes));
  memory_[data] = {static_cast<std::size_t>(bytes), kind};
  if (is_device) used_ += bytes;
  return data;
}

void HostDevice::free(MemoryKind kind, std::byte* memory) {
  const auto found = memory_.find(memory);
  if (found == memory_.end() || found->second.kind != kind) {
    throw std::logic_error("memory is freed that was not allocated");
  }
  if (kind == MemoryKind::kDevice) used_ -= static_cast<std::int64_t>(found->second.bytes);
  munmap(memory, found->second.bytes);
  memory_.erase(found);
}

std::uint64_t HostDevice::next_random() {
  random_ += 0x9e3779b97f4a7c15u;
  std::uint64_t x = random_;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

Work HostDevice::add(HostStream& stream, std::function<void()> run) {
  auto work = std::make_shared<Operation>();
  work->run = std::move(run);
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

// Now and then much, mostly nothing: streams run ahead of each other, and behind.
void HostDevice::run_some() {
  if (!is_random() || next_random() % 4 != 0) return;
  for (std::uint64_t count = next_random() % 16; count > 0 && !pending_.empty(); --count) run_one();
}

// There is always some that may run: work comes after earlier work only.
void HostDevice::run_one() {
  std::size_t at = is_random() ? next_random() % pending_.size() : 0;
  while (!pending_[at]->is_ready()) at = (at + 1) % pending_.size();
  const Work work = pending_[at];
  pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(at));
  work->run();
  work->is_done = true;
  work->after.clear();  // else all that ever ran would stay
}

void HostDevice::signal(Event event, Stream stream) {
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
  while (!mark->is_done) run_one();
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
