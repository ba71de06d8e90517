// What `outrider-bench capacity` puts on a server: devices whose passes have a sourced curve by
// rows, pairs of models whose acceptance was measured, and clients that ask, read and think.
//
// Everything random is a pure function of the seed, the client and the request, never of the order
// of events. So all contenders are asked the same, and their drafts are right at the same
// positions.
//
// Units: times of devices in ms, lengths in tokens. Positions of an answer count from 0.
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/engine/model/emulated/pace.h"

namespace outrider {

// A server's device, the draft step of the edges' devices, and the link between them.
struct CapacityPace {
  std::string name;
  PaceCurve pass = {};    // of the target, by rows; its last point bounds a pass
  double step_ms = 0;     // one draft step on the edge
  double one_way_ms = 0;  // the link
  std::string source = {};

  std::int64_t last_row() const { return pass.points().back().rows; }
};

// Tokens per round, measured with rounds of gamma drafted tokens.
struct CapacityPair {
  std::string name;
  double tau = 1;
  double gamma = 4;
  std::string source = {};

  // The chance that a drafted token is right, the same at each position: what gives tau.
  double acceptance() const;
};

// Names; "all" is every one. INVALID_ARGUMENT lists the names, and names a pace whose pass has no
// curve by rows.
Result<std::vector<CapacityPace>> find_capacity_paces(const std::vector<std::string>& names);
Result<std::vector<CapacityPair>> find_capacity_pairs(const std::vector<std::string>& names);
// A curve from the command line. INVALID_ARGUMENT if it has fewer than two points.
Result<PaceCurve> parse_capacity_curve(const std::string& text);

enum class Arrivals : std::uint8_t {
  kClosed,   // a client thinks after an answer, then asks again
  kPoisson,  // requests come whether or not the answer before is complete; they wait for it
};

template <>
inline constexpr auto enum_names<Arrivals> = std::to_array<EnumName<Arrivals>>(
    {{Arrivals::kClosed, "closed"}, {Arrivals::kPoisson, "poisson"}});

// One direction of every client's link.
struct LinkLoad {
  Duration delay{0};
  double bit_per_s = 0;  // 0: no limit

  Duration time_of(std::size_t bytes) const;
};

// Some of the clients, where they are not all alike.
struct CrowdKind {
  std::size_t clients = 0;
  double acceptance = 0;
  double stated = 0;       // the confidence that they state of each drafted token
  int gamma = 4;           // tokens of a round
  std::string group = {};  // whose sessions they are
};

struct ClientLoad {
  std::size_t clients = 1;
  double acceptance = 0;
  std::vector<CrowdKind> kinds = {};  // the first clients are the first kind's; empty: all alike
  Duration draft_step{0};
  LinkLoad up;
  LinkLoad down;
  Arrivals arrivals = Arrivals::kClosed;
  Duration think{0};  // mean; exponential
  int prompt = 16;    // tokens that no cache holds; drawn evenly from half of it to 1.5 times
  int answer = 64;    // the same
  std::uint64_t seed = 1;
  Duration warm_up{0};   // before the measured time
  Duration measured{0};  // answers that begin within it count

  Duration end() const { return warm_up + measured; }
  // gamma: of one whose kind is not named.
  CrowdKind kind_of(std::size_t client, int gamma) const;
};

// One request: of which client, and its number there.
struct RequestId {
  std::size_t client = 0;
  std::uint64_t number = 0;
};

struct RequestLengths {
  int prompt = 1;
  int answer = 2;
};

RequestLengths lengths_of(const ClientLoad& load, const RequestId& request);
// Before the request: since the answer before it, or since the request before it (Arrivals).
Duration think_before(const ClientLoad& load, const RequestId& request);
// Whether a draft that follows the answer's own text is right at this position.
bool stands(const ClientLoad& load, const RequestId& request, int position);
// How many of `drafted` tokens from `position` on stand: those before the first wrong one.
int accepted(const ClientLoad& load, const RequestId& request, int position, int drafted);

}  // namespace outrider
