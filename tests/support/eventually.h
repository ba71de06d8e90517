// Waiting in tests: for what must come, not for a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace outrider {

// Whether the condition came true within half a minute. A loaded machine may stand still for
// seconds; what has not come by then never comes.
template <typename Condition>
bool eventually(const Condition& condition) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace outrider
