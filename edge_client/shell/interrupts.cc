// SPDX-License-Identifier: Apache-2.0
#include "edge_client/shell/interrupts.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <utility>

#include "common/serving/telemetry/log.h"

namespace outrider {
namespace {

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGHUP);
  return set;
}

}  // namespace

Interrupts::Interrupts() {
  struct sigaction hangup {};
  ignores_hangup_ = sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler == SIG_IGN;
  const sigset_t set = watched_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { wait_for_signals(); });
}

Interrupts::~Interrupts() {
  stopping_ = true;
  pthread_kill(thread_.native_handle(), SIGINT);
  thread_.join();
}

void Interrupts::on_interrupt(std::function<void()> callback) {
  const MutexLock lock(mu_);
  callback_ = std::move(callback);
  interrupted_ = false;
}

void Interrupts::wait_for_signals() {
  const sigset_t set = watched_signals();
  while (true) {
    int signal_number = 0;
    if (sigwait(&set, &signal_number) != 0 || stopping_) return;
    if (signal_number == SIGHUP && (reopen_log_file() || ignores_hangup_)) continue;
    const MutexLock lock(mu_);
    if (signal_number != SIGINT) terminated_ = true;
    if (interrupted_ || callback_ == nullptr) _exit(kExitInterrupted);
    interrupted_ = true;
    callback_();
  }
}

}  // namespace outrider
