// SPDX-License-Identifier: Apache-2.0
#include "bench/lab/flash_bandwidth.h"

#include <charconv>
#include <string>
#include <utility>

namespace outrider {
namespace {

// Sequential reads as vendors print them for devices of each kind.
constexpr std::pair<std::string_view, double> kKinds[] = {
    {"ufs3.1", 2.1e9}, {"ufs4.0", 4.2e9}, {"ufs4.1", 4.3e9}, {"nvme", 3.5e9}};
constexpr std::pair<std::string_view, double> kUnits[] = {
    {"KB/s", 1e3}, {"MB/s", 1e6}, {"GB/s", 1e9}};

}  // namespace

Result<double> parse_bandwidth(std::string_view text) {
  for (const auto& [kind, rate] : kKinds) {
    if (text == kind) return rate;
  }
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && number > 0 && number < 1e12) {
    const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
    for (const auto& [unit, factor] : kUnits) {
      if (rest == unit) return number * factor;
    }
  }
  return invalid_argument(
      "flash bandwidth " + printable(std::string(text)) +
      ": must be a rate as 400MB/s or 1.5GB/s, or ufs3.1, ufs4.0, ufs4.1, nvme");
}

}  // namespace outrider
