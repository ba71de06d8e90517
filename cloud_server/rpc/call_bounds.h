// How many calls may be open, of one peer's address and in all, before anything is known of them.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "common/base/mutex.h"
#include "common/base/status.h"

namespace outrider {

class CallBounds final {
 public:
  // 0: no bound.
  CallBounds(std::size_t of_peer, std::size_t in_all) : of_peer_(of_peer), in_all_(in_all) {}

  // A call of this address begins; leave() when it is over. RESOURCE_EXHAUSTED: it may not.
  Status enter(const std::string& host) {
    const MutexLock lock(mu_);
    if (in_all_ > 0 && all_ >= in_all_) {
      return resource_exhausted("this server has as many open calls as it may have");
    }
    std::size_t& count = calls_[host];
    if (of_peer_ > 0 && count >= of_peer_) {
      return resource_exhausted("this address has as many open calls as it may have, " +
                                std::to_string(of_peer_));
    }
    ++count;
    ++all_;
    return {};
  }
  void leave(const std::string& host) {
    const MutexLock lock(mu_);
    const auto at = calls_.find(host);
    if (at == calls_.end()) return;
    --all_;
    if (--at->second == 0) calls_.erase(at);
  }

 private:
  const std::size_t of_peer_;
  const std::size_t in_all_;
  Mutex mu_;
  std::map<std::string, std::size_t> calls_ OUTRIDER_GUARDED_BY(mu_);
  std::size_t all_ OUTRIDER_GUARDED_BY(mu_) = 0;
};

}  // namespace outrider
