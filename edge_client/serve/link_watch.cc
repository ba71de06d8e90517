// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/link_watch.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "edge_client/failover/failover_session.h"

namespace outrider {
namespace {

// A server that does not greet for so long is out of reach.
constexpr Duration kPatience = std::chrono::seconds(2);

// A server counts as silent after four usual gaps between messages (LinkMonitor), and not before
// this.
constexpr Duration kShortestSilence = std::chrono::seconds(2);
constexpr Duration kLongestPatience = std::chrono::seconds(10);

}  // namespace

LinkWatch::LinkWatch(Mode mode, LinkProbe* probe, const Clock& clock)
    : mode_(mode),
      probe_(mode == Mode::kOffline ? nullptr : probe),
      clock_(clock),
      link_(mode == Mode::kOffline ? LinkState::kNone : LinkState::kUnknown),
      monitor_({.first_patience = kLongestPatience}) {}

LinkWatch::~LinkWatch() {
  if (probe_ != nullptr) probe_->stop();
}

void LinkWatch::on_connect(const Connect& connect) {
  const MutexLock lock(mu_);
  // The answer's next stream to a server: it has given up the one before, perhaps for its silence.
  const bool again = answering_ && stream_.route == Route::kOnline;
  if (again && connect.route == Route::kOnline) learn(LinkState::kDegraded);
  stream_ = connect;
  answering_ = true;
  has_decided_ = false;
  monitor_.on_stream(clock_.now());
  if (connect.route == Route::kOffline) learn(LinkState::kOffline);
}

void LinkWatch::on_event(const SessionEvent& event) {
  const MutexLock lock(mu_);
  if (const auto* probed = std::get_if<LinkProbed>(&event)) {
    return learn(probed->good ? LinkState::kOnline : LinkState::kOffline);
  }
  const auto* said = std::get_if<FromVerifier>(&event);
  if (said != nullptr && said->epoch == stream_.epoch) note_target(said->event);
  if (said == nullptr || stream_.route == Route::kOffline || said->epoch != stream_.epoch) return;
  const auto* ended = std::get_if<StreamEnded>(&said->event);
  if (ended == nullptr) {
    monitor_.on_heard(clock_.now());
    note_verdict(said->event);
    return learn(LinkState::kOnline);
  }
  if (!ended->status.ok() && may_pass(ended->status)) learn(LinkState::kDegraded);
}

void LinkWatch::note_target(const VerifierEvent& event) {
  const auto* message = std::get_if<ServerMessage>(&event);
  const auto* opened = message != nullptr ? std::get_if<Opened>(message) : nullptr;
  if (opened != nullptr) target_ = opened->model_name;
}

void LinkWatch::note_verdict(const VerifierEvent& event) {
  const auto* message = std::get_if<ServerMessage>(&event);
  const auto* verdict = message != nullptr ? std::get_if<Verdict>(message) : nullptr;
  if (verdict == nullptr) return;
  has_decided_ = true;
  monitor_.on_verdict(verdict->tokens.size(), clock_.now());
}

// Before its first verdict a server may compute other sessions' passes for long; then only the
// connection's own limits hold. Where another target stands by, that one's rules decide.
bool LinkWatch::is_silent() const {
  if (mode_ != Mode::kOnline || !answering_ || !has_decided_) return false;
  const Duration silence = clock_.now() - monitor_.heard();
  return silence > std::max(monitor_.patience(), kShortestSilence);
}

void LinkWatch::notice_silence() {
  if (link_ == LinkState::kOnline && is_silent()) learn(LinkState::kDegraded);
}

std::optional<Duration> LinkWatch::silence() {
  const MutexLock lock(mu_);
  if (!is_silent()) return std::nullopt;
  return clock_.now() - monitor_.heard();
}

std::string LinkWatch::target() {
  const MutexLock lock(mu_);
  return target_;
}

void LinkWatch::on_finish(const Finish& finish) {
  const MutexLock lock(mu_);
  answering_ = false;
  lost_since_.reset();
  if (finish.ending == Ending::kLinkLost) learn(LinkState::kOffline);
}

LinkWatch::View LinkWatch::look() {
  look_fresh({});
  const MutexLock lock(mu_);
  return view();
}

void LinkWatch::look_fresh(std::function<void(const View&)> done) {
  const bool due = is_probe_due();
  std::optional<View> known;
  {
    const MutexLock lock(mu_);
    notice_silence();
    if (done && probing_) {
      waiting_.push_back(std::move(done));
    } else if (done) {
      known = view();
    }
  }
  if (known) done(*known);
  // Outside the lock: the probe has its own, under which it calls back.
  if (due) probe_->probe(kPatience, [this](const LinkProbed& probed) { on_probed(probed); });
}

LinkWatch::View LinkWatch::view() const {
  return {.link = link_,
          .device_decides = mode_ == Mode::kOffline || stream_.route == Route::kOffline,
          .can_answer = mode_ != Mode::kOnline || link_ == LinkState::kOnline};
}

std::optional<TimePoint> LinkWatch::lost_since() {
  const MutexLock lock(mu_);
  notice_silence();
  return mode_ == Mode::kOnline ? lost_since_ : std::nullopt;
}

bool LinkWatch::is_probe_due() {
  const MutexLock lock(mu_);
  const bool old = !learnt_at_ || clock_.now() - *learnt_at_ >= kFresh;
  if (probe_ == nullptr || answering_ || probing_ || !old) return false;
  probing_ = true;
  return true;
}

// A newer finding of an answer counts more.
void LinkWatch::on_probed(const LinkProbed& probed) {
  std::vector<std::function<void(const View&)>> waiting;
  View now;
  {
    const MutexLock lock(mu_);
    probing_ = false;
    if (!answering_) learn(probed.good ? LinkState::kOnline : LinkState::kOffline);
    waiting.swap(waiting_);
    now = view();
  }
  for (const auto& done : waiting) done(now);
}

void LinkWatch::learn(LinkState link) {
  if (mode_ == Mode::kOffline) return;
  link_ = link;
  learnt_at_ = clock_.now();
  const bool lost = link == LinkState::kDegraded || link == LinkState::kOffline;
  if (!lost || !answering_) {
    lost_since_.reset();
  } else if (!lost_since_) {
    lost_since_ = learnt_at_;
  }
}

}  // namespace outrider
