// The properties of a link in both directions, and the sources of its numbers.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// The effects of one direction of an emulated link on packets. Times count from the link's start.

// Delay that varies around its mean. The distribution holds at each instant: a packet's jitter does
// not depend on the number of packets.
struct JitterSettings {
  // kNormal: the normal distribution, where smaller values are raised to the floor. kPareto: the
  // floor plus an excess with a heavy tail: (1 + excess / scale)^-3 of the packets have more. Mean
  // and deviation are those of the settings, so the floor is the mean - 0.577 deviations.
  enum class Law : std::uint8_t { kNone, kNormal, kPareto };

  Law law = Law::kNone;
  Duration deviation{0};  // the standard deviation
  Duration floor{0};      // kNormal only
  // The time in which the correlation falls to 1/e; 0: packets are independent.
  Duration correlation{0};
};

// A share of the packets is lost in [first, first + length), and again after each period.
struct LossWindow {
  Duration first{0};
  Duration length{0};
  Duration period{0};  // 0: once
  double share = 1;    // 1: a black-out
};

// The two-state model of Gilbert and Elliott; before each packet its state changes with these
// chances.
struct BurstLoss {
  double to_bad = 0;
  double to_good = 1;
  double loss_when_bad = 0;
};

struct LossSettings {
  double share = 0;  // of all packets, independently
  BurstLoss burst = {};
  std::vector<LossWindow> windows = {};
};

// Rates or single opportunities over time, from a trace that repeats.
struct RateStep {
  Duration from{0};
  double bit_per_s = 0;
};
struct RateTrace {
  std::vector<RateStep> steps;  // ascending, the first at 0
  Duration period{0};           // > the last step's
};
struct OpportunityTrace {
  std::vector<std::uint32_t> ms;  // ascending; at each, 1500 bytes may pass
};
struct DelayTrace {
  std::vector<Duration> delays;  // one per step
  Duration step{0};
};

struct PathSettings {
  Duration delay{0};  // mean, one way, without the time in the queue
  JitterSettings jitter;
  std::shared_ptr<const DelayTrace> delays;  // instead of delay and jitter

  // At most one of the three. Without any, the path has no limit and no queue.
  double bit_per_s = 0;
  std::shared_ptr<const RateTrace> rates;
  std::shared_ptr<const OpportunityTrace> opportunities;
  std::size_t queue_bytes = 0;  // capacity of the queue; packets beyond it are dropped
  Duration trace_offset{0};     // where traces begin

  LossSettings loss;
  double duplicate = 0;  // share of the packets
  double reorder = 0;    // share of the packets that arrive reorder_by later, behind others
  Duration reorder_by{0};
  std::optional<Duration> silent_from;  // nothing arrives from then on: half open

  bool has_rate() const { return bit_per_s > 0 || rates != nullptr || opportunities != nullptr; }
};

struct LinkProfile {
  std::string name;
  PathSettings up;                   // from the edge to the server
  PathSettings down;                 // from the server to the edge
  std::optional<Duration> reset_at;  // when connections are reset; a proxy's links only
  // The numbers that are our own choice, without a measurement or tool behind them. One clause.
  std::string chosen;
  std::string source;  // of the other numbers

  // One line for people about the link.
  std::string description() const;
};

// The table, in its usual order: ethernet wifi wifi-roam 5g lte 4g-fast 4g-slow 3g 3g-slow starlink
// satellite flaky offline.
std::vector<LinkProfile> link_profiles();

// Only a fixed delay in each direction.
LinkProfile delay_profile(Duration one_way);

// INVALID_ARGUMENT for a name that is not in the table; the message lists the names.
Result<LinkProfile> find_link_profile(const std::string& name);

// --- what to expect of measurements on a profile; pure functions ---

// Times since the start for sending probes, about `spacing` apart. They are uneven, so that they do
// not follow a period of the link.
std::vector<Duration> probe_times(Duration from, Duration length, Duration spacing,
                                  std::uint64_t seed);

// The round trips, in ms, of packets of that size that are sent at these ascending times and
// answered at once: one entry per time, without a value if the packet is lost.
std::vector<std::optional<double>> expected_round_trips(const LinkProfile& profile,
                                                        std::size_t bytes,
                                                        std::span<const Duration> times,
                                                        std::uint64_t seed);

// The round trips of packets that are not lost.
std::vector<double> arrived(std::span<const std::optional<double>> round_trips);

// The share of evenly sent packets that is lost between these times.
double expected_loss(const LossSettings& settings, Duration from, Duration to);

}  // namespace outrider
