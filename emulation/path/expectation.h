// What a profile's own law lets one expect of measurements, by sending packets over its paths under
// a virtual clock.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "emulation/path/link_profile.h"

namespace outrider {

// Times from the start at which probes are sent, about `spacing` apart, uneven so that no period of
// the link's is met again and again.
std::vector<Duration> probe_times(Duration from, Duration length, Duration spacing,
                                  std::uint64_t seed);

// The round trips, in ms, of packets of that size that are sent at these ascending times and
// answered at once: one for each time, nothing for what is lost.
std::vector<std::optional<double>> expected_round_trips(const LinkProfile& profile,
                                                        std::size_t bytes,
                                                        std::span<const Duration> times,
                                                        std::uint64_t seed);

// Those that are not lost.
std::vector<double> arrived(std::span<const std::optional<double>> round_trips);

// The share of evenly sent packets that is lost between these times.
double expected_loss(const LossSettings& settings, Duration from, Duration to);

}  // namespace outrider
