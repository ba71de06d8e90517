// SPDX-License-Identifier: Apache-2.0
#include "common/verify/reports/exit_report_channel.h"

#include <optional>

namespace outrider {

bool ExitReportChannel::acknowledge(const EdgeMessage& message) {
  const MutexLock lock(mu_);
  if (!status_.ok()) return false;
  status_ = reporter_.acknowledge(message.acked_reports, clock_.now());
  if (!status_.ok()) return false;
  reporter_.settle(message.acked_position);
  return reporter_.waiting();
}

void ExitReportChannel::send() {
  MutexLock lock(mu_);
  if (sending_) return;
  sending_ = true;
  while (const std::optional<ExitReport> report = reporter_.next(clock_.now())) {
    lock.unlock();
    emit_(*report);
    lock.lock();
  }
  sending_ = false;
}

void ExitReportChannel::begin_pass(std::uint32_t pass) {
  const MutexLock lock(mu_);
  reporter_.begin_pass(pass);
}

void ExitReportChannel::offer(const ExitGuess& guess) {
  {
    const MutexLock lock(mu_);
    reporter_.offer(guess);
  }
  send();
}

void ExitReportChannel::end_pass(Position text_end) {
  const MutexLock lock(mu_);
  reporter_.end_pass(text_end);
}

Status ExitReportChannel::status() const {
  const MutexLock lock(mu_);
  return status_;
}

ReportCounts ExitReportChannel::counts() const {
  const MutexLock lock(mu_);
  return reporter_.counts();
}

}  // namespace outrider
