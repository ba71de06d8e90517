// The power that this device takes from its batteries, as the kernel reports it
// (/sys/class/power_supply; Documentation/ABI/testing/sysfs-class-power): microwatts, or
// microamperes times microvolts. A battery tells it only while it discharges: on mains it says what
// charges it. Batteries of peripherals (scope "Device") are left out.
//
// Thread rule: functions without state, which read files. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace outrider {

struct BatteryPower {
  std::optional<double> watts;  // of all batteries together
  std::string why_not = {};     // where nothing is told: for people, with the battery's name
};

// root: where sys is looked for; "" but in tests. Nothing: there is no battery.
std::optional<BatteryPower> read_battery(const std::string& root = "");

}  // namespace outrider
