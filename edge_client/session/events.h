// What goes into the decoding brain and what comes out, as plain values (DESIGN L4).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/drafting/draft_step.h"
#include "common/protocol/link_probe.h"
#include "common/protocol/verifier.h"
#include "edge_client/speculation/speculation_actions.h"

namespace outrider {

// --- in ---------------------------------------------------------------------------------------

// FromVerifier is the verifier's (verifier.h). Of another epoch than the last Connect: ignored.

struct DraftStepFinished {
  Result<DraftStepDone> result;
};

// next_tick() is reached.
struct Tick {};

// The user wants no more of it.
struct CancelRequested {};

// Another verifier stands ready, or this one may start anew: the stream is over, and the next one
// opens at once with the committed text.
struct Reopen {};

// LinkProbed is what ProbeLink brought (link_probe.h).

// The server may not be used any more, for the rest of all answers.
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

// Begin a stream there, ending the one before. Its events carry this epoch.
struct Connect {
  std::uint32_t epoch = 0;
  Route route = Route::kOnline;
};

// On the stream of the last Connect.
struct Send {
  EdgeMessage message;
};

// Beside the stream online: begin one offline, whose events carry this epoch, with this Open.
struct StandBy {
  std::uint32_t epoch = 0;
  EdgeMessage open;
};

// Find out whether the server can be reached: one LinkProbed follows. One probe at a time.
struct ProbeLink {
  Duration patience{0};
};

// Committed tokens, in order, each with the text it completes (perhaps none: half a character, a
// special token, text held back because a stop string may begin there).
struct Emit {
  struct Token {
    TokenId id = 0;
    bool drafted = false;  // the draft guessed it; else it is the target's own
    std::string text;
  };
  std::vector<Token> tokens;
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

// What the text would go on with if the draft's likeliest guesses were right; in place of what was
// said before, and gone with the next Emit. Empty: there is none.
struct Provisional {
  std::string text;
};

// The target reads a long prompt: positions done of total.
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

}  // namespace outrider
