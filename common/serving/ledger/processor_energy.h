// The energy that this machine's processors have used, as the kernel reports it (RAPL,
// /sys/class/powercap): all packages whose counters this process may read. Other programs' use is
// in it as well.
//
// Thread rule: one thread at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace outrider {

class ProcessorEnergy final {
 public:
  // root: where sys is looked for; "" but in tests. Nothing: no counter can be read.
  static std::optional<ProcessorEnergy> open(const std::string& root = "");

  // Joules since open(). Nothing: a counter can no longer be read.
  std::optional<double> joules();

 private:
  // A counter of microjoules, which begins anew after its highest value.
  struct Counter {
    std::string path;
    std::uint64_t range = 0;
    std::uint64_t last = 0;
  };

  std::vector<Counter> counters_;
  std::uint64_t microjoules_ = 0;
};

}  // namespace outrider
