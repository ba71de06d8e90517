// What the verifier says of its passes: each message is checked against the stream, told to the
// speculator and the observers, and what a verdict decided is committed to the answer.
//
// Thread rule: owned by the session, as is what it refers to. Errors: what the checks of
// message_checks.h say; then nothing was committed. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/drafting/drafter.h"
#include "common/protocol/messages.h"
#include "edge_client/metrics/session_observer.h"
#include "edge_client/session/answer.h"
#include "edge_client/session/message_checks.h"
#include "edge_client/session/outbox.h"
#include "edge_client/session/stream_state.h"
#include "edge_client/speculation/speculator.h"

namespace outrider {

// The session's.
struct PassContext {
  const Drafter& drafter;
  const Opened& opened;
  StreamState& stream;
  Answer& answer;
  Speculator& speculator;
  const ObserverList& observers;
  Outbox& outbox;
};

class PassHandler final {
 public:
  explicit PassHandler(const PassContext& context)
      : context_(context), evicted_before_(context.drafter.evicted()) {}

  Status on_started(const Started& started, TimePoint now);
  // Returns how the answer ends, if it ends with this verdict.
  Result<std::optional<Ending>> on_verdict(const Verdict& verdict, TimePoint now);
  void on_exit_report(const ExitReport& report, TimePoint now);

  // What is known of the stream, for checks.
  StreamView view() const;

 private:
  std::optional<Ending> commit(const Verdict& verdict, TimePoint now);

  const PassContext context_;
  const std::uint64_t evicted_before_;  // by the drafter, in answers before
};

}  // namespace outrider
