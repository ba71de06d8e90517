// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/battery.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <vector>

namespace outrider {
namespace {

// The first word; empty: the file is missing or empty, or the kernel has no figure (ENODATA).
std::string word_in(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::string word;
  file >> word;
  return word;
}

// Drivers differ in the sign of a current that flows out.
std::optional<double> size_in(const std::filesystem::path& path) {
  const std::string word = word_in(path);
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || end != word.data() + word.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return std::abs(value);
}

BatteryPower power_of(const std::filesystem::path& battery) {
  constexpr double kMicro = 1e-6;
  const std::string name = battery.filename().string();
  const std::string status = word_in(battery / "status");
  if (status != "Discharging") {
    return {.watts = {},
            .why_not = name + (status.empty() ? " has no status" : " is " + status) +
                       ": a battery reports the device's power only while it discharges"};
  }
  if (const auto power = size_in(battery / "power_now"); power && *power > 0) {
    return {.watts = *power * kMicro};
  }
  const auto current = size_in(battery / "current_now"), voltage = size_in(battery / "voltage_now");
  if (current && voltage && *current > 0 && *voltage > 0) {
    return {.watts = *current * kMicro * *voltage * kMicro};
  }
  return {.watts = {},
          .why_not = name + " reports neither power_now nor current_now and voltage_now"};
}

}  // namespace

std::optional<BatteryPower> read_battery(const std::string& root) {
  std::vector<std::filesystem::path> batteries;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/sys/class/power_supply", error)) {
    if (word_in(entry.path() / "type") != "Battery") continue;
    if (word_in(entry.path() / "scope") != "Device") batteries.push_back(entry.path());
  }
  if (batteries.empty()) return std::nullopt;
  std::ranges::sort(batteries);
  BatteryPower all{.watts = 0.0};
  for (const auto& battery : batteries) {
    const BatteryPower one = power_of(battery);
    if (!one.watts) return one;
    *all.watts += *one.watts;
  }
  return all;
}

}  // namespace outrider
