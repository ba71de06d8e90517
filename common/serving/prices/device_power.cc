// SPDX-License-Identifier: Apache-2.0
#include "common/serving/prices/device_power.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/serving/cli/nearest.h"
#include "common/serving/prices/toml_table.h"

namespace outrider {
namespace {

constexpr const char* kPartRemedy = "give its figure, 0 if the device has no such part";
constexpr double kMaxCores = 1024;

constexpr std::array<TomlUnit, 2> kPower = {{{"W", 1}, {"mW", 1e-3}}};
constexpr std::array<TomlUnit, 4> kPerByte = {
    {{"nJ/B", 1e-9}, {"pJ/B", 1e-12}, {"uJ/B", 1e-6}, {"J/B", 1}}};
constexpr std::array<TomlUnit, 2> kTime = {{{"s", 1}, {"ms", 1e-3}}};

struct Part {
  const char* key;
  std::span<const TomlUnit> units;
  double DevicePower::*value;
};

constexpr std::array<Part, 9> kParts = {{{"idle", kPower, &DevicePower::idle_w},
                                         {"core", kPower, &DevicePower::core_w},
                                         {"gpu", kPower, &DevicePower::gpu_w},
                                         {"dram", kPerByte, &DevicePower::dram_j_per_byte},
                                         {"flash", kPerByte, &DevicePower::flash_j_per_byte},
                                         {"radio-up", kPerByte, &DevicePower::up_j_per_byte},
                                         {"radio-down", kPerByte, &DevicePower::down_j_per_byte},
                                         {"radio-tail", kTime, &DevicePower::tail_s},
                                         {"radio-tail-power", kPower, &DevicePower::tail_w}}};

Status check_estimates(const std::vector<std::string>& estimates, const std::string& path) {
  std::vector<std::string> known;
  for (const Part& part : kParts) known.emplace_back(part.key);
  for (const std::string& name : estimates) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string nearest = nearest_match(name, known);
    return invalid_argument(path + ": 'estimates' names no part: '" + name + "'" +
                            (nearest.empty() ? "" : "; did you mean '" + nearest + "'?"));
  }
  return {};
}

}  // namespace

Result<DevicePower> read_device_power(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const toml::table root, read_toml(path));
  TomlTable file(&root, path, "");
  DevicePower device;
  device.name = file.text("name", "name the device");
  const std::string computes = file.text("computes", "\"gpu\" or \"cores\"");
  const double cores = file.number("cores", "say how many cores it has");
  for (const Part& part : kParts) {
    device.*part.value = file.quantity(part.key, part.units, kPartRemedy);
  }
  device.estimates = file.texts("estimates");
  OUTRIDER_RETURN_IF_ERROR(file.finish());
  const auto unit = parse_name<ComputeUnit>(computes);
  if (!unit) {
    return invalid_argument(path + ": 'computes' is \"" + computes +
                            "\". Remedy: \"gpu\" or \"cores\"");
  }
  if (cores < 1 || cores > kMaxCores || cores != std::floor(cores)) {
    return invalid_argument(path + ": 'cores' must be a whole number from 1 to 1024");
  }
  device.computes = *unit;
  device.cores = static_cast<int>(cores);
  OUTRIDER_RETURN_IF_ERROR(check_estimates(device.estimates, path));
  return device;
}

}  // namespace outrider
