// The interface between the code that decides one answer and the loops that drive it
// (shell/runner.h, sim/sim_edge.h): events go in, actions come out, both as plain values. A
// loop connects streams to the verifiers of its VerifierRoutes.
//
//   start (handle)* until a Finish
//
// Thread rule: values; an AnswerSession is used by one thread. Ownership: what VerifierRoutes
// refers to outlives those who hold it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/decoding/drafting/draft_step.h"
#include "common/decoding/protocol/link_probe.h"
#include "common/decoding/protocol/verifier.h"
#include "common/engine/sampling/logprobs.h"
#include "edge_client/speculation/speculation_actions.h"

namespace outrider {

// --- in ---------------------------------------------------------------------------------------

// FromVerifier: what the verifier says (verifier.h). Ignored if its epoch is not the last
// Connect's.

struct DraftStepFinished {
  Result<DraftStepDone> result;
};

// The time of next_tick() has come.
struct Tick {};

// The user cancelled.
struct CancelRequested {};

// Another verifier takes over, or this one starts again: the stream is over, and the next one opens
// at once with the committed text.
struct Reopen {
  bool to_other = true;  // the one that SpeculatorOptions::other is for; else drafting goes on
};

// LinkProbed: the result of ProbeLink (link_probe.h).

// The server may not be used any more, in this answer and all later ones.
struct OnlineForbidden {
  std::string why;
};

using SessionEvent = std::variant<FromVerifier, DraftStepFinished, Tick, CancelRequested, Reopen,
                                  LinkProbed, OnlineForbidden>;

// --- out --------------------------------------------------------------------------------------

// Where the verifier is.
enum class Route : std::uint8_t {
  kOnline,   // a server, over a link
  kOffline,  // on this device
};

// Begin a stream to this verifier and end the one before. Its events carry this epoch.
struct Connect {
  std::uint32_t epoch = 0;
  Route route = Route::kOnline;
  std::optional<std::size_t> level = {};  // of an elastic target; nothing: as before
};

// Send this on the stream of the last Connect.
struct Send {
  EdgeMessage message;
};

// Beside the online stream, begin an offline one with this Open. Its events carry this epoch.
struct StandBy {
  std::uint32_t epoch = 0;
  EdgeMessage open;
};

// Test whether the server can be reached. One LinkProbed follows; one probe runs at a time.
struct ProbeLink {
  Duration patience{0};
};

// Committed tokens, in order, each with the text that it completes. The text may be empty: for half
// a character, a special token, or text that is held back because a stop string may begin there.
struct Emit {
  struct Token {
    TokenId id = 0;
    bool drafted = false;  // the draft guessed it; else it is the target's own
    std::string text;
    std::optional<TokenLogprobs> logprobs = {};  // where they were asked for
  };
  std::vector<Token> tokens;
  // With the first: of the prompt's tokens but its first one, where they were asked for.
  std::vector<TokenLogprobs> prompt_logprobs = {};
};

enum class Ending : std::uint8_t {
  kStopToken,
  kStopString,
  kLength,       // as many tokens as were asked for
  kContextFull,  // as many as the target's context holds
  kCancelled,
  kLinkLost,  // the verifier stayed away for longer than the reconnect timeout
  kFailed,    // refused, or the verifier broke the protocol
};

template <>
inline constexpr auto enum_names<Ending> =
    std::to_array<EnumName<Ending>>({{Ending::kStopToken, "stop_token"},
                                     {Ending::kStopString, "stop_string"},
                                     {Ending::kLength, "length"},
                                     {Ending::kContextFull, "context_full"},
                                     {Ending::kCancelled, "cancelled"},
                                     {Ending::kLinkLost, "link_lost"},
                                     {Ending::kFailed, "failed"}});

// How the text would continue if the draft's likeliest guesses were right. Replaces the last one,
// and disappears with the next Emit. Empty: there is none.
struct Provisional {
  std::string text;
  bool by_deadline = false;  // given once, to be used: with what is committed, the answer so far
  bool whole = false;        // the draft came to the answer's end
};

// The target computes a long prompt: `done` of `total` positions.
struct PrefillProgress {
  Position done = 0;
  Position total = 0;
};

// The answer is over; nothing follows. status says why if it is kLinkLost or kFailed.
struct Finish {
  Ending ending = Ending::kFailed;
  Status status;
};

// RunDraftStep, AbandonDraftStep and Say are speculation's (speculation_actions.h).
using SessionAction = std::variant<Connect, Send, RunDraftStep, AbandonDraftStep, Emit, Say,
                                   Provisional, PrefillProgress, Finish, StandBy, ProbeLink>;
using SessionActions = std::vector<SessionAction>;

// --- the interface ------------------------------------------------------------------------------

class AnswerSession {
 public:
  virtual ~AnswerSession() = default;
  AnswerSession(const AnswerSession&) = delete;
  AnswerSession& operator=(const AnswerSession&) = delete;

  virtual SessionActions start(TimePoint now) = 0;
  virtual SessionActions handle(const SessionEvent& event, TimePoint now) = 0;
  // When to send a Tick; TimePoint::max() if none is needed.
  virtual TimePoint next_tick() const = 0;

 protected:
  AnswerSession() = default;
};

// The verifiers that a loop connects streams to.
struct VerifierRoutes {
  // One verifier, online or offline.
  VerifierRoutes(Verifier& only) : online(&only), offline(&only) {}  // NOLINT: meant to convert
  VerifierRoutes(Verifier& server, Verifier& device, LinkProbe& link)
      : online(&server), offline(&device), probe(&link) {}

  Verifier& at(Route route) const { return route == Route::kOnline ? *online : *offline; }

  Verifier* online;
  Verifier* offline;
  LinkProbe* probe = nullptr;  // null: nothing probes the link
  // Why the server may not be used any more; nothing while it may. An empty function: it always
  // may.
  std::function<std::optional<std::string>()> forbidden = {};
  // Between two streams: from now on this level of the elastic target decides. Empty: it has none.
  std::function<void(std::size_t level)> use_level = {};
};

}  // namespace outrider
