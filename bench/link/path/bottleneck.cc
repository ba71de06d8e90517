// SPDX-License-Identifier: Apache-2.0
#include "bench/link/path/bottleneck.h"

#include <algorithm>
#include <chrono>
#include <cmath>

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

// Opportunities are counted through all rounds of the trace.
Duration time_of(const OpportunityTrace& trace, std::uint64_t opportunity) {
  const auto round = static_cast<Duration::rep>(opportunity / trace.ms.size());
  return round * period_of(trace) + milliseconds(trace.ms[opportunity % trace.ms.size()]);
}

// The first opportunity at that time or later.
std::uint64_t opportunity_at(const OpportunityTrace& trace, Duration time) {
  // The last of a round and the first of the next may fall together: begin one round earlier.
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

// Bits from the start of the trace, through all its rounds, to that time.
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

// When so many bits have passed since `begin`, a time of the trace.
Duration time_after(const RateTrace& trace, Duration begin, double bits) {
  const double round = bits_until(trace, trace.period);
  const double whole = std::floor(bits / round);
  bits -= whole * round;
  Duration at = begin + static_cast<Duration::rep>(whole) * trace.period;
  const auto after = std::partition_point(
      trace.steps.begin(), trace.steps.end(),
      [into = at % trace.period](const RateStep& step) { return step.from <= into; });
  auto step = static_cast<std::size_t>(after - trace.steps.begin()) - 1;
  // Rounding may leave a bit's fraction over after a round; two rounds end it for certain.
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
  // An empty queue takes any packet: otherwise one that is larger would never pass.
  return queue_.empty() || waiting_ + bytes <= settings_.queue_bytes;
}

Duration Bottleneck::serve(std::size_t bytes, Duration ready) {
  if (settings_.opportunities != nullptr) return serve_at_opportunities(bytes, ready);
  if (settings_.rates == nullptr) return ready + time_for(bits_of(bytes), settings_.bit_per_s);
  return time_after(*settings_.rates, ready + settings_.trace_offset, bits_of(bytes)) -
         settings_.trace_offset;
}

// What an opportunity has left serves the next packet if that waits already.
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

}  // namespace outrider
