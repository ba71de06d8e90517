// SPDX-License-Identifier: Apache-2.0
#include "bench/report/energy_report.h"

#include <fmt/core.h>

#include <utility>

#include "common/base/json_record.h"

namespace outrider {
namespace {

std::string estimates_of(const DevicePower& device) {
  std::string text;
  for (const std::string& part : device.estimates) text += (text.empty() ? "" : ", ") + part;
  return text.empty() ? "none is an estimate" : "estimates: " + text;
}

Json device_json(const DevicePower& device) {
  return {{"name", device.name},
          {"computes", name_of(device.computes)},
          {"estimates", device.estimates}};
}

}  // namespace

TextTable energy_table(std::span<const CellReport> cells) {
  TextTable table{.heads = {"setting", "strategy", "J per token", "of the device", "of the server",
                            "J per answer", "device: idle", "compute", "DRAM", "radio", "tail"},
                  .rows = {}};
  for (const CellReport& cell : cells) {
    if (!cell.energy) continue;
    const CellEnergy& energy = *cell.energy;
    const double tokens = energy.tokens_per_answer;
    const auto per_token = [&](double joules) { return fmt::format("{:.4g}", joules / tokens); };
    const EnergyParts& device = energy.mean.device;
    table.rows.push_back(
        {cell.setting->name, cell.variant->name, per_token(energy.mean.joules),
         per_token(device.sum()),
         energy.mean.server ? per_token(energy.mean.server->sum()) : std::string("–"),
         fmt::format("{:.4g}", energy.mean.joules), per_token(device.idle),
         per_token(device.compute), per_token(device.dram), per_token(device.radio),
         per_token(device.tail)});
  }
  return table;
}

std::string energy_markdown(const std::optional<EnergyModel>& model,
                            std::span<const CellReport> cells) {
  if (!model) return "";
  std::string devices = fmt::format("{} ({})", model->device.name, estimates_of(model->device));
  if (model->server) {
    devices += fmt::format(", and {} ({})", model->server->name, estimates_of(*model->server));
  }
  return fmt::format(
      "\n## Energy, modelled\n\nNothing here was measured: each part's power, from a file, times "
      "how long it worked. Devices: {}; {} thread(s). Joules per token, except in the column "
      "that says otherwise; parts are the device's.\n\n{}",
      devices, model->threads, to_markdown(energy_table(cells)));
}

Json to_json(const std::optional<EnergyModel>& model) {
  if (!model) return {};
  return {{"modelled", true},
          {"device", device_json(model->device)},
          {"server", model->server ? device_json(*model->server) : Json()},
          {"threads", model->threads},
          {"draft_step_bytes", write_json(model->draft_step_bytes)},
          {"target_pass_bytes", write_json(model->target_pass_bytes)}};
}

}  // namespace outrider
