// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/stream_log.h"

#include <algorithm>
#include <cstdio>

namespace outrider {
namespace {

// A wait that is shorter is no wait: the section was there.
constexpr Duration kShortestWait = std::chrono::microseconds(20);

std::string text_of(const StreamedTimes& pass) {
  char text[160];
  std::snprintf(text, sizeof text,
                "streamed pass: reading %.1f ms, computing %.1f ms, waiting for reads %.1f ms, "
                "disk idle %.1f ms",
                to_ms(pass.reading), to_ms(pass.computing), to_ms(pass.waiting),
                to_ms(pass.length - pass.reading));
  return text;
}

}  // namespace

std::string StreamLog::name_of_section(std::size_t section) const {
  return section < num_layers_ ? "layer " + std::to_string(section) : "the output matrix";
}

void StreamLog::waits_for(std::size_t section, Duration read_so_far, TimePoint now) {
  const MutexLock lock(mu_);
  go_on({.computes = false, .section = section, .begin = now}, read_so_far);
}

void StreamLog::computes(std::size_t section, Duration read_so_far, TimePoint now) {
  const MutexLock lock(mu_);
  go_on({.computes = true, .section = section, .begin = now}, read_so_far);
}

void StreamLog::go_on(const Part& next, Duration read_so_far) {
  if (!pass_) pass_ = Pass{.begin = next.begin, .read_before = read_so_far};
  end_part(next.begin);
  pass_->part = next;
}

void StreamLog::end_part(TimePoint now) {
  if (!pass_->part) return;
  const Part& part = *pass_->part;
  const Duration length = now - part.begin;
  (part.computes ? pass_->computing : pass_->waiting) += length;
  if (!part.computes && length < kShortestWait) return;
  keep({.lane = StreamSpan::Lane::kCores,
        .what = (part.computes ? "" : "waits for ") + name_of_section(part.section),
        .begin = part.begin,
        .length = length});
}

void StreamLog::end_pass(Duration read_so_far, TimePoint now) {
  const MutexLock lock(mu_);
  if (!pass_) return;
  end_part(now);
  const Duration length = now - pass_->begin;
  // A read that began before the pass is counted when it ends.
  const StreamedTimes pass{.passes = 1,
                           .length = length,
                           .computing = pass_->computing,
                           .waiting = pass_->waiting,
                           .reading = std::min(length, read_so_far - pass_->read_before)};
  keep({.lane = StreamSpan::Lane::kPass,
        .what = text_of(pass),
        .begin = pass_->begin,
        .length = length});
  times_.passes += pass.passes;
  times_.length += pass.length;
  times_.computing += pass.computing;
  times_.waiting += pass.waiting;
  times_.reading += pass.reading;
  pass_.reset();
}

void StreamLog::has_read(std::size_t section, TimePoint begin, TimePoint end) {
  const MutexLock lock(mu_);
  keep({.lane = StreamSpan::Lane::kDisk,
        .what = "read " + name_of_section(section),
        .begin = begin,
        .length = end - begin});
}

StreamedTimes StreamLog::times() const {
  const MutexLock lock(mu_);
  return times_;
}

void StreamLog::keep_spans() {
  const MutexLock lock(mu_);
  keeps_ = true;
}

void StreamLog::keep(StreamSpan span) {
  if (keeps_ && spans_.size() < kMaxSpans) spans_.push_back(std::move(span));
}

std::vector<StreamSpan> StreamLog::take_spans() {
  const MutexLock lock(mu_);
  return std::exchange(spans_, {});
}

}  // namespace outrider
