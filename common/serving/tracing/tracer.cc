// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tracing/tracer.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <span>

namespace outrider {
namespace {

constexpr Duration kDelay = std::chrono::seconds(1);  // that spans wait for others, at most
constexpr Duration kFirstPause = std::chrono::seconds(1);
constexpr Duration kLongestPause = std::chrono::seconds(30);
constexpr Duration kFarewell = std::chrono::seconds(2);

void fill_randomly(std::span<std::uint8_t> bytes) {
  thread_local std::mt19937_64 random{std::uint64_t{std::random_device{}()} << 32 |
                                      std::random_device{}()};
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random());
  bytes.back() |= 1;  // zeros are no identity
}

// By the trace's last seven bytes, which are random (W3C): programs with the same ratio choose the
// same traces.
bool is_chosen(const TraceId& trace, double ratio) {
  std::uint64_t number = 0;
  for (std::size_t i = 9; i < trace.size(); ++i) number = number << 8 | trace.at(i);
  return static_cast<double>(number) < ratio * 0x1p56;
}

}  // namespace

Tracer::Tracer(Sampler sampler, Send send, Log log)
    : sampler_(sampler), send_(std::move(send)), log_(std::move(log)), thread_([this] { run(); }) {}

Tracer::~Tracer() {
  {
    const MutexLock lock(mu_);
    ending_ = true;
    changed_.notify_all();
    const TimePoint until = SystemClock().now() + kFarewell;
    while (!ended_ && changed_.wait_until(mu_, until) != std::cv_status::timeout) {
    }
  }
  cut_.request_stop();
  thread_.join();
}

Trace Tracer::begin(const TraceHeaders& from) {
  Trace trace;
  std::optional<TraceContext> parent;
  if (!from.parent.empty()) {
    parent = parse_traceparent(from.parent);
    if (!parent) malformed_.fetch_add(1, std::memory_order_relaxed);
  }
  fill_randomly(trace.context.span);
  if (!parent) {
    fill_randomly(trace.context.trace);
  } else {
    trace.context.trace = parent->trace;
    trace.context.state = from.state;
    trace.parent = parent->span;
  }
  trace.context.sampled = parent && sampler_.asks_parent
                              ? parent->sampled
                              : is_chosen(trace.context.trace, sampler_.ratio);
  return trace;
}

TraceSpan Tracer::child_of(const TraceSpan& parent, std::string name, TimePoint begin) {
  TraceSpan span{.context = parent.context,
                 .parent = parent.context.span,
                 .name = std::move(name),
                 .begin = begin,
                 .end = begin};
  fill_randomly(span.context.span);
  return span;
}

void Tracer::add(TraceSpan span) {
  const MutexLock lock(mu_);
  if (queue_.size() >= kMaxQueued) {
    dropped_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  queue_.push_back(std::move(span));
  if (queue_.size() == kMaxBatch) changed_.notify_all();
}

Tracer::Counts Tracer::counts() const {
  return {exported_.load(std::memory_order_relaxed), dropped_.load(std::memory_order_relaxed),
          malformed_.load(std::memory_order_relaxed)};
}

std::vector<TraceSpan> Tracer::take_batch() {
  const auto end = queue_.begin() + static_cast<std::ptrdiff_t>(std::min(queue_.size(), kMaxBatch));
  std::vector<TraceSpan> batch(std::make_move_iterator(queue_.begin()),
                               std::make_move_iterator(end));
  queue_.erase(queue_.begin(), end);
  return batch;
}

void Tracer::run() {
  Duration pause{0};
  MutexLock lock(mu_);
  while (!ending_ || !queue_.empty()) {
    const TimePoint until = SystemClock().now() + std::max(pause, kDelay);
    const bool is_urgent = pause == Duration{0};
    while (!ending_ && !(is_urgent && queue_.size() >= kMaxBatch) &&
           changed_.wait_until(mu_, until) != std::cv_status::timeout) {
    }
    if (queue_.empty()) continue;
    const std::vector<TraceSpan> batch = take_batch();
    lock.unlock();
    pause = send_batch(batch, pause);
    lock.lock();
    if (ending_ && pause > Duration{0}) break;
  }
  dropped_.fetch_add(queue_.size(), std::memory_order_relaxed);
  ended_ = true;
  changed_.notify_all();
}

Duration Tracer::send_batch(const std::vector<TraceSpan>& batch, Duration pause) {
  const Result<std::uint64_t> sent = send_(batch, cut_.get_token());
  if (!sent.ok()) {
    dropped_.fetch_add(batch.size(), std::memory_order_relaxed);
    if (pause == Duration{0} && log_) {
      log_("traces are dropped, because the collector does not take them: " +
           sent.status().message());
    }
    return std::min(std::max(2 * pause, kFirstPause), kLongestPause);
  }
  const std::uint64_t rejected = std::min<std::uint64_t>(*sent, batch.size());
  dropped_.fetch_add(rejected, std::memory_order_relaxed);
  exported_.fetch_add(batch.size() - rejected, std::memory_order_relaxed);
  if (pause > Duration{0} && log_) log_("the collector takes traces again");
  return Duration{0};
}

}  // namespace outrider
