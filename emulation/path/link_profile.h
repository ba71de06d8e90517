// What a link is like in both directions, and where its numbers come from.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// What one direction of an emulated link does to packets. Times count from the link's start.

// Delay that varies around its mean. The laws hold for every instant: a packet's jitter does not
// depend on how many packets there are.
struct JitterSettings {
  // kNormal: as the bell curve, and what would be less than the floor is the floor.
  // kPareto: the floor and an excess with a heavy tail, (1 + excess / scale)^-3 of the packets
  // have more; mean and deviation are the settings', so the floor is the mean - 0.577 deviations.
  enum class Law : std::uint8_t { kNone, kNormal, kPareto };

  Law law = Law::kNone;
  Duration deviation{0};  // the standard deviation
  Duration floor{0};      // kNormal only
  // The time after which jitter has forgotten all but 1/e of itself; 0: each packet has its own.
  Duration correlation{0};
};

// A share of the packets is lost in [first, first + length), and again after every period.
struct LossWindow {
  Duration first{0};
  Duration length{0};
  Duration period{0};  // 0: once
  double share = 1;    // 1: a black-out
};

// Gilbert and Elliott's two states, left before each packet with these chances.
struct BurstLoss {
  double to_bad = 0;
  double to_good = 1;
  double loss_when_bad = 0;
};

struct LossSettings {
  double share = 0;  // of all packets, each by itself
  BurstLoss burst = {};
  std::vector<LossWindow> windows = {};
};

// Rates or single opportunities over time, from a trace, again from the start at its end.
struct RateStep {
  Duration from{0};
  double bit_per_s = 0;
};
struct RateTrace {
  std::vector<RateStep> steps;  // ascending, the first at 0
  Duration period{0};           // > the last step's
};
struct OpportunityTrace {
  std::vector<std::uint32_t> ms;  // ascending; each lets 1500 bytes pass
};
struct DelayTrace {
  std::vector<Duration> delays;  // one for each step
  Duration step{0};
};

struct PathSettings {
  Duration delay{0};  // mean, one way, apart from the time in the queue
  JitterSettings jitter;
  std::shared_ptr<const DelayTrace> delays;  // instead of delay and jitter

  // At most one of the three; without any the path has no limit and no queue.
  double bit_per_s = 0;
  std::shared_ptr<const RateTrace> rates;
  std::shared_ptr<const OpportunityTrace> opportunities;
  std::size_t queue_bytes = 0;  // what may wait for the rate; what more comes is dropped
  Duration trace_offset{0};     // where traces begin

  LossSettings loss;
  double duplicate = 0;  // share of the packets
  double reorder = 0;    // share of the packets that come reorder_by later, overtaken by others
  Duration reorder_by{0};
  std::optional<Duration> silent_from;  // nothing arrives any more: half open

  bool has_rate() const { return bit_per_s > 0 || rates != nullptr || opportunities != nullptr; }
};

struct LinkProfile {
  std::string name;
  PathSettings up;                   // from the edge to the server
  PathSettings down;                 // from the server to the edge
  std::optional<Duration> reset_at;  // connections are reset then; a proxy's links only
  // Numbers that no measurement or known tool stands for: our own choice. One clause.
  std::string chosen;
  std::string source;  // of the others

  // One line for people: what was asked for.
  std::string description() const;
};

// The table, in the order in which people list it: ethernet wifi wifi-roam 5g lte 4g-fast 4g-slow
// 3g 3g-slow starlink satellite flaky offline.
std::vector<LinkProfile> link_profiles();

// A fixed delay each way and nothing else.
LinkProfile delay_profile(Duration one_way);

// INVALID_ARGUMENT for a name that the table lacks; the message lists those it has.
Result<LinkProfile> find_link_profile(const std::string& name);

}  // namespace outrider
