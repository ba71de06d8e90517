// A thread that sends the exit reports for which an acknowledgement has made room, so that no
// stream's sink runs on the thread that brought the acknowledgement.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <thread>
#include <vector>

#include "common/base/mutex.h"
#include "common/verify/reports/exit_report_channel.h"

namespace outrider {

class ReportSender final {
 public:
  ReportSender() : thread_([this] { run(); }) {}
  // Waits for the sink that runs. What was not sent yet is not sent.
  ~ReportSender();
  ReportSender(const ReportSender&) = delete;
  ReportSender& operator=(const ReportSender&) = delete;

  // Has the channel send what may go now, soon.
  void submit(std::shared_ptr<ExitReportChannel> channel);

 private:
  void run();

  Mutex mu_;
  CondVar wake_;
  std::vector<std::shared_ptr<ExitReportChannel>> channels_ OUTRIDER_GUARDED_BY(mu_);  // each once
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace outrider
