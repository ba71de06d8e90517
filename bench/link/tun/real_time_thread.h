// Scheduling ahead of all ordinary work, for threads whose delays would be measured as the link's.
// Thread rule: pure functions of the calling thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>

namespace outrider {

// False if it was refused; the thread goes on as before.
inline bool make_real_time(int priority) {
  prctl(PR_SET_TIMERSLACK, 1UL);  // where it is refused, timers are exact at least
  const sched_param parameters{.sched_priority = priority};
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &parameters) == 0;
}

// The link comes before what measures it.
inline constexpr int kForwarderPriority = 50;
inline constexpr int kProbePriority = 40;

}  // namespace outrider
