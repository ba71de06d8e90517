// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/device_energy.h"

#include <utility>

#include "edge_client/report/battery.h"
#include "edge_client/report/jetson.h"

namespace outrider {
namespace {

// A sensor of a rail averages over about as long, and takes some milliseconds to read.
constexpr Duration kBetweenReadings = std::chrono::milliseconds(100);

}  // namespace

std::optional<DeviceEnergy> DeviceEnergy::open(const Clock& clock, const std::string& root) {
  DeviceEnergy energy(clock, EnergySource::kProcessors);
  energy.counters_ = ProcessorEnergy::open(root);
  if (energy.counters_) return energy;
  if (!read_jetson_watts(root).empty()) {
    energy.source_ = EnergySource::kBoard;
    energy.watts_ = [root] { return board_watts(read_jetson_watts(root)); };
  } else if (read_battery(root)) {
    energy.source_ = EnergySource::kBattery;
    energy.watts_ = [root] {
      const std::optional<BatteryPower> battery = read_battery(root);
      return battery ? battery->watts : std::nullopt;
    };
  } else {
    return std::nullopt;
  }
  energy.last_watts_ = energy.watts_();
  energy.read_at_ = clock.now();
  return energy;
}

std::optional<double> DeviceEnergy::joules() {
  if (counters_) return counters_->joules();
  read_power();
  return std::exchange(gap_, !last_watts_) ? std::nullopt : std::optional(joules_);
}

void DeviceEnergy::sample() {
  if (watts_ && clock_->now() - read_at_ >= kBetweenReadings) read_power();
}

void DeviceEnergy::read_power() {
  const TimePoint now = clock_->now();
  const std::optional<double> watts = watts_();
  if (watts && last_watts_) {
    joules_ += (*watts + *last_watts_) / 2 * to_seconds(now - read_at_);
  } else {
    gap_ = true;
  }
  last_watts_ = watts;
  read_at_ = now;
}

std::string why_no_energy(const std::string& root) {
  std::string why = "no RAPL counter can be read, and this is no Jetson with power rails";
  const std::optional<BatteryPower> battery = read_battery(root);
  return why +
         (battery && !battery->why_not.empty() ? "; " + battery->why_not : "; there is no battery");
}

}  // namespace outrider
