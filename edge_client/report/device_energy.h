// The energy that this device has used, by the best that it tells:
//
//   processors  RAPL's counters (common/serving/ledger/processor_energy.h)
//   board       a Jetson's power rails (jetson.h), over time
//   battery     the power that flows out of the batteries (battery.h), over time
//
// The last two are powers, which are read whenever joules() or sample() is called and counted as if
// they changed in a straight line between. So they are as fine as the calls are frequent. Other
// programs' use is in each of them.
//
// Thread rule: one thread at a time. Ownership: the clock outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/serving/ledger/processor_energy.h"

namespace outrider {

enum class EnergySource : std::uint8_t { kProcessors, kBoard, kBattery };

template <>
inline constexpr auto enum_names<EnergySource> =
    std::to_array<EnumName<EnergySource>>({{EnergySource::kProcessors, "processors"},
                                           {EnergySource::kBoard, "board"},
                                           {EnergySource::kBattery, "battery"}});

class DeviceEnergy final {
 public:
  // root: where proc, sys and run are looked for; "" but in tests. Nothing: this device tells none.
  static std::optional<DeviceEnergy> open(const Clock& clock, const std::string& root = "");

  EnergySource source() const { return source_; }

  // Joules since open(). Nothing: it cannot be read, or could not at some time since the last call,
  // as on a battery that was charged meanwhile.
  std::optional<double> joules();

  // Reads a power that was not read for a while. Costs nothing where a counter tells it.
  void sample();

 private:
  using Watts = std::function<std::optional<double>()>;

  DeviceEnergy(const Clock& clock, EnergySource source) : clock_(&clock), source_(source) {}

  void read_power();

  const Clock* clock_;
  EnergySource source_;
  std::optional<ProcessorEnergy> counters_;
  Watts watts_;  // empty: there are counters
  TimePoint read_at_{};
  std::optional<double> last_watts_;
  double joules_ = 0;
  bool gap_ = false;  // a power was not told since the last call of joules()
};

// Why this device tells no energy, for people: what was looked for.
std::string why_no_energy(const std::string& root = "");

}  // namespace outrider
