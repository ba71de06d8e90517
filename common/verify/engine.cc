// SPDX-License-Identifier: Apache-2.0
#include "common/verify/engine.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "common/verify/scheduler.h"

namespace outrider {
namespace {

// What one stream may have waiting. An edge that keeps the protocol has at most max_nodes nodes
// and some acknowledgements on their way, besides its one Open.
constexpr std::size_t kInboxMessages = 256;
constexpr std::size_t kInboxBytes = std::size_t{8} << 20;

struct SizeOfBody {
  std::size_t operator()(const Open& open) const {
    return (open.prefix.size() + open.stop_ids.size()) * sizeof(TokenId) +
           open.tokenizer_hash.size() + open.expected_fingerprint.size() +
           open.expected_arithmetic_id.size() + open.replaced_session.size();
  }
  std::size_t operator()(const Grow& grow) const { return grow.nodes.size() * sizeof(GrowNode); }
  std::size_t operator()(const Policy&) const { return 0; }
  std::size_t operator()(const Cancel&) const { return 0; }
  std::size_t operator()(const AckOnly&) const { return 0; }
};

// 128 random bits: who knows the name of a session may take over its KV.
std::string new_session_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", static_cast<unsigned>(random()));
    id += part;
  }
  return id;
}

// The way out of one stream. Closing it waits for a sink that runs.
class StreamSink final {
 public:
  explicit StreamSink(VerifyEngine::EventSink sink) : sink_(std::move(sink)) {}

  void emit(VerifierEvent event) {
    const std::lock_guard lock(mu_);
    if (!closed_) sink_(std::move(event));
  }
  void close() {
    const std::lock_guard lock(mu_);
    closed_ = true;
  }

 private:
  std::mutex mu_;
  bool closed_ = false;
  VerifyEngine::EventSink sink_;
};

struct Connect {
  std::string session_id;
};
struct Disconnect {};
struct Drain {};
struct Overflow {};

struct Input {
  StreamId stream;
  std::variant<Connect, EdgeMessage, Disconnect, Drain, Overflow> what;
};

}  // namespace

struct VerifyEngine::Core {
  struct Stream {
    std::shared_ptr<StreamSink> sink;
    std::shared_ptr<ExitReportChannel>
        lane;  // of the pass in work and those before; null: none yet
    std::size_t waiting_messages = 0;
    std::size_t waiting_bytes = 0;
    bool overflowed = false;
  };

  Core(Model& model, const SchedulerOptions& options, Clock& its_clock)
      : clock(its_clock), scheduler(model, options) {}

  void push(Input input);
  void enqueue(StreamId stream, EdgeMessage message);
  void note_acknowledgement(StreamId stream, const EdgeMessage& message);
  bool supersede_acknowledgement(StreamId stream, const EdgeMessage& message);
  void run();
  void run_reports();
  bool await_work(std::vector<Input>& taken);
  void apply(Input& input);
  void open_lane(StreamId stream);
  void send_reports(StreamId stream);
  void deliver();
  void publish();
  void end_all();

  // Constant after construction, or the compute thread's.
  Clock& clock;
  Scheduler scheduler;
  std::thread thread;
  std::thread report_thread;  // runs if the target has exits

  mutable std::mutex mu;  // guards what follows; no sink is called with it held
  std::condition_variable wake;
  std::condition_variable rested;
  std::condition_variable room;
  std::vector<StreamId> with_room;  // for the report thread
  std::vector<Input> inbox;
  std::map<StreamId, Stream> streams;
  StreamId next_stream = 1;
  bool working = false;  // the compute thread holds inputs or runs a turn
  bool stopping = false;
  SchedulerStats stats;
};

VerifyEngine::VerifyEngine(Model& model, const SchedulerOptions& options, Clock& clock)
    : core_(std::make_unique<Core>(model, options, clock)) {
  core_->thread = std::thread([core = core_.get()] { core->run(); });
  if (options.exits == nullptr) return;
  core_->report_thread = std::thread([core = core_.get()] { core->run_reports(); });
}

VerifyEngine::~VerifyEngine() {
  {
    const std::lock_guard lock(core_->mu);
    core_->stopping = true;
  }
  core_->wake.notify_one();
  core_->room.notify_one();
  if (core_->report_thread.joinable()) core_->report_thread.join();
  core_->thread.join();
}

StreamId VerifyEngine::connect(EventSink sink) {
  std::string session_id = new_session_id();
  const std::lock_guard lock(core_->mu);
  const StreamId stream = core_->next_stream++;
  core_->streams[stream].sink = std::make_shared<StreamSink>(std::move(sink));
  core_->push({stream, Connect{std::move(session_id)}});
  return stream;
}

// An edge may acknowledge every verdict of an eager stream, faster than a busy device looks: of
// acknowledgements that wait side by side only the newest counts.
bool VerifyEngine::Core::supersede_acknowledgement(StreamId stream, const EdgeMessage& message) {
  if (!std::holds_alternative<AckOnly>(message.body)) return false;
  const auto last = std::find_if(inbox.rbegin(), inbox.rend(),
                                 [&](const Input& input) { return input.stream == stream; });
  if (last == inbox.rend()) return false;
  auto* waiting = std::get_if<EdgeMessage>(&last->what);
  if (waiting == nullptr || !std::holds_alternative<AckOnly>(waiting->body)) return false;
  *waiting = message;
  return true;
}

void VerifyEngine::post(StreamId stream, EdgeMessage message) {
  core_->note_acknowledgement(stream, message);
  core_->enqueue(stream, std::move(message));
}

// At once, not when the pass is over: the window must open while there is still time to report. A
// wrong one is refused when the message's turn comes.
void VerifyEngine::Core::note_acknowledgement(StreamId stream, const EdgeMessage& message) {
  std::shared_ptr<ExitReportChannel> lane;
  {
    const std::lock_guard lock(mu);
    const auto at = streams.find(stream);
    if (at == streams.end() || !at->second.lane) return;
    lane = at->second.lane;
  }
  if (!lane->acknowledge(message.acked_reports, clock.now()).ok()) return;
  lane->settle(message.acked_position);
  if (!lane->waiting()) return;
  const std::lock_guard lock(mu);
  if (std::find(with_room.begin(), with_room.end(), stream) != with_room.end()) return;
  with_room.push_back(stream);
  room.notify_one();
}

// The report thread: sends what an acknowledgement made room for, so that no sink runs on the
// thread that posts.
void VerifyEngine::Core::run_reports() {
  std::vector<StreamId> taken;
  while (true) {
    {
      std::unique_lock lock(mu);
      room.wait(lock, [&] { return stopping || !with_room.empty(); });
      if (stopping) return;
      taken.swap(with_room);
    }
    for (const StreamId stream : taken) send_reports(stream);
    taken.clear();
  }
}

void VerifyEngine::Core::enqueue(StreamId stream, EdgeMessage message) {
  const std::size_t bytes = sizeof(Input) + std::visit(SizeOfBody{}, message.body);
  const std::lock_guard lock(mu);
  const auto at = streams.find(stream);
  if (at == streams.end() || at->second.overflowed) return;
  if (supersede_acknowledgement(stream, message)) return;
  Stream& entry = at->second;
  entry.waiting_messages += 1;
  entry.waiting_bytes += bytes;
  entry.overflowed = entry.waiting_messages > kInboxMessages || entry.waiting_bytes > kInboxBytes;
  if (!entry.overflowed) return push({stream, std::move(message)});
  std::erase_if(inbox, [&](const Input& input) {
    return input.stream == stream && std::holds_alternative<EdgeMessage>(input.what);
  });
  push({stream, Overflow{}});
}

void VerifyEngine::disconnect(StreamId stream) {
  std::shared_ptr<StreamSink> sink;
  {
    const std::lock_guard lock(core_->mu);
    const auto at = core_->streams.find(stream);
    if (at == core_->streams.end()) return;
    sink = std::move(at->second.sink);
    core_->streams.erase(at);
    core_->push({stream, Disconnect{}});
  }
  sink->close();
}

void VerifyEngine::drain() {
  const std::lock_guard lock(core_->mu);
  core_->push({0, Drain{}});
}

bool VerifyEngine::wait_until_idle(Duration at_most) {
  std::unique_lock lock(core_->mu);
  return core_->rested.wait_for(lock, at_most, [&] {
    return !core_->working && core_->inbox.empty() && core_->stats.sessions_open == 0;
  });
}

SchedulerStats VerifyEngine::stats() const {
  const std::lock_guard lock(core_->mu);
  return core_->stats;
}

// With mu held.
void VerifyEngine::Core::push(Input input) {
  inbox.push_back(std::move(input));
  wake.notify_one();
}

void VerifyEngine::Core::run() {
  std::vector<Input> taken;
  while (await_work(taken)) {
    for (Input& input : taken) apply(input);
    taken.clear();
    scheduler.tick(clock.now());
    const bool turn = scheduler.start(clock.now());
    deliver();  // Started leaves before the device works
    if (turn) {
      open_lane(scheduler.last_served());
      scheduler.compute([this](StreamId stream) { send_reports(stream); });
      scheduler.finish(clock.now());
      deliver();
    }
    publish();
  }
  end_all();
}

// Blocks until there are inputs, a session's time has come, or the end: then false.
bool VerifyEngine::Core::await_work(std::vector<Input>& taken) {
  const std::optional<TimePoint> wake_at = scheduler.wake_at();
  const auto awake = [&] { return stopping || !inbox.empty(); };
  std::unique_lock lock(mu);
  if (wake_at) {
    wake.wait_for(lock, *wake_at - clock.now(), awake);
  } else {
    wake.wait(lock, awake);
  }
  if (stopping) return false;
  working = true;
  taken.swap(inbox);
  for (auto& [id, stream] : streams) stream.waiting_messages = stream.waiting_bytes = 0;
  return true;
}

void VerifyEngine::Core::apply(Input& input) {
  const TimePoint now = clock.now();
  if (auto* connect = std::get_if<Connect>(&input.what)) {
    scheduler.connect(input.stream, std::move(connect->session_id), now);
  } else if (const auto* message = std::get_if<EdgeMessage>(&input.what)) {
    scheduler.receive(input.stream, *message, now);
  } else if (std::holds_alternative<Disconnect>(input.what)) {
    scheduler.disconnect(input.stream);
  } else if (std::holds_alternative<Drain>(input.what)) {
    scheduler.drain();
  } else {
    scheduler.end_stream(
        input.stream, resource_exhausted("messages come faster than they can be taken; at most " +
                                         std::to_string(kInboxMessages) + " may wait"));
  }
}

// Acknowledgements that come during the stream's pass find its lane from here on.
void VerifyEngine::Core::open_lane(StreamId stream) {
  std::shared_ptr<ExitReportChannel> lane = scheduler.lane(stream);
  if (!lane) return;
  const std::lock_guard lock(mu);
  if (const auto at = streams.find(stream); at != streams.end()) at->second.lane = std::move(lane);
}

// On the compute thread when there is something to say, on the report thread when there is room.
void VerifyEngine::Core::send_reports(StreamId stream) {
  std::shared_ptr<StreamSink> sink;
  std::shared_ptr<ExitReportChannel> lane;
  {
    const std::lock_guard lock(mu);
    const auto at = streams.find(stream);
    if (at == streams.end() || !at->second.lane) return;
    sink = at->second.sink;
    lane = at->second.lane;
  }
  lane->send(clock, [&](const ExitReport& report) { sink->emit(ServerMessage(report)); });
}

void VerifyEngine::Core::deliver() {
  for (StreamEvent& event : scheduler.take_events()) {
    const bool last = std::holds_alternative<StreamEnded>(event.event);
    std::shared_ptr<StreamSink> sink;
    {
      const std::lock_guard lock(mu);
      const auto at = streams.find(event.stream);
      if (at == streams.end()) continue;
      sink = at->second.sink;
    }
    sink->emit(std::move(event.event));
    if (last) {  // erased only now, so that a disconnect() meanwhile waits for the sink
      const std::lock_guard lock(mu);
      streams.erase(event.stream);
    }
  }
}

void VerifyEngine::Core::publish() {
  const std::lock_guard lock(mu);
  stats = scheduler.stats();
  working = false;
  if (stats.sessions_open == 0) rested.notify_all();
}

void VerifyEngine::Core::end_all() {
  std::map<StreamId, Stream> left;
  {
    const std::lock_guard lock(mu);
    left.swap(streams);
  }
  for (auto& [id, stream] : left) {
    stream.sink->emit(StreamEnded{unavailable("this verifier has shut down")});
  }
}

}  // namespace outrider
