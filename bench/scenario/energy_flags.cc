// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/energy_flags.h"

#include <utility>

namespace outrider {

void add_energy_flags(CLI::App& command, EnergyFlags& flags, const char* group) {
  command
      .add_option("--device-file", flags.device_file,
                  "Power of the device's parts (a TOML file, as in bench/cost/devices): the report "
                  "lists modelled joules; virtual time only")
      ->group(group);
  command
      .add_option("--server-file", flags.server_file,
                  "The same of the server's share [the server's energy is not counted]")
      ->group(group);
  const auto add_size = [&](const char* flag, std::optional<double>& value, const char* what) {
    command.add_option(flag, value, what)->check(CLI::Range(0.0, 1e7))->group(group);
  };
  add_size("--draft-mb", flags.draft_mb,
           "Megabytes of weights that a step of the emulated draft reads [the draft's own]");
  add_size("--target-mb", flags.target_mb, "The same of a target's pass [the target's own]");
}

Result<std::optional<EnergyModel>> energy_model(const EnergyFlags& flags, int threads) {
  constexpr double kMb = 1e6;
  if (flags.device_file.empty()) {
    if (flags.server_file.empty() && !flags.draft_mb && !flags.target_mb) {
      return std::optional<EnergyModel>();
    }
    return invalid_argument(
        "--server-file, --draft-mb and --target-mb are beside --device-file, which is missing. "
        "Remedy: --device-file FILE, one of bench/cost/devices or your own");
  }
  EnergyModel model{.device = {}, .threads = threads};
  if (flags.draft_mb) model.draft_step_bytes = kMb * *flags.draft_mb;
  if (flags.target_mb) model.target_pass_bytes = kMb * *flags.target_mb;
  OUTRIDER_ASSIGN_OR_RETURN(model.device, read_device_power(flags.device_file));
  if (!flags.server_file.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(model.server, read_device_power(flags.server_file));
  }
  return std::optional(std::move(model));
}

}  // namespace outrider
