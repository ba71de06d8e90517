// SPDX-License-Identifier: Apache-2.0
#include "edge_client/doctor/device_doctor.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <ranges>
#include <utility>

namespace outrider {
namespace {

// Plain decoding answers so many prompts at least, and more until this time is over. The first
// third of them chooses; who is the best so far answers the others too.
constexpr std::size_t kMinPrompts = 6;
constexpr Duration kPlainFor = std::chrono::seconds(60);
std::size_t choosing(std::size_t prompts) {
  return prompts / 3;
}

constexpr double kSlowed = 1.1;  // a pass that takes so many times as long is noted

// All but what drafts.
GenerationConfig without_drafter(GenerationConfig config) {
  config.model.clear();
  config.draft_level.clear();
  config.draft_source = DraftSource::kNone;
  return config;
}

// The time of the first answers, at most this many; ms.
double sum_of(const TriedDrafter& figures, std::size_t most) {
  double sum = 0;
  for (const TrialAnswers::Taken& taken : figures.answers | std::views::take(most)) {
    sum += taken.ms.value_or(0);
  }
  return sum;
}

}  // namespace

std::string to_text(const std::vector<TriedDrafter>& figures) {
  std::string text = fmt::format("{:>7} {:>10} {:>10} {:>10} {:>10} {:>7}  drafted by\n", "answers",
                                 "a token", "a token", "a pass", "a step", "stood");
  const auto ms = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.4g} ms", *value) : std::string("-");
  };
  for (const TriedDrafter& each : figures) {
    const std::optional<double>& stood = each.found.acceptance;
    const std::optional<double>& joules = each.found.joules;
    text += fmt::format("{:>7} {:>10} {:>10} {:>10} {:>10} {:>7}  {}\n", each.answers.size(),
                        ms(each.ms_per_token), joules ? fmt::format("{:.3g} J", *joules) : "-",
                        ms(each.found.pass_ms), ms(each.found.step_ms),
                        stood ? fmt::format("{:.0f} %", 100 * *stood) : "-", name_of(each.way));
  }
  const std::optional<double> alone = figures.front().found.pass_ms;
  for (const TriedDrafter& each : figures) {
    if (!alone || !each.found.pass_ms || *each.found.pass_ms < kSlowed * *alone) continue;
    text +=
        fmt::format("With {} a pass takes {:.2f} times as long: of more rows, on shared cores.\n",
                    name_of(each.way), *each.found.pass_ms / *alone);
  }
  return text;
}

Json to_json(const TriedDrafter& figures) {
  const auto json_of = [](const std::optional<double>& value) {
    return value ? Json(*value) : Json();
  };
  return {{"way", name_of(figures.way)},
          {"answers", figures.answers.size()},
          {"ms_per_token", json_of(figures.ms_per_token)},
          {"joules_per_token", json_of(figures.found.joules)},
          {"target_pass_ms", json_of(figures.found.pass_ms)},
          {"draft_step_ms", json_of(figures.found.step_ms)},
          {"acceptance_rate", json_of(figures.found.acceptance)}};
}

DeviceDoctor::DeviceDoctor(GenerationConfig config, std::vector<std::string> prompts,
                           AnswerListener& listener,
                           std::function<void(const std::string&)> on_line, std::stop_token stop)
    : config_(std::move(config)),
      prompts_(std::move(prompts)),
      listener_(listener),
      on_line_(std::move(on_line)),
      stop_(std::move(stop)) {}

Result<Advice> DeviceDoctor::examine() {
  if (prompts_.size() < kMinPrompts) {
    return invalid_argument("doctor needs " + std::to_string(kMinPrompts) +
                            " prompts for a target " + "on this device and has " +
                            std::to_string(prompts_.size()) +
                            ", as look-up finds again what it has answered. Remedy: more -p of "
                            "different text, or none");
  }
  OUTRIDER_RETURN_IF_ERROR(try_plain());
  for (const Drafter& drafter : drafters()) {
    OUTRIDER_RETURN_IF_ERROR(try_one(drafter).status());
  }
  // The largest level that fits: smaller ones are in memory too, and are right more rarely.
  for (const std::string& level : levels_) {
    OUTRIDER_ASSIGN_OR_RETURN(const bool fits, try_one(level_drafter(level)));
    if (fits) break;
  }
  return judge();
}

// The drafters that the user named, or else all whose files are at hand.
std::vector<DeviceDoctor::Drafter> DeviceDoctor::drafters() const {
  std::vector<Drafter> drafters;
  const auto add = [&](DraftSource source, const std::string& model, std::string flags) {
    GenerationConfig config = without_drafter(config_);
    config.draft_source = source;
    config.model = model;
    drafters.push_back({std::move(flags), std::move(config)});
  };
  if (!config_.draft_level.empty()) drafters.push_back(level_drafter(config_.draft_level));
  const std::string model = config_.model.empty() ? "" : "--model " + config_.model + " ";
  if (config_.draft_source && config_.draft_level.empty()) {
    const std::string source(name_of(*config_.draft_source));
    add(*config_.draft_source, config_.model, model + "--draft-source " + source);
    return drafters;
  }
  add(DraftSource::kLookup, "", "--draft-source lookup");
  if (!model.empty()) {
    add(DraftSource::kModel, config_.model, model + "--draft-source model");
    add(DraftSource::kBoth, config_.model, model + "--draft-source both");
  }
  return drafters;
}

DeviceDoctor::Drafter DeviceDoctor::level_drafter(const std::string& level) const {
  GenerationConfig config = without_drafter(config_);
  config.draft_source = DraftSource::kModel;
  config.draft_level = level;
  return {"--draft-level " + level, std::move(config)};
}

Status DeviceDoctor::try_plain() {
  const Drafter plain{"--draft-source none", without_drafter(config_)};
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSetup> setup, EdgeSetup::load(plain.config));
  OUTRIDER_ASSIGN_OR_RETURN(TrialAnswers trials,
                            TrialAnswers::of(*setup, prompts_, on_line_, stop_));
  trials_.emplace(std::move(trials));
  const ElasticTarget* elastic = setup->parts().elastic;
  const bool has_budget = setup->flash() != nullptr && config_.flash.memory_budget > 0;
  if (elastic != nullptr && has_budget && config_.draft_level.empty() && !config_.draft_source) {
    for (const ElasticLevel& level : elastic->levels()) levels_.push_back(level.name);
    levels_.erase(levels_.begin());  // the full model
  }
  return measure(plain, *setup);
}

Result<bool> DeviceDoctor::try_one(const Drafter& drafter) {
  const Result<std::unique_ptr<EdgeSetup>> setup = EdgeSetup::load(drafter.config);
  if (!setup.ok()) {
    on_line_(drafter.flags + " cannot be tried: " + setup.status().message() + "\n");
    return false;
  }
  OUTRIDER_RETURN_IF_ERROR(measure(drafter, **setup));
  return true;
}

Status DeviceDoctor::measure(const Drafter& drafter, EdgeSetup& setup) {
  TriedDrafter figures;
  figures.way = {.who = drafter.flags, .strategy = {}};
  AnswerConfig config = drafter.config.answer;
  if (!config.speculation.strategy && config.speculation.tree.kind == TreeKind::kChain) {
    config.speculation.tree.kind = default_trees(drafter.config).always;
  }
  Generator generator(setup.parts(), listener_);
  trials_->forget();
  OUTRIDER_RETURN_IF_ERROR(trials_->warm_up(generator, config, figures.way));
  const TimePoint until = std::chrono::steady_clock::now() + kPlainFor;
  const auto goes_on = [&](std::size_t done) {
    if (!figures_.empty()) return done < figures_.front().answers.size() && may_be_best(figures);
    return done < kMinPrompts ||
           (done < prompts_.size() && std::chrono::steady_clock::now() < until);
  };
  double tokens = 0;
  for (std::size_t i = 0; goes_on(i); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(TrialAnswers::Taken taken,
                              trials_->answer(generator, i, config, figures.way));
    if (taken.ms) tokens += static_cast<double>(taken.ids.size());
    figures.answers.push_back(std::move(taken));
  }
  figures.found = surroundings_of(trials_->records(), {});
  if (tokens > 0) figures.ms_per_token = sum_of(figures, figures.answers.size()) / tokens;
  figures_.push_back(std::move(figures));
  return {};
}

// Whose answers that choose took less than those of all before it, as far as it has given them.
bool DeviceDoctor::may_be_best(const TriedDrafter& figures) const {
  const std::size_t chosen_by = choosing(figures_.front().answers.size());
  return std::all_of(figures_.begin() + 1, figures_.end(), [&](const TriedDrafter& before) {
    return sum_of(figures, chosen_by) < sum_of(before, chosen_by);
  });
}

Result<Advice> DeviceDoctor::judge() const {
  const TriedDrafter& plain = figures_.front();
  const std::size_t chosen_by = choosing(plain.answers.size());
  if (figures_.size() < 2) {
    return failed_precondition("nothing that drafts can be tried. Remedy: what is said above");
  }
  // The last one that answered all; those after it, and those before, took longer.
  const auto best = std::find_if(
      figures_.rbegin(), figures_.rend() - 1,
      [&](const TriedDrafter& each) { return each.answers.size() == plain.answers.size(); });
  std::vector<Trial> trials;
  for (std::size_t i = 0; i < plain.answers.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<Trial> trial,
                              trial_of(plain.answers[i], best->answers[i], best->way));
    if (trial && i >= chosen_by) trials.push_back(*trial);
  }
  if (trials.size() < 2) return too_few_trials();
  Advice advice = advise(best->way, trials);
  advice.where = Where::kDevice;
  advice.plain = plain.way;
  return advice;
}

}  // namespace outrider
