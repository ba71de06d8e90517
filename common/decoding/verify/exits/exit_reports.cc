// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/exits/exit_reports.h"

#include <algorithm>
#include <string>

namespace outrider {

void ExitReportWindow::begin_pass(std::uint32_t pass) {
  drop_waiting();
  pass_ = pass;
  in_pass_ = true;
}

void ExitReportWindow::offer(const ExitGuess& guess) {
  if (!in_pass_) return;
  ++counts_.computed;
  const double chance = queue_ == ReportQueue::kGain
                            ? calibration_.hear(guess.layer, guess.confidence, guess.outcome)
                            : guess.confidence;
  const auto same = std::find_if(said_.begin(), said_.end(), [&](const Waiting& other) {
    return other.guess.leaf_id == guess.leaf_id && other.guess.next_token == guess.next_token &&
           other.guess.path == guess.path;
  });
  if (same == said_.end()) {
    said_.push_back({guess, chance});
    return;
  }
  // While it waits, a second exit of the same opinion may lend it weight.
  ++counts_.deduplicated;
  if (!same->sent && chance > same->chance) *same = {guess, chance};
}

std::optional<ExitReport> ExitReportWindow::next() {
  if (in_flight() >= kMaxInFlight) return std::nullopt;
  Waiting* best = nullptr;
  for (Waiting& one : said_) {
    if (one.sent) continue;
    const bool better =
        best == nullptr || (queue_ != ReportQueue::kFifo && one.chance > best->chance);
    if (better) best = &one;
  }
  if (best == nullptr) return std::nullopt;
  best->sent = true;
  ++counts_.sent;
  return ExitReport{.pass = pass_,
                    .exit = best->guess.exit,
                    .leaf_id = best->guess.leaf_id,
                    .next_token = best->guess.next_token,
                    .confidence = confidence_byte(best->guess.confidence),
                    .seq = ++last_seq_,
                    .path = best->guess.path};
}

Status ExitReportWindow::acknowledge(std::uint32_t seq) {
  if (seq > last_seq_) {
    return failed_precondition("acked_reports: " + std::to_string(seq) +
                               " was never sent; the last exit report is " +
                               std::to_string(last_seq_));
  }
  acked_seq_ = std::max(acked_seq_, seq);
  return {};
}

void ExitReportWindow::settle(Position acked) {
  while (!ended_.empty() && ended_.front().text_end <= acked) {
    acked_seq_ = std::max(acked_seq_, ended_.front().last_seq);
    ended_.pop_front();
  }
}

void ExitReportWindow::end_pass(Position text_end, std::span<const TokenId> verdict) {
  if (!verdict.empty()) calibration_.on_verdict(verdict);
  const bool known = !ended_.empty() && ended_.back().last_seq == last_seq_;
  if (in_pass_ && in_flight() > 0 && !known) ended_.push_back({text_end, last_seq_});
  drop_waiting();
}

void ExitReportWindow::drop_waiting() {
  for (const Waiting& one : said_) counts_.dropped += one.sent ? 0 : 1;
  said_.clear();
  calibration_.on_pass_lost();
  in_pass_ = false;
}

void ExitReportChannel::acknowledge(const EdgeMessage& message) {
  const MutexLock lock(mu_);
  if (!status_.ok()) return;
  status_ = window_.acknowledge(message.acked_reports);
  if (status_.ok()) window_.settle(message.acked_position);
}

void ExitReportChannel::begin_pass(std::uint32_t pass) {
  const MutexLock lock(mu_);
  window_.begin_pass(pass);
}

void ExitReportChannel::offer(const ExitGuess& guess) {
  MutexLock lock(mu_);
  window_.offer(guess);
  while (const std::optional<ExitReport> report = window_.next()) {
    lock.unlock();
    emit_(*report);
    lock.lock();
  }
}

void ExitReportChannel::end_pass(Position text_end, std::span<const TokenId> verdict) {
  const MutexLock lock(mu_);
  window_.end_pass(text_end, verdict);
}

Status ExitReportChannel::status() const {
  const MutexLock lock(mu_);
  return status_;
}

ReportCounts ExitReportChannel::counts() const {
  const MutexLock lock(mu_);
  return window_.counts();
}

}  // namespace outrider
