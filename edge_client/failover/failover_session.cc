// SPDX-License-Identifier: Apache-2.0
#include "edge_client/failover/failover_session.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace outrider {
namespace {

Route other(Route route) {
  return route == Route::kOnline ? Route::kOffline : Route::kOnline;
}

}  // namespace

bool may_pass(const Status& ended) {
  const StatusCode code = ended.code();
  return ended.ok() || code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded ||
         code == StatusCode::kResourceExhausted;
}

std::string difference(const FailoverSetup& setup, const Opened& server) {
  if (setup.other_model) return {};
  if (server.fingerprint != setup.fingerprint) {
    return "the server's target is another model (fingerprint " + server.fingerprint +
           ") than --target (" + setup.fingerprint +
           "); a model that may differ is named with --offline-target";
  }
  if (!setup.options.strict_target || server.arithmetic_id == setup.arithmetic_id) return {};
  return "the server computes with arithmetic id " + server.arithmetic_id + ", this device with " +
         setup.arithmetic_id + ", and --strict-target wants the same bits";
}

FailoverSession::FailoverSession(FailoverSetup setup, DecodingSession& session,
                                 FailoverMemory& memory)
    : setup_(std::move(setup)),
      session_(session),
      memory_(memory),
      monitor_(setup_.options.link),
      standby_(setup_.options.standby_lag),
      sessions_(setup_.replaced) {}

SessionActions FailoverSession::start(TimePoint now) {
  now_ = since_ = now;
  if (memory_.forbidden) memory_.route = Route::kOffline;
  if (memory_.route == Route::kOffline) memory_.failback.on_offline(now);
  take(session_.start(now));
  return std::exchange(actions_, {});
}

SessionActions FailoverSession::handle(const SessionEvent& event, TimePoint now) {
  now_ = now;
  if (!finished_) std::visit([this](const auto& e) { on(e); }, event);
  if (!session_.decided()) review();
  return std::exchange(actions_, {});
}

TimePoint FailoverSession::next_tick() const {
  TimePoint next = session_.next_tick();
  if (session_.decided() || !may_use(other(memory_.route))) return next;
  const bool online = memory_.route == Route::kOnline;
  return std::min(next, online ? monitor_.silent_at() : memory_.failback.next_probe());
}

// --- events -------------------------------------------------------------------------------------

void FailoverSession::on(const Tick& event) {
  const bool silent = memory_.route == Route::kOnline && now_ >= monitor_.silent_at();
  if (silent && !session_.decided() && may_use(Route::kOffline)) {
    if (open_.policy.pass_policy == PassPolicy::kEager) silent_since_ = monitor_.heard();
    return change_route(Route::kOffline, fmt::format("the server has said nothing for {:.1f} s",
                                                     to_seconds(monitor_.patience())));
  }
  take(session_.handle(event, now_));
}

void FailoverSession::on(const LinkProbed& event) {
  const Duration limit = setup_.options.link.max_round_trip;
  const bool good = event.good && (limit == Duration{0} || event.took <= limit);
  if (good && silent_since_) monitor_.on_outage(now_ - *std::exchange(silent_since_, std::nullopt));
  memory_.failback.on_probe(good, event.took, now_);
}

void FailoverSession::on(const OnlineForbidden& event) {
  memory_.forbidden = event.why;
  if (memory_.route == Route::kOnline && !session_.decided() && may_use(Route::kOffline)) {
    change_route(Route::kOffline, event.why);
  }
}

void FailoverSession::on(const FromVerifier& event) {
  if (Standby::owns(event.epoch)) {
    const auto* message = std::get_if<ServerMessage>(&event.event);
    const auto* opened = message != nullptr ? std::get_if<Opened>(message) : nullptr;
    if (opened != nullptr) session_id(Route::kOffline) = opened->session_id;
    if (const auto broken = standby_.on(event)) say("standby: off because " + broken->message());
    return;
  }
  if (event.epoch != epoch_) return;
  if (const auto* ended = std::get_if<StreamEnded>(&event.event)) return on_ended(*ended, event);
  const auto& message = std::get<ServerMessage>(event.event);
  if (memory_.route == Route::kOnline) monitor_.on_heard(now_);
  if (const auto* opened = std::get_if<Opened>(&message); opened != nullptr && refuses(*opened)) {
    return;
  }
  if (std::holds_alternative<Started>(message)) pass_runs_ = true;
  take(session_.handle(event, now_));
  if (const auto* verdict = std::get_if<Verdict>(&message)) on_verdict(*verdict);
}

void FailoverSession::on_ended(const StreamEnded& ended, const FromVerifier& event) {
  const Route next = other(memory_.route);
  if (session_.decided() || !may_use(next)) return take(session_.handle(event, now_));
  const std::string why =
      ended.status.ok() ? "the server closed the stream" : ended.status.message();
  if (memory_.route == Route::kOffline) {
    offline_off_ = why;
  } else if (!may_pass(ended.status)) {
    refused_ = true;
  }
  change_route(next, why);
}

bool FailoverSession::refuses(const Opened& opened) {
  opened_ = true;
  if (memory_.route == Route::kOnline) {
    if (const std::string why = difference(setup_, opened); !why.empty() && !offline_off_) {
      if (offline_text_) {
        refused_ = true;
        change_route(Route::kOffline, why);
        return true;
      }
      offline_off_ = why;
      say("failover: OFF because " + why);
    }
  }
  session_id(memory_.route) = opened.session_id;
  began_with_ = memory_.route;
  has_opened_ = true;
  return false;
}

void FailoverSession::on_verdict(const Verdict& verdict) {
  pass_runs_ = false;
  tokens_ += verdict.tokens.size();
  const bool online = memory_.route == Route::kOnline;
  (online ? memory_.online_rate : memory_.offline_rate).on_verdict(verdict.tokens.size(), now_);
  if (online) return monitor_.on_verdict(verdict.tokens.size(), now_);
  offline_text_ = true;
  figures_.offline_compute += verdict.timings.computed;
  memory_.failback.on_rates(memory_.online_rate.per_s(), memory_.offline_rate.per_s());
}

// Does the work beside the session that follows any event.
void FailoverSession::review() {
  if (memory_.route == Route::kOnline) {
    if (!may_use(Route::kOffline) || pass_runs_ || !opened_) return;
    const auto slow =
        monitor_.too_slow(memory_.offline_rate.per_s(), session_.stats().round_trips, now_);
    if (slow) return change_route(Route::kOffline, "the link is too slow: " + *slow);
    auto standby = standby_.follow(session_.text(), open_, session_id(Route::kOffline));
    if (standby) actions_.push_back(*std::move(standby));
    if (const auto behind = standby_.too_far_behind()) say("standby: " + *behind);
    return;
  }
  if (!may_use(Route::kOnline)) return;
  FailbackRule& failback = memory_.failback;
  if (failback.due()) {
    return change_route(Route::kOnline, fmt::format("the link has been good for {:.1f} s",
                                                    to_seconds(failback.needed())));
  }
  if (now_ < failback.next_probe()) return;
  failback.on_probe_sent();
  actions_.push_back(ProbeLink{failback.patience()});
}

// --- routes -------------------------------------------------------------------------------------

bool FailoverSession::may_use(Route route) const {
  return route == Route::kOffline ? !offline_off_ : !memory_.forbidden && !refused_;
}

void FailoverSession::change_route(Route route, const std::string& why) {
  end_stretch();
  ++(route == Route::kOffline ? figures_.failovers : figures_.failbacks);
  memory_.route = route;
  standby_.stop();
  const std::size_t token = session_.answer().size();
  say(fmt::format("{}: {}; going on {} at token {}",
                  route == Route::kOffline ? "failover" : "failback", why,
                  route == Route::kOffline ? "offline" : "online", token));
  if (route == Route::kOffline) memory_.failback.on_offline(now_);
  take(session_.handle(Reopen{}, now_));
}

void FailoverSession::end_stretch() {
  const Duration lasted = now_ - since_;
  if (memory_.route == Route::kOffline) {
    figures_.offline_seconds += to_seconds(lasted);
  } else {
    const double here = memory_.offline_rate.per_s().value_or(0) * to_seconds(lasted);
    memory_.failback.on_online_ended(static_cast<double>(tokens_) >= here);
  }
  since_ = now_;
  tokens_ = 0;
}

// --- actions ------------------------------------------------------------------------------------

void FailoverSession::take(SessionActions actions) {
  for (SessionAction& action : actions) {
    if (auto* connect = std::get_if<Connect>(&action)) {
      connect->route = memory_.route;
      epoch_ = connect->epoch;
      opened_ = pass_runs_ = false;
      monitor_.on_stream(now_, memory_.failback.quickest());
      memory_.online_rate.on_stream();
      memory_.offline_rate.on_stream();
    } else if (auto* send = std::get_if<Send>(&action)) {
      if (auto* open = std::get_if<Open>(&send->message.body)) complete(*open);
    } else if (std::holds_alternative<Finish>(action)) {
      finished_ = true;
      end_stretch();
    }
    actions_.push_back(std::move(action));
  }
}

// The session takes the last stream for one of the same verifier.
void FailoverSession::complete(Open& open) {
  open.replaced_session = session_id(memory_.route);
  if (has_opened_ && began_with_ != memory_.route) {
    open.accept_other_arithmetic = !setup_.options.strict_target;
    if (setup_.other_model) {
      open.expected_fingerprint.clear();
      open.expected_arithmetic_id.clear();
    }
  }
  open_ = open;
}

void FailoverSession::say(const std::string& line) {
  actions_.push_back(Say{Say::Level::kWarning, line});
}

}  // namespace outrider
