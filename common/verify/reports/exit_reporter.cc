// SPDX-License-Identifier: Apache-2.0
#include "common/verify/reports/exit_reporter.h"

#include <algorithm>
#include <string>

namespace outrider {
namespace {

// Before anything is measured, as many reports as TCP begins with segments.
constexpr std::uint32_t kInitialWindow = 10 * kReportBytes;
constexpr std::uint32_t kSmallestWindow = 2 * kReportBytes;
constexpr std::uint32_t kLargestWindow = 256 * kReportBytes;
// A window of the product itself would never find out that the link has become faster.
constexpr double kWindowGain = 2;
// Rates that count: older ones are of another link.
constexpr std::size_t kMeasurements = 32;

}  // namespace

void ExitReporter::begin_pass(std::uint32_t pass) {
  drop_waiting();
  pass_ = pass;
  in_pass_ = true;
}

void ExitReporter::offer(const ExitGuess& guess) {
  if (!in_pass_) return;
  ++counts_.computed;
  const auto same = std::find_if(said_.begin(), said_.end(), [&](const Waiting& other) {
    return other.guess.leaf_id == guess.leaf_id && other.guess.next_token == guess.next_token;
  });
  if (same == said_.end()) {
    said_.push_back({guess});
    return;
  }
  // While it waits, a second exit of the same opinion may lend it weight.
  ++counts_.deduplicated;
  if (!same->sent && guess.confidence > same->guess.confidence) same->guess = guess;
}

std::optional<ExitReport> ExitReporter::next(TimePoint now) {
  if (bytes_in_flight() + kReportBytes > window_bytes()) return std::nullopt;
  Waiting* best = nullptr;
  for (Waiting& one : said_) {
    if (one.sent) continue;
    const bool better = best == nullptr || (queue_ == ReportQueue::kPriority &&
                                            one.guess.confidence > best->guess.confidence);
    if (better) best = &one;
  }
  if (best == nullptr) {
    idle_after_ = last_seq_;
    return std::nullopt;
  }
  best->sent = true;
  ++counts_.sent;
  in_flight_.push_back({++last_seq_, now, delivered_, idle_after_.has_value()});
  return ExitReport{.pass = pass_,
                    .exit = best->guess.exit,
                    .leaf_id = best->guess.leaf_id,
                    .next_token = best->guess.next_token,
                    .confidence = confidence_byte(best->guess.confidence),
                    .seq = last_seq_};
}

Status ExitReporter::acknowledge(std::uint32_t seq, TimePoint now) {
  if (seq > last_seq_) {
    return failed_precondition("acked_reports: " + std::to_string(seq) +
                               " was never sent; the last exit report is " +
                               std::to_string(last_seq_));
  }
  if (seq <= acked_seq_) return {};
  acked_seq_ = seq;
  std::optional<InFlight> newest;
  while (!in_flight_.empty() && in_flight_.front().seq <= seq) {
    newest = in_flight_.front();
    in_flight_.pop_front();
    ++delivered_;
  }
  measure(*newest, now);
  if (idle_after_ && seq > *idle_after_) idle_after_.reset();
  if (!waiting()) idle_after_ = last_seq_;
  return {};
}

void ExitReporter::settle(Position acked) {
  while (!ended_.empty() && ended_.front().text_end <= acked) {
    acked_seq_ = std::max(acked_seq_, ended_.front().last_seq);
    ended_.pop_front();
  }
  while (!in_flight_.empty() && in_flight_.front().seq <= acked_seq_) in_flight_.pop_front();
}

// BBR's delivery rate: what was acknowledged since this report left, over that time.
void ExitReporter::measure(const InFlight& report, TimePoint now) {
  const Duration elapsed = now - report.sent_at;
  if (elapsed <= Duration{0}) return;
  shortest_ = std::min(shortest_.value_or(elapsed), elapsed);
  const double bytes = static_cast<double>(delivered_ - report.delivered_before) * kReportBytes;
  const double rate = bytes / to_seconds(elapsed);
  if (report.limited && product(rate) <= window_bytes()) return;
  rates_.push_back(rate);
  if (rates_.size() > kMeasurements) rates_.pop_front();
}

void ExitReporter::end_pass(Position text_end) {
  const bool in_flight = acked_seq_ < last_seq_;
  const bool known = !ended_.empty() && ended_.back().last_seq == last_seq_;
  if (in_pass_ && in_flight && !known) ended_.push_back({text_end, last_seq_});
  drop_waiting();
}

void ExitReporter::drop_waiting() {
  for (const Waiting& one : said_) counts_.dropped += one.sent ? 0 : 1;
  said_.clear();
  in_pass_ = false;
}

bool ExitReporter::waiting() const {
  return std::any_of(said_.begin(), said_.end(), [](const Waiting& one) { return !one.sent; });
}

std::uint32_t ExitReporter::window_bytes() const {
  if (rates_.empty()) return kInitialWindow;
  const double rate = *std::max_element(rates_.begin(), rates_.end());
  return std::max(static_cast<std::uint32_t>(product(rate)), kSmallestWindow);
}

// The window for a link of this rate.
double ExitReporter::product(double rate) const {
  return std::min(kWindowGain * rate * to_seconds(*shortest_), double{kLargestWindow});
}

}  // namespace outrider
