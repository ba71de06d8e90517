// SPDX-License-Identifier: Apache-2.0
#include "bench/link/path/impaired_path.h"

#include <algorithm>
#include <utility>

#include "bench/link/path/link_condition.h"

namespace outrider {
namespace {

// Seeds of the parts: each draws from a sequence of its own.
enum : std::uint64_t { kLossPart = 1, kJitterPart = 2, kOrderPart = 3 };

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t part) {
  return (seed + 1) * 0x9E3779B97F4A7C15ULL + part;
}

}  // namespace

ImpairedPath::ImpairedPath(PathSettings settings, std::uint64_t seed)
    : settings_(std::move(settings)),
      bottleneck_(settings_),
      loss_(settings_.loss, seed_of(seed, kLossPart)),
      jitter_(settings_, seed_of(seed, kJitterPart)),
      random_(seed_of(seed, kOrderPart)) {}

Fate ImpairedPath::send(std::size_t bytes, Duration now) {
  ++counts_.sent;
  if (is_silent(now)) {
    ++counts_.silent;
    return {.kind = Fate::Kind::kSilent};
  }
  const std::optional<Duration> passed = bottleneck_.pass(bytes, now);
  if (!passed) {
    ++counts_.queue_full;
    return {.kind = Fate::Kind::kQueueFull};
  }
  count_passed(bytes, now, *passed);
  Fate fate;
  fate.due = std::max(last_due_, *passed + jitter_.at(*passed));
  const bool reordered = random_.chance(settings_.reorder);
  const bool duplicated = random_.chance(settings_.duplicate);
  if (loss_.loses(*passed)) {
    count_lost(*passed);
    fate.kind = Fate::Kind::kLost;
    return fate;
  }
  if (reordered) {
    ++counts_.reordered;
    fate.due += settings_.reorder_by;
  } else {
    last_due_ = fate.due;
  }
  if (duplicated) {
    ++counts_.duplicated;
    fate.copy_due = fate.due;
  }
  return fate;
}

void ImpairedPath::count_passed(std::size_t bytes, Duration now, Duration passed) {
  if (!settings_.has_rate()) return;
  const Duration at_work = passed - std::max(now, last_passed_);
  last_passed_ = passed;
  counts_.bytes += bytes;
  counts_.busy_ns += static_cast<std::uint64_t>(at_work.count());
  const bool replays = settings_.rates != nullptr || settings_.opportunities != nullptr;
  if (replays && at_work >= kStalledFor) ++counts_.stalled;
}

void ImpairedPath::count_lost(Duration at) {
  ++counts_.lost;
  const double window = window_loss(settings_.loss, at);
  if (window >= 1) {
    ++counts_.in_black_out;
  } else if (window > 0) {
    ++counts_.in_loss_window;
  }
}

void ImpairedPath::set_delay(Duration delay) {
  settings_.delay = delay;
  settings_.delays = nullptr;
  settings_.jitter = {};
}

}  // namespace outrider
