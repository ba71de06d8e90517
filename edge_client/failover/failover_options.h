// How an edge with a server and a target of its own goes from one to the other, and what it
// remembers of both between answers.
//
// Thread rule: values. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/types.h"
#include "edge_client/failover/decoding_rate.h"
#include "edge_client/failover/handback_rule.h"
#include "edge_client/session/events.h"

namespace outrider {

// Which targets may decide.
enum class Mode : std::uint8_t {
  kAuto,     // the server's while the link carries it, else this device's
  kOnline,   // the server's alone
  kOffline,  // this device's alone
};

template <>
inline constexpr auto enum_names<Mode> = std::to_array<EnumName<Mode>>(
    {{Mode::kAuto, "auto"}, {Mode::kOnline, "online"}, {Mode::kOffline, "offline"}});

struct FailoverOptions {
  // Of this device's target.
  std::string fingerprint;
  std::string arithmetic_id;
  bool other_model = false;    // it may be another model than the server's
  bool strict_target = false;  // it takes over only if it gives the same bits
  Position standby_lag = 0;    // as Standby says
  // A server that has said nothing for so long, and has given no verdict yet, counts as lost.
  Duration failover_after = std::chrono::seconds(5);
  // So long the link must be good before the server takes over again.
  Duration handback_after = std::chrono::seconds(2);
  double min_rate = 0;         // tokens/s that the server must bring; 0: as many as this device
  Duration max_round_trip{0};  // of a link that counts as good; 0: any
  // Sessions of the turn before, by route.
  std::array<std::string, 2> replaced;
};

// Of all answers of an edge so far.
struct FailoverMemory {
  explicit FailoverMemory(Duration handback_after) : handback(handback_after) {}

  Route route = Route::kOnline;
  HandbackRule handback;
  DecodingRate online_rate;
  DecodingRate offline_rate;
  std::optional<std::string> forbidden;  // why the server may not be used
};

// Of one answer.
struct FailoverFigures {
  std::uint64_t failovers = 0;  // from the server to this device
  std::uint64_t handbacks = 0;
  Duration offline{0};          // while this device's target decided
  Duration offline_compute{0};  // its passes
};

}  // namespace outrider
