// SPDX-License-Identifier: Apache-2.0
#include "common/verify/reports/report_sender.h"

#include <algorithm>
#include <utility>

namespace outrider {

ReportSender::~ReportSender() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ReportSender::submit(std::shared_ptr<ExitReportChannel> channel) {
  {
    const MutexLock lock(mu_);
    if (std::find(channels_.begin(), channels_.end(), channel) != channels_.end()) return;
    channels_.push_back(std::move(channel));
  }
  wake_.notify_one();
}

void ReportSender::run() {
  while (true) {
    MutexLock lock(mu_);
    while (!stopping_ && channels_.empty()) wake_.wait(mu_);
    if (stopping_) return;
    const auto channels = std::exchange(channels_, {});
    lock.unlock();
    for (const auto& channel : channels) channel->send();
  }
}

}  // namespace outrider
