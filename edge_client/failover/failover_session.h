// An answer that two verifiers share: a server's while the link carries it, this device's else.
// Stands between the decoding session and the loop that drives it: the session knows of no second
// verifier, only that a stream is over and the next one opens at once (Reopen). The committed text
// is the state (L3), so the change is exact between any two commits.
//
//   loop --events--> FailoverSession --events, Reopen--> DecodingSession
//   loop <--Connect{route}, ProbeLink, StandBy, Say-- FailoverSession <--actions-- DecodingSession
//
// Decides with link_monitor.h (is the server lost?), failback_rule.h (may it decide again?) and
// standby.h. Events of a lost link are recognised by their epoch.
//
// Thread rule: pure; one thread. session and memory outlive it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "common/base/status.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/failover/failover_options.h"
#include "edge_client/failover/link_monitor.h"
#include "edge_client/failover/standby.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/session/events.h"

namespace outrider {

// Whether another stream to the server may do better than the one that ended so.
bool may_pass(const Status& ended);

// Why this device's target and the server's may not go on with each other's text; empty if they
// may.
std::string difference(const FailoverSetup& setup, const Opened& server);

class FailoverSession final : public AnswerSession {
 public:
  FailoverSession(FailoverSetup setup, DecodingSession& session, FailoverMemory& memory);

  SessionActions start(TimePoint now) override;
  SessionActions handle(const SessionEvent& event, TimePoint now) override;
  TimePoint next_tick() const override;

  const FailoverFigures& figures() const { return figures_; }
  // For the next turn, by route; empty: there was none.
  const std::array<std::string, 2>& session_ids() const { return sessions_; }

 private:
  template <typename Event>
  void on(const Event& event) {
    take(session_.handle(event, now_));
  }
  void on(const Tick& event);
  void on(const FromVerifier& event);
  void on(const LinkProbed& event);
  void on(const OnlineForbidden& event);

  void on_ended(const StreamEnded& ended, const FromVerifier& event);
  // True if the target that opened is not taken.
  bool refuses(const Opened& opened);
  void on_verdict(const Verdict& verdict);
  void review();

  bool may_use(Route route) const;
  void change_route(Route route, const std::string& why);
  void end_stretch();
  void take(SessionActions actions);
  void complete(Open& open);
  void say(const std::string& line);
  std::string& session_id(Route route) { return sessions_[static_cast<std::size_t>(route)]; }

  const FailoverSetup setup_;
  DecodingSession& session_;
  FailoverMemory& memory_;
  LinkMonitor monitor_;
  Standby standby_;
  std::array<std::string, 2> sessions_;
  FailoverFigures figures_;

  std::optional<std::string> offline_off_;  // why this device's target is of no use here
  bool refused_ = false;                    // the server ends every stream of this answer
  Route began_with_ = Route::kOnline;       // of the stream that opened last
  bool has_opened_ = false;                 // one has
  bool offline_text_ = false;               // this device decided some of the answer

  // These belong to the stream that is open.
  std::uint32_t epoch_ = 0;
  bool opened_ = false;
  bool pass_runs_ = false;
  Open open_;
  std::optional<TimePoint> silent_since_;  // of a server that works ahead, and was left for that
  // These belong to the stretch on this route.
  TimePoint since_{};
  std::size_t tokens_ = 0;

  bool finished_ = false;
  TimePoint now_{};  // of the event being handled
  SessionActions actions_;
};

}  // namespace outrider
