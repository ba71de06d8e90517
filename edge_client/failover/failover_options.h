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
#include "edge_client/failover/failback_rule.h"
#include "edge_client/failover/link_monitor.h"
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

// When the text goes from one target to the other, as a user chooses it.
struct FailoverOptions {
  bool strict_target = false;  // this device's takes over only if it gives the same bits
  Position standby_lag = 0;    // as Standby says
  // The conditions under which a link counts as lost. first_patience: for a server that has given
  // no verdict yet. min_rate: the least rate of the server; 0 means that of this device.
  LinkFloors link = {.first_patience = std::chrono::seconds(5)};
  // So long the link must be good before the server takes over again.
  Duration failback_after = std::chrono::seconds(2);
};

// The two targets of an answer, and how it goes from one to the other.
struct FailoverSetup {
  FailoverOptions options;
  // The identity of this device's target.
  std::string fingerprint;
  std::string arithmetic_id;
  bool other_model = false;  // it may be another model than the server's
  // Sessions of the turn before, by route.
  std::array<std::string, 2> replaced;
};

// The memory of all answers of an edge so far.
struct FailoverMemory {
  explicit FailoverMemory(Duration failback_after) : failback(failback_after) {}

  Route route = Route::kOnline;
  FailbackRule failback;
  DecodingRate online_rate;
  DecodingRate offline_rate;
  std::optional<std::string> forbidden;  // why the server may not be used
};

// The figures of one answer.
struct FailoverFigures {
  std::uint64_t failovers = 0;  // from the server to this device
  std::uint64_t failbacks = 0;
  double offline_seconds = 0;   // while this device's target decided
  Duration offline_compute{0};  // its passes

  // For common/base/json_record.h: all but offline_compute.
  template <typename Self, typename Visitor>
  static void visit_fields(Self& self, Visitor&& field) {
    field("offline_seconds_total", self.offline_seconds);
    field("failovers_total", self.failovers);
    field("failbacks_total", self.failbacks);
  }
};

}  // namespace outrider
