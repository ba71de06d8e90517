// SPDX-License-Identifier: Apache-2.0
#include "common/verify/report_sender.h"

#include <algorithm>
#include <utility>

namespace outrider {

ReportSender::~ReportSender() {
  {
    const std::lock_guard lock(mu_);
    stopping_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void ReportSender::submit(std::shared_ptr<ExitReportChannel> channel) {
  {
    const std::lock_guard lock(mu_);
    if (std::find(channels_.begin(), channels_.end(), channel) != channels_.end()) return;
    channels_.push_back(std::move(channel));
  }
  wake_.notify_one();
}

void ReportSender::run() {
  while (true) {
    std::unique_lock lock(mu_);
    wake_.wait(lock, [this] { return stopping_ || !channels_.empty(); });
    if (stopping_) return;
    const auto channels = std::exchange(channels_, {});
    lock.unlock();
    for (const auto& channel : channels) channel->send();
  }
}

}  // namespace outrider
