// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/link_watch.h"

#include <variant>

#include "edge_client/failover/target_rules.h"

namespace outrider {
namespace {

// A server that does not greet for so long is out of reach.
constexpr Duration kPatience = std::chrono::seconds(2);

}  // namespace

LinkWatch::LinkWatch(Mode mode, LinkProbe* probe, const Clock& clock)
    : mode_(mode),
      probe_(mode == Mode::kOffline ? nullptr : probe),
      clock_(clock),
      link_(mode == Mode::kOffline ? LinkState::kNone : LinkState::kUnknown) {}

LinkWatch::~LinkWatch() {
  if (probe_ != nullptr) probe_->stop();
}

void LinkWatch::on_connect(const Connect& connect) {
  const MutexLock lock(mu_);
  stream_ = connect;
  answering_ = true;
  if (connect.route == Route::kOffline) learn(LinkState::kOffline);
}

void LinkWatch::on_event(const SessionEvent& event) {
  const MutexLock lock(mu_);
  if (const auto* probed = std::get_if<LinkProbed>(&event)) {
    return learn(probed->good ? LinkState::kOnline : LinkState::kOffline);
  }
  const auto* said = std::get_if<FromVerifier>(&event);
  if (said == nullptr || stream_.route == Route::kOffline || said->epoch != stream_.epoch) return;
  const auto* ended = std::get_if<StreamEnded>(&said->event);
  if (ended == nullptr) return learn(LinkState::kOnline);
  if (!ended->status.ok() && may_pass(ended->status)) learn(LinkState::kDegraded);
}

void LinkWatch::on_finish(const Finish& finish) {
  const MutexLock lock(mu_);
  answering_ = false;
  if (finish.ending == Ending::kLinkLost) learn(LinkState::kOffline);
}

LinkWatch::View LinkWatch::look() {
  // Outside the lock: the probe has its own, under which it calls back.
  if (is_probe_due()) {
    probe_->probe(kPatience, [this](const LinkProbed& probed) { on_probed(probed); });
  }
  const MutexLock lock(mu_);
  return {.link = link_,
          .device_decides = mode_ == Mode::kOffline || stream_.route == Route::kOffline,
          .can_answer = mode_ != Mode::kOnline || link_ == LinkState::kOnline};
}

bool LinkWatch::is_probe_due() {
  const MutexLock lock(mu_);
  const bool old = !learnt_at_ || clock_.now() - *learnt_at_ >= kFresh;
  if (probe_ == nullptr || answering_ || probing_ || !old) return false;
  probing_ = true;
  return true;
}

// What an answer has learnt since then counts more.
void LinkWatch::on_probed(const LinkProbed& probed) {
  const MutexLock lock(mu_);
  probing_ = false;
  if (!answering_) learn(probed.good ? LinkState::kOnline : LinkState::kOffline);
}

void LinkWatch::learn(LinkState link) {
  if (mode_ == Mode::kOffline) return;
  link_ = link;
  learnt_at_ = clock_.now();
}

}  // namespace outrider
