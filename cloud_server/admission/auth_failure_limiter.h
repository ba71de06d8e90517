// Limits how fast an address may try wrong keys.
//
// An address may send kBurst wrong keys at once, then one per kRetryInterval. Addresses whose debt
// has expired are forgotten. Time is an argument. Thread rule: one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "common/base/clock.h"

namespace outrider {

class AuthFailureLimiter final {
 public:
  static constexpr double kBurst = 20;
  static constexpr Duration kRetryInterval = std::chrono::seconds(2);
  // Most addresses that are remembered; beyond it the one with the fewest wrong keys is forgotten.
  static constexpr std::size_t kHosts = 4096;

  // This address sent a wrong key.
  void add(const std::string& host, TimePoint now);
  // Whether the address has sent so many that its next key must not be checked.
  bool too_many(const std::string& host, TimePoint now) const;

  std::size_t hosts() const { return debts_.size(); }

 private:
  struct Debt {
    double keys = 0;
    TimePoint at{};
  };
  static double left(const Debt& debt, TimePoint now);
  void forget_one(TimePoint now);

  std::map<std::string, Debt> debts_;
};

}  // namespace outrider
