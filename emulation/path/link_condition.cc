// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/link_condition.h"

#include <algorithm>
#include <chrono>

namespace outrider {
namespace {

using std::chrono::milliseconds;

// For a trace: longer than kStalledFor, so that most packets sent meanwhile meet the stall.
constexpr Duration kStall = milliseconds(500);

bool has_stall(const OpportunityTrace& trace) {
  Duration last{0};
  for (const std::uint32_t ms : trace.ms) {
    if (milliseconds(ms) - last >= kStall) return true;
    last = milliseconds(ms);
  }
  return false;
}

bool has_stall(const RateTrace& trace) {
  Duration passed{0};  // until then something did
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    const Duration end = i + 1 < trace.steps.size() ? trace.steps[i + 1].from : trace.period;
    if (trace.steps[i].bit_per_s > 0) passed = end;
    if (end - passed >= kStall) return true;
  }
  return false;
}

bool holds(const PathSettings& path, LinkCondition condition) {
  const LossSettings& loss = path.loss;
  const auto has_window = [&](bool whole) {
    return std::ranges::any_of(loss.windows, [whole](const LossWindow& window) {
      return window.share > 0 && (window.share >= 1) == whole;
    });
  };
  switch (condition) {
    case LinkCondition::kPacketLoss:
      return loss.share > 0 || (loss.burst.to_bad > 0 && loss.burst.loss_when_bad > 0);
    case LinkCondition::kBlackOut:
      return has_window(true);
    case LinkCondition::kLossWindow:
      return has_window(false);
    case LinkCondition::kStall:
      return (path.opportunities != nullptr && has_stall(*path.opportunities)) ||
             (path.rates != nullptr && has_stall(*path.rates));
    case LinkCondition::kSilence:
      return path.silent_from.has_value();
    case LinkCondition::kReset:
      break;
  }
  return false;
}

std::uint64_t packets(const PathCounts& counts, LinkCondition condition) {
  switch (condition) {
    case LinkCondition::kPacketLoss:
      return counts.lost - counts.in_black_out - counts.in_loss_window;
    case LinkCondition::kBlackOut:
      return counts.in_black_out;
    case LinkCondition::kLossWindow:
      return counts.in_loss_window;
    case LinkCondition::kStall:
      return counts.stalled;
    case LinkCondition::kSilence:
      return counts.silent;
    case LinkCondition::kReset:
      break;
  }
  return 0;
}

}  // namespace

std::vector<LinkCondition> conditions_of(const LinkProfile& profile) {
  std::vector<LinkCondition> found;
  for (const auto& [condition, name] : enum_names<LinkCondition>) {
    const bool on_link = condition == LinkCondition::kReset && profile.reset_at;
    if (on_link || holds(profile.up, condition) || holds(profile.down, condition)) {
      found.push_back(condition);
    }
  }
  return found;
}

bool has_met(const LinkCounts& counts, LinkCondition condition) {
  if (condition == LinkCondition::kReset) return counts.resets > 0;
  return packets(counts.up, condition) + packets(counts.down, condition) > 0;
}

}  // namespace outrider
