// SPDX-License-Identifier: Apache-2.0
#include "common/serving/ledger/processor_energy.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>

namespace outrider {
namespace {

template <typename T>
std::optional<T> read_value(const std::string& path) {
  std::ifstream file(path);
  T value{};
  if (!(file >> value)) return std::nullopt;
  return value;
}

// "package-0", but neither a part of one (core, dram) nor the whole board (psys), which has them
// all in it again.
bool is_package(const std::string& folder) {
  return read_value<std::string>(folder + "/name").value_or("").starts_with("package-");
}

}  // namespace

std::optional<ProcessorEnergy> ProcessorEnergy::open(const std::string& root) {
  ProcessorEnergy energy;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/sys/class/powercap", error)) {
    const std::string folder = entry.path().string();
    if (!is_package(folder)) continue;
    const auto range = read_value<std::uint64_t>(folder + "/max_energy_range_uj");
    const auto now = read_value<std::uint64_t>(folder + "/energy_uj");
    if (range && now) energy.counters_.push_back({folder + "/energy_uj", *range, *now});
  }
  if (energy.counters_.empty()) return std::nullopt;
  return energy;
}

std::optional<double> ProcessorEnergy::joules() {
  for (Counter& counter : counters_) {
    const auto now = read_value<std::uint64_t>(counter.path);
    if (!now) return std::nullopt;
    const std::uint64_t began_anew = *now < counter.last ? counter.range : 0;
    microjoules_ += *now + began_anew - counter.last;
    counter.last = *now;
  }
  return static_cast<double>(microjoules_) / 1e6;
}

}  // namespace outrider
