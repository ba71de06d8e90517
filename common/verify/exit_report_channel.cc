// SPDX-License-Identifier: Apache-2.0
#include "common/verify/exit_report_channel.h"

namespace outrider {

void ReportLane::begin_pass(std::uint32_t pass) {
  const std::lock_guard lock(mu_);
  reporter_.begin_pass(pass);
}

void ReportLane::offer(const ExitGuess& guess) {
  const std::lock_guard lock(mu_);
  reporter_.offer(guess);
}

Status ReportLane::acknowledge(std::uint32_t seq, TimePoint now) {
  const std::lock_guard lock(mu_);
  return reporter_.acknowledge(seq, now);
}

void ReportLane::end_pass(Position text_end) {
  const std::lock_guard lock(mu_);
  reporter_.end_pass(text_end);
}

void ReportLane::settle(Position acked) {
  const std::lock_guard lock(mu_);
  reporter_.settle(acked);
}

bool ReportLane::waiting() const {
  const std::lock_guard lock(mu_);
  return reporter_.waiting();
}

ReportCounts ReportLane::counts() const {
  const std::lock_guard lock(mu_);
  return reporter_.counts();
}

void ReportLane::send(Clock& clock, const std::function<void(const ExitReport&)>& emit) {
  std::unique_lock lock(mu_);
  if (sending_) return;
  sending_ = true;
  while (const std::optional<ExitReport> report = reporter_.next(clock.now())) {
    lock.unlock();
    emit(*report);
    lock.lock();
  }
  sending_ = false;
}

}  // namespace outrider
