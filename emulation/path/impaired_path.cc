// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/impaired_path.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numbers>

namespace outrider {
namespace {

using std::chrono::milliseconds;

double bits_of(std::size_t bytes) {
  return 8.0 * static_cast<double>(bytes);
}

Duration time_for(double bits, double bit_per_s) {
  return Duration(std::llround(bits / bit_per_s * 1e9));
}

Duration period_of(const OpportunityTrace& trace) {
  return milliseconds(trace.ms.back());
}

// Opportunities are numbered through all repetitions of the trace.
Duration time_of(const OpportunityTrace& trace, std::uint64_t opportunity) {
  const auto round = static_cast<Duration::rep>(opportunity / trace.ms.size());
  return round * period_of(trace) + milliseconds(trace.ms[opportunity % trace.ms.size()]);
}

// The first opportunity at or after that time.
std::uint64_t opportunity_at(const OpportunityTrace& trace, Duration time) {
  // A round's last opportunity and the next round's first may coincide: start one round earlier.
  Duration::rep round = std::max<Duration::rep>(time / period_of(trace) - 1, 0);
  while (period_of(trace) * (round + 1) < time) ++round;
  const Duration into = time - round * period_of(trace);
  const auto found = std::partition_point(
      trace.ms.begin(), trace.ms.end(), [&](std::uint32_t ms) { return milliseconds(ms) < into; });
  return static_cast<std::uint64_t>(round) * trace.ms.size() +
         static_cast<std::uint64_t>(found - trace.ms.begin());
}

Duration end_of_step(const RateTrace& trace, std::size_t step) {
  return step + 1 < trace.steps.size() ? trace.steps[step + 1].from : trace.period;
}

double bits_of_step(const RateTrace& trace, std::size_t step) {
  return trace.steps[step].bit_per_s *
         to_seconds(end_of_step(trace, step) - trace.steps[step].from);
}

// Bits from the start of the trace to that time, over all repetitions.
double bits_until(const RateTrace& trace, Duration time) {
  double round = 0, part = 0;
  const Duration into = time % trace.period;
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    round += bits_of_step(trace, i);
    const Duration end = std::min(end_of_step(trace, i), into);
    if (end > trace.steps[i].from) {
      part += trace.steps[i].bit_per_s * to_seconds(end - trace.steps[i].from);
    }
  }
  return round * static_cast<double>(time / trace.period) + part;
}

// The time of the trace when this many bits have passed since `begin`.
Duration time_after(const RateTrace& trace, Duration begin, double bits) {
  const double round = bits_until(trace, trace.period);
  const double whole = std::floor(bits / round);
  bits -= whole * round;
  Duration at = begin + static_cast<Duration::rep>(whole) * trace.period;
  const auto after = std::partition_point(
      trace.steps.begin(), trace.steps.end(),
      [into = at % trace.period](const RateStep& step) { return step.from <= into; });
  auto step = static_cast<std::size_t>(after - trace.steps.begin()) - 1;
  // Rounding may leave a fraction of a bit after a round; two rounds always suffice.
  for (std::size_t i = 0; i < 2 * trace.steps.size() + 2; ++i) {
    const double rate = trace.steps[step].bit_per_s;
    const Duration left = end_of_step(trace, step) - at % trace.period;
    if (bits <= rate * to_seconds(left) && rate > 0) return at + time_for(bits, rate);
    bits -= rate * to_seconds(left);
    at += left;
    step = (step + 1) % trace.steps.size();
  }
  return at;
}

}  // namespace

Bottleneck::Bottleneck(const PathSettings& settings) : settings_(settings) {
  if (settings_.opportunities != nullptr) {
    opportunity_ = opportunity_at(*settings_.opportunities, settings_.trace_offset);
  }
}

std::optional<Duration> Bottleneck::pass(std::size_t bytes, Duration now) {
  if (!settings_.has_rate()) return now;
  if (!has_room(bytes, now)) return std::nullopt;
  free_at_ = serve(bytes, std::max(now, free_at_));
  queue_.emplace_back(free_at_, bytes);
  waiting_ += bytes;
  return free_at_;
}

bool Bottleneck::has_room(std::size_t bytes, Duration now) {
  while (!queue_.empty() && queue_.front().first <= now) {
    waiting_ -= queue_.front().second;
    queue_.pop_front();
  }
  // An empty queue accepts any packet. Otherwise a packet larger than the queue would never pass.
  return queue_.empty() || waiting_ + bytes <= settings_.queue_bytes;
}

Duration Bottleneck::serve(std::size_t bytes, Duration ready) {
  if (settings_.opportunities != nullptr) return serve_at_opportunities(bytes, ready);
  if (settings_.rates == nullptr) return ready + time_for(bits_of(bytes), settings_.bit_per_s);
  return time_after(*settings_.rates, ready + settings_.trace_offset, bits_of(bytes)) -
         settings_.trace_offset;
}

// The rest of an opportunity serves the next packet if that is already waiting.
Duration Bottleneck::serve_at_opportunities(std::size_t bytes, Duration ready) {
  const OpportunityTrace& trace = *settings_.opportunities;
  const Duration ready_in_trace = ready + settings_.trace_offset;
  if (time_of(trace, opportunity_) < ready_in_trace) {
    opportunity_ = opportunity_at(trace, ready_in_trace);
    left_ = kOpportunityBytes;
  }
  while (bytes > left_) {
    bytes -= left_;
    left_ = kOpportunityBytes;
    ++opportunity_;
  }
  left_ -= bytes;
  const Duration passed = time_of(trace, opportunity_) - settings_.trace_offset;
  if (left_ == 0) {
    left_ = kOpportunityBytes;
    ++opportunity_;
  }
  return passed;
}

double Bottleneck::capacity(const PathSettings& settings, Duration from, Duration to) {
  const Duration begin = from + settings.trace_offset, end = to + settings.trace_offset;
  if (settings.opportunities != nullptr) {
    const OpportunityTrace& trace = *settings.opportunities;
    return static_cast<double>(opportunity_at(trace, end) - opportunity_at(trace, begin)) *
           kOpportunityBytes;
  }
  if (settings.rates != nullptr) {
    return (bits_until(*settings.rates, end) - bits_until(*settings.rates, begin)) / 8;
  }
  return settings.bit_per_s / 8 * to_seconds(to - from);
}

namespace {

// The Pareto excess has P(excess > x) = (1 + x / scale)^-kShape.
constexpr double kShape = 3;
// The excess has mean scale / 2 and standard deviation scale * sqrt(3) / 2.
constexpr double kScaleOfDeviation = 2 / std::numbers::sqrt3;
constexpr double kMeanOfScale = 0.5;

Duration scaled(Duration duration, double by) {
  return Duration(std::llround(static_cast<double>(duration.count()) * by));
}

Duration pareto_floor(const PathSettings& settings) {
  return settings.delay - scaled(settings.jitter.deviation, kScaleOfDeviation * kMeanOfScale);
}

// The Pareto excess, in deviations, with the same rank as a normal deviate.
double pareto_excess(double deviate) {
  const double above = std::max(0.5 * std::erfc(deviate / std::numbers::sqrt2), 1e-12);
  return kScaleOfDeviation * (std::pow(above, -1 / kShape) - 1);
}

}  // namespace

Jitter::Jitter(const PathSettings& settings, std::uint64_t seed)
    : settings_(settings), random_(seed), deviate_(random_.normal()) {}

Duration Jitter::floor_of(const PathSettings& settings) {
  if (settings.delays != nullptr) {
    return *std::min_element(settings.delays->delays.begin(), settings.delays->delays.end());
  }
  if (settings.jitter.law == JitterSettings::Law::kPareto) return pareto_floor(settings);
  if (settings.jitter.law == JitterSettings::Law::kNormal) return settings.jitter.floor;
  return settings.delay;
}

Duration Jitter::at(Duration since_start) {
  if (settings_.delays != nullptr) {
    const DelayTrace& trace = *settings_.delays;
    const auto step = (since_start + settings_.trace_offset) / trace.step;
    return trace.delays[static_cast<std::size_t>(step) % trace.delays.size()];
  }
  const JitterSettings& jitter = settings_.jitter;
  if (jitter.law == JitterSettings::Law::kNone) return settings_.delay;
  // An Ornstein-Uhlenbeck process: normally distributed at each instant, and correlated in time.
  const double passed = jitter.correlation > Duration::zero()
                            ? to_seconds(since_start - last_) / to_seconds(jitter.correlation)
                            : 1e3;
  const double kept = std::exp(-passed);
  deviate_ = kept * deviate_ + std::sqrt(1 - kept * kept) * random_.normal();
  last_ = since_start;
  if (jitter.law == JitterSettings::Law::kPareto) {
    return pareto_floor(settings_) + scaled(jitter.deviation, pareto_excess(deviate_));
  }
  return std::max(jitter.floor, settings_.delay + scaled(jitter.deviation, deviate_));
}

double window_loss(const LossSettings& settings, Duration since_start) {
  double share = 0;
  for (const LossWindow& window : settings.windows) {
    if (since_start < window.first) continue;
    Duration into = since_start - window.first;
    if (window.period > Duration::zero()) into %= window.period;
    if (into < window.length) share = std::max(share, window.share);
  }
  return share;
}

double mean_loss(const LossSettings& settings) {
  const BurstLoss& burst = settings.burst;
  double passes = 1 - settings.share;
  if (burst.to_bad > 0) {
    passes *= 1 - burst.loss_when_bad * burst.to_bad / (burst.to_bad + burst.to_good);
  }
  for (const LossWindow& window : settings.windows) {
    if (window.period == Duration::zero()) continue;  // a single window has no long-run share
    passes *=
        1 - window.share * std::min(1.0, to_seconds(window.length) / to_seconds(window.period));
  }
  return 1 - passes;
}

bool LossModel::loses(Duration since_start) {
  const BurstLoss& burst = settings_.burst;
  // Every draw is made for every packet, so that changing one setting does not change the other
  // draws.
  bad_ = random_.chance(bad_ ? 1 - burst.to_good : burst.to_bad);
  const bool in_burst = random_.chance(burst.loss_when_bad) && bad_;
  const bool single = random_.chance(settings_.share);
  const bool in_window = random_.chance(window_loss(settings_, since_start));
  return in_burst || single || in_window;
}

namespace {

// Seeds of the parts: each has its own random sequence.
enum : std::uint64_t { kLossPart = 1, kJitterPart = 2, kOrderPart = 3 };

std::uint64_t seed_of(std::uint64_t seed, std::uint64_t part) {
  return (seed + 1) * kGoldenStep + part;
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

}  // namespace outrider
