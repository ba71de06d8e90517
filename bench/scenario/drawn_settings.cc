// SPDX-License-Identifier: Apache-2.0
#include "bench/scenario/drawn_settings.h"

#include <fmt/core.h>

#include <utility>

#include "bench/paces/paces.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

constexpr const char* kDevices = "table9-5ms";  // its own link takes no part

Result<std::vector<GridSetting>> all_settings(const DrawnFrom& from) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PaperPace> paces, find_paces({kDevices}));
  const PaceCurve pass = pass_curve(paces.front());
  const PaceCurve step = step_curve(paces.front());
  std::vector<GridSetting> all;
  for (const LinkProfile& network : from.networks) {
    for (const double target : from.target_scales) {
      for (const double draft : from.draft_scales) {
        for (const double temperature : from.temperatures) {
          GridSetting setting;
          setting.name = fmt::format("{}, target x{:g}, draft x{:g}, T={:g}", network.name, target,
                                     draft, temperature);
          setting.network = network.name;
          setting.pass = pass.scaled(target);
          setting.step = step.scaled(draft);
          setting.link = network;
          setting.link_kind = LinkKind::kBest;
          setting.sampling.temperature = static_cast<float>(temperature);
          all.push_back(std::move(setting));
        }
      }
    }
  }
  return all;
}

}  // namespace

Result<std::vector<GridSetting>> draw_settings(const DrawnFrom& from, std::size_t count,
                                               std::uint64_t seed) {
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<GridSetting> all, all_settings(from));
  if (count > all.size()) {
    return invalid_argument(
        fmt::format("--settings {}: there are {} to draw from. Remedy: fewer, or more --network",
                    count, all.size()));
  }
  SeededRandom random(seed);
  random.draw_first(all, count);
  all.resize(count);
  return all;
}

DrawnFlags drawn_flags() {
  DrawnFlags flags;
  flags.plan.target = "models/demo-target";
  flags.plan.draft = "models/demo-draft";
  flags.plan.max_tokens = 48;
  return flags;
}

void add_drawn_flags(CLI::App& command, DrawnFlags& flags) {
  command.add_option("--target", flags.plan.target, "Target: a directory or a GGUF file");
  command.add_option("--draft", flags.plan.draft, "Draft: a directory or a GGUF file");
  add_prompts_flag(command, flags.prompts);
  command.add_option("--num-prompts", flags.num_prompts, "Prompts to measure with")
      ->check(CLI::Range(1, 100'000));
  command.add_option("--max-tokens", flags.plan.max_tokens, "Tokens of each answer")
      ->check(CLI::Range(2, 1'000'000));
  command.add_option("--network", flags.networks, "Networks to draw from, separated by commas");
  command.add_option("--settings", flags.settings, "Number of settings to draw")
      ->check(CLI::Range(1, 1000));
  command.add_option("--seed", flags.plan.seed, "Seed of the draw, the answers and the links");
}

}  // namespace outrider
