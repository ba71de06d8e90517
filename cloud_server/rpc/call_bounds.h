// How much may be in use of something that peers share, by each of them and in all: calls that are
// open, bytes of replies that nobody has read.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace outrider {

class CallBounds final {
 public:
  // what: how a refusal calls it. 0: no bound.
  CallBounds(std::string what, std::size_t of_one, std::size_t in_all)
      : what_(std::move(what)), of_one_(of_one), in_all_(in_all) {}

  // Somebody takes so much, more than nothing; leave() with the same when it is over. who:
  // network_of() an address, or a tenant; caller: how a refusal calls that. RESOURCE_EXHAUSTED: it
  // may not be taken.
  Status enter(const std::string& who, const char* caller, std::size_t amount = 1) {
    const MutexLock lock(mu_);
    if (in_all_ > 0 && all_ + amount > in_all_) {
      return resource_exhausted("this server has as many " + what_ + " as it may have");
    }
    const auto at = used_.find(who);
    if (of_one_ > 0 && (at == used_.end() ? 0 : at->second) + amount > of_one_) {
      return resource_exhausted(std::string(caller) + " has as many " + what_ +
                                " as it may have, " + std::to_string(of_one_));
    }
    used_[who] += amount;
    all_ += amount;
    return {};
  }
  void leave(const std::string& who, std::size_t amount = 1) {
    const MutexLock lock(mu_);
    const auto at = used_.find(who);
    if (at == used_.end()) return;
    all_ -= amount;
    at->second -= amount;
    if (at->second == 0) used_.erase(at);
  }

 private:
  const std::string what_;
  const std::size_t of_one_;
  const std::size_t in_all_;
  Mutex mu_;
  std::map<std::string, std::size_t> used_ OUTRIDER_GUARDED_BY(mu_);
  std::size_t all_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

}  // namespace outrider
