// From which addresses too many wrong keys came lately.
//
// An address may bring so many at once, and then one in a while; those of which nothing is
// remembered any more are forgotten. Time is an argument.
// Thread rule: none of its own. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "common/base/clock.h"

namespace outrider {

class WrongKeys final {
 public:
  static constexpr double kAtOnce = 20;
  static constexpr Duration kOneIn = std::chrono::seconds(2);
  // How many addresses are remembered: beyond it the one with the fewest wrong keys is forgotten.
  static constexpr std::size_t kHosts = 4096;

  // A wrong key came from this address.
  void add(const std::string& host, TimePoint now);
  // The address has brought so many that its next key is not looked at.
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
