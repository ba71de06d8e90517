// Ctrl-C and SIGTERM as a calm event: the first asks the work to end well, the second ends the
// process at once with 130. SIGHUP opens the log's file again (common/serving/telemetry/log.h);
// where the log has no file, it is a terminal that is gone, and means SIGTERM, or nothing under
// nohup.
//
// The signals are blocked in every thread and taken by one thread with sigwait(), so no code runs
// inside a signal handler. Construct it first of all in main(): threads inherit the mask, and a
// signal that comes earlier ends the process as signals do.
//
// Thread rule: on_interrupt() from any thread; the callback runs on the signal thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "common/base/mutex.h"

namespace outrider {

inline constexpr int kExitInterrupted = 130;

class Interrupts final {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  // Sets the action of the first signal from now on. nullptr: it ends the process (nothing to end
  // well). Setting it forgets earlier signals.
  void on_interrupt(std::function<void()> callback);
  // SIGTERM or a hang-up has come: its sender means the program, not the work at hand.
  bool terminated() const { return terminated_; }

 private:
  void wait_for_signals();

  Mutex mu_;
  std::function<void()> callback_ OUTRIDER_GUARDED_BY(mu_);
  bool interrupted_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::atomic<bool> terminated_{false};
  std::atomic<bool> stopping_{false};
  bool ignores_hangup_ = false;
  std::thread thread_;
};

}  // namespace outrider
