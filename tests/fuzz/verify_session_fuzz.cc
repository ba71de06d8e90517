// Any sequence of messages of two edges, with the real scheduler, sessions and exit reports: no
// crash, bounded state, and every answer is the target's own text. Exit reports are acknowledged
// between passes and during them. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/decoding/verify/scheduling/scheduler.h"
#include "sim/sim_server.h"
#include "tests/sim/toy_exits.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

// The input as small numbers; zeros when it is used up.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : next_(data), end_(data + size) {}
  bool empty() const { return next_ == end_; }
  std::uint8_t byte() { return next_ == end_ ? std::uint8_t{0} : *next_++; }
  // Almost always below `count`, sometimes just beyond.
  std::uint32_t index(std::uint32_t count) {
    const std::uint8_t value = byte();
    return value == 255 ? count : value % count;
  }
  // Mostly near zero, sometimes at an end of the range.
  std::int64_t number() {
    const std::uint8_t value = byte();
    if (value < 250) return static_cast<std::int64_t>(value) - 4;
    return value % 2 == 0 ? INT64_MAX - (value - 250) : INT64_MIN + (value - 250);
  }

 private:
  const std::uint8_t* next_;
  const std::uint8_t* end_;
};

Policy read_policy(Bytes& bytes) {
  Policy policy{.pass_policy = static_cast<PassPolicy>(bytes.index(2)),
                .patience = Duration{bytes.byte() < 250 ? 0 : bytes.number()}};
  const std::uint8_t value = bytes.byte();
  policy.row_limit = static_cast<std::uint32_t>(value % 5);
  policy.wants_exits = value % 2 == 1;
  return policy;
}

Open read_open(Bytes& bytes) {
  Open open;
  for (std::uint32_t left = bytes.index(8); left > 0; --left) {
    open.prefix.push_back(static_cast<TokenId>(bytes.index(8)));
  }
  open.end_position = bytes.byte() < 200 ? 60 : bytes.number();
  open.policy = read_policy(bytes);
  open.sampling.temperature = bytes.byte() < 250 ? static_cast<float>(bytes.byte() % 2) : -1.0f;
  open.seed = bytes.byte();
  if (bytes.byte() % 4 == 0) open.stop_ids = {static_cast<TokenId>(bytes.number())};
  if (bytes.byte() % 4 == 0) open.replaced_session = std::to_string(bytes.byte() % 8);
  return open;
}

// The next message of an honest edge, and the target's choices from there on.
struct Honest {
  NodeId next_id = 1;
  Position end = 0;
  std::vector<TokenId> choices;
};

Grow read_grow(Bytes& bytes, const Honest& honest) {
  Grow grow;
  grow.first_id = bytes.byte() < 250 ? honest.next_id : static_cast<NodeId>(bytes.number());
  const std::uint8_t anchor = bytes.byte();
  grow.anchor_position = anchor < 250 ? honest.end - anchor / 100 : bytes.number();
  for (std::uint32_t left = bytes.index(12); left > 0; --left) {
    const std::size_t depth = grow.nodes.size();
    const bool right = depth < honest.choices.size() && bytes.byte() % 4 != 0;
    grow.nodes.push_back(
        {.token = right ? honest.choices[depth] : static_cast<TokenId>(bytes.index(8)),
         .parent = right && depth > 0       ? 1
                   : bytes.byte() % 16 == 0 ? bytes.index(70)
                                            : 0,
         .confidence = bytes.byte()});
  }
  return grow;
}

class FuzzedSession {
 public:
  explicit FuzzedSession(Bytes bytes) : bytes_(bytes), scheduler_(device_, options()) {}

  void run() {
    while (!bytes_.empty()) {
      step();
      clock_.advance(from_ms(bytes_.byte()));
      scheduler_.tick(clock_.now());
      if (scheduler_.start(clock_.now())) {
        run_pass();
        scheduler_.finish(clock_.now());
        for (const StreamId stream : scheduler_.last_served()) check(stream);
      }
      scheduler_.take_events();
    }
  }

 private:
  // The exit reports of its stream that an edge has received.
  struct Reports {
    std::shared_ptr<ExitReportChannel> channel;
    std::uint32_t last = 0;  // ExitReport.seq
  };

  SchedulerOptions options() {
    SchedulerOptions options;
    options.max_concurrent_sessions = 2;
    options.kv.kept = 1;
    options.prefill_chunk = 3;
    options.max_rows = 6;
    options.run_ahead = 20;
    options.exits = &exits_;
    return options;
  }

  // Each exit reports in its turn; in between the edge may acknowledge what it has received.
  void run_pass() {
    device_.forget();
    scheduler_.compute();
    for (std::size_t i = 0; i < device_.layers(); ++i) {
      device_.show(i);
      clock_.advance(from_ms(bytes_.byte() % 8));
      for (const StreamId stream : scheduler_.last_served()) {
        if (bytes_.byte() % 2 != 0) continue;
        const Reports& reports = reports_.at(stream);
        reports.channel->acknowledge({.acked_reports = reports.last, .body = AckOnly{}});
      }
    }
  }

  void step() {
    const StreamId stream = 1 + bytes_.byte() % (newest_ + 1);
    const Honest honest = honest_edge(stream);
    const std::uint8_t acked = bytes_.byte();
    EdgeMessage message{.acked_position = acked < 250 ? honest.end : bytes_.number(),
                        .acked_reports = read_acked_reports(stream, acked),
                        .body = AckOnly{}};
    switch (bytes_.byte() % 16) {
      case 0:
        return open_stream();
      case 1:
        if (bytes_.byte() % 8 == 0) message.body = read_open(bytes_);
        break;
      case 2:
        message.body = read_policy(bytes_);
        break;
      case 3:
        if (bytes_.byte() % 8 == 0) message.body = Cancel{};
        break;
      case 4:
        if (bytes_.byte() % 8 == 0) return scheduler_.disconnect(stream);
        break;
      default:
        message.body = read_grow(bytes_, honest);
    }
    receive(stream, message);
  }

  // Mostly all received reports, sometimes half of them or none, and rarely one that was never
  // sent.
  std::uint32_t read_acked_reports(StreamId stream, std::uint8_t value) {
    const auto at = reports_.find(stream);
    const std::uint32_t last = at == reports_.end() ? 0 : at->second.last;
    if (value == 249) return last + 1;
    return value < 200 ? last : value < 225 ? last / 2 : 0;
  }

  void receive(StreamId stream, const EdgeMessage& message) {
    const auto at = reports_.find(stream);
    const bool wrong = at != reports_.end() && message.acked_reports > at->second.last;
    if (at != reports_.end()) at->second.channel->acknowledge(message);
    scheduler_.receive(stream, message, clock_.now());
    OUTRIDER_CHECK(!wrong || scheduler_.session(stream) == nullptr);
    check(stream);
  }

  void on_report(StreamId stream, const ExitReport& report) {
    OUTRIDER_CHECK(report.seq == ++reports_.at(stream).last);
    OUTRIDER_CHECK(report.exit >= 0 &&
                   static_cast<std::size_t>(report.exit) < exits_.layers().size());
    OUTRIDER_CHECK(report.next_token >= 0 && report.next_token < model_.info().vocab_size);
    const VerifySession* session = scheduler_.session(stream);
    OUTRIDER_CHECK(session != nullptr && report.leaf_id < session->tree().ids().next_id());
  }

  void open_stream() {
    if (newest_ == 50) return;
    ++newest_;
    auto channel = std::make_shared<ExitReportChannel>(
        ReportQueue::kGain,
        [this, stream = newest_](const ExitReport& report) { on_report(stream, report); });
    reports_[newest_].channel = channel;
    scheduler_.connect(newest_, std::to_string(newest_), clock_.now(),
                       {.reports = std::move(channel)});
    if (bytes_.byte() % 8 == 0) return;
    receive(newest_, {.body = read_open(bytes_)});
  }

  Honest honest_edge(StreamId stream) const {
    const VerifySession* session = scheduler_.session(stream);
    if (session == nullptr) return {};
    const MirroredTree& tree = session->tree();
    std::vector<TokenId> text = model_.decode(tree.text(), tree.end() + 4,
                                              session->opened().sampling, session->opened().seed);
    text.erase(text.begin(), text.begin() + tree.end());
    return {.next_id = tree.ids().next_id(), .end = tree.end(), .choices = std::move(text)};
  }

  void check(StreamId stream) {
    const VerifySession* session = scheduler_.session(stream);
    if (session == nullptr) return;
    const MirroredTree& tree = session->tree();
    OUTRIDER_CHECK(tree.ids().living().size() <= 64 && tree.index_limit() <= 64);
    OUTRIDER_CHECK(tree.ids().runs() <= 4 * tree.text().size() + 4096 + 64);
    OUTRIDER_CHECK(scheduler_.stats().texts_kept <= 1 && scheduler_.stats().sessions_open <= 2);
    const auto prefix = tree.text().first(session->usage().prompt_tokens);
    const std::vector<TokenId> expected =
        model_.decode(prefix, tree.end(), session->opened().sampling, session->opened().seed);
    OUTRIDER_CHECK(
        std::equal(expected.begin(), expected.end(), tree.text().begin(), tree.text().end()));
  }

  Bytes bytes_;
  ManualClock clock_;
  ToyModel model_{8, 64};
  ToyExits exits_{model_};
  DeferredModel device_{model_};
  Scheduler scheduler_;
  std::map<StreamId, Reports> reports_;
  StreamId newest_ = 0;
};

}  // namespace
}  // namespace outrider

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  outrider::FuzzedSession(outrider::Bytes(data, size)).run();
  return 0;
}
