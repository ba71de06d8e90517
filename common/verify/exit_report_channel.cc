// SPDX-License-Identifier: Apache-2.0
#include "common/verify/exit_report_channel.h"

namespace outrider {

void ExitReportChannel::begin_pass(std::uint32_t pass) {
  const std::lock_guard lock(mu_);
  reporter_.begin_pass(pass);
}

void ExitReportChannel::offer(const ExitGuess& guess) {
  const std::lock_guard lock(mu_);
  reporter_.offer(guess);
}

Status ExitReportChannel::acknowledge(std::uint32_t seq, TimePoint now) {
  const std::lock_guard lock(mu_);
  return reporter_.acknowledge(seq, now);
}

void ExitReportChannel::end_pass(Position text_end) {
  const std::lock_guard lock(mu_);
  reporter_.end_pass(text_end);
}

void ExitReportChannel::settle(Position acked) {
  const std::lock_guard lock(mu_);
  reporter_.settle(acked);
}

bool ExitReportChannel::waiting() const {
  const std::lock_guard lock(mu_);
  return reporter_.waiting();
}

ReportCounts ExitReportChannel::counts() const {
  const std::lock_guard lock(mu_);
  return reporter_.counts();
}

void ExitReportChannel::send(Clock& clock, const std::function<void(const ExitReport&)>& emit) {
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
