// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/measure.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/decoding/exits/adapter_heads.h"

namespace outrider {
namespace {

double ready(std::int32_t layer, const ExitChoiceOptions& options) {
  const double left = 1 - static_cast<double>(layer) / options.num_layers;
  return std::min(1.0, left / options.chain_share);
}

// The set with one index added or removed.
std::vector<std::size_t> toggled(std::vector<std::size_t> chosen, std::size_t place) {
  const auto at = std::lower_bound(chosen.begin(), chosen.end(), place);
  if (at != chosen.end() && *at == place) {
    chosen.erase(at);
  } else {
    chosen.insert(at, place);
  }
  return chosen;
}

using Passes = std::vector<PassSample>;

// Takes as many passes of each text as the text with the fewest has. Otherwise a text of long
// answers would dominate the others' confidence.
Passes in_equal_parts(std::vector<Passes> by_text) {
  std::size_t least = by_text.front().size();
  for (const Passes& passes : by_text) least = std::min(least, passes.size());
  Passes all;
  for (Passes& passes : by_text) {
    std::move(passes.begin(), passes.begin() + static_cast<std::ptrdiff_t>(least),
              std::back_inserter(all));
  }
  return all;
}

std::vector<ExitSample> of_exit(const Passes& passes, std::size_t exit) {
  std::vector<ExitSample> samples;
  for (const PassSample& pass : passes) samples.push_back(pass.exits[exit]);
  return samples;
}

// Share of the passes whose outcome one of the exits at these indices named.
double named_together(const Passes& passes, const std::vector<std::size_t>& places) {
  const auto named = std::count_if(passes.begin(), passes.end(), [&](const PassSample& pass) {
    return std::any_of(places.begin(), places.end(),
                       [&](std::size_t place) { return pass.exits[place].right; });
  });
  return passes.empty() ? 0 : static_cast<double>(named) / static_cast<double>(passes.size());
}

std::vector<Judged> judged_by(const Calibration& calibration,
                              const std::vector<ExitSample>& samples) {
  std::vector<Judged> judged;
  for (const ExitSample& sample : samples) {
    judged.push_back({confidence(calibration, sample.rows), sample.right});
  }
  return judged;
}

ExitResult result_of(std::int32_t layer, const Calibration& calibration,
                     const std::vector<ExitSample>& samples) {
  ExitResult result{.layer = layer};
  const std::vector<Judged> after = judged_by(calibration, samples);
  std::vector<Judged> before;
  for (const ExitSample& sample : samples) before.push_back({sample.max_softmax, sample.right});
  for (const Judged& one : after) {
    result.named += one.right ? 1.0 / static_cast<double>(after.size()) : 0;
    result.mean_confidence += one.confidence / static_cast<double>(after.size());
  }
  result.error_before = calibration_error(before);
  result.error = calibration_error(after);
  result.bins = reliability(after);
  return result;
}

void add_errors(const Passes& passes, std::size_t exit, ExitResult& result) {
  std::int64_t right = 0;
  for (const PassSample& pass : passes) {
    const ExitSample& sample = pass.exits[exit];
    result.tokens += std::ssize(sample.row_right);
    right += std::ranges::count(sample.row_right, true);
    if (sample.right) continue;
    // In a chain, walks of equal length took the same drafted tokens.
    const auto taken = std::ssize(sample.rows) - 1;
    double& kind = taken < pass.accepted   ? result.took_fewer
                   : taken > pass.accepted ? result.took_more
                                           : result.other_token;
    kind += 1.0 / static_cast<double>(passes.size());
  }
  if (result.tokens > 0) {
    result.token_agreement = static_cast<double>(right) / static_cast<double>(result.tokens);
  }
}

// The median, in which a pass that the machine disturbed counts only once; 0 for an empty list.
double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// One run of measure_exits().
class Measuring final {
 public:
  Measuring(ExitAdapters& adapters, const std::vector<ExitText>& texts,
            const MeasureOptions& options, const std::function<void(std::int64_t)>& on_progress)
      : adapters_(adapters), texts_(texts), options_(options), on_progress_(on_progress) {}

  Status replay_fit(PassReplay& replay);
  Status replay_measured(PassReplay& replay);
  // Fits priors on passes of the exits without priors.
  void fit_priors();
  // Fits confidences on passes of the exits with priors.
  void fit(const ReplayTimes& times);
  MeasureReport report();

 private:
  using Prompts = std::vector<std::vector<TokenId>>;

  Status replay(PassReplay& replay, const Prompts& prompts, double temperature, Passes& passes);
  TextResult result_of_text(std::size_t text, std::size_t temperature) const;
  std::vector<std::size_t> places_up_to(double depth) const;
  std::vector<std::size_t> chosen_places() const;

  ExitAdapters& adapters_;
  const std::vector<ExitText>& texts_;
  const MeasureOptions& options_;
  const std::function<void(std::int64_t)>& on_progress_;
  std::int64_t done_ = 0;
  std::vector<Passes> fitted_;                 // by temperature, of all texts
  std::vector<std::vector<Passes>> measured_;  // by text, by temperature
};

Status Measuring::replay(PassReplay& replay, const Prompts& prompts, double temperature,
                         Passes& passes) {
  ReplayOptions options{.gamma = options_.gamma, .max_tokens = options_.max_tokens};
  options.sampling.temperature = static_cast<float>(temperature);
  for (const std::vector<TokenId>& prompt : prompts) {
    options.seed = options_.seed + static_cast<std::uint64_t>(done_);
    OUTRIDER_RETURN_IF_ERROR(
        replay.run(prompt, options, [&](PassSample pass) { passes.push_back(std::move(pass)); }));
    on_progress_(++done_);
  }
  return {};
}

Status Measuring::replay_fit(PassReplay& replayer) {
  fitted_.clear();
  for (const double temperature : options_.temperatures) {
    std::vector<Passes> by_text(texts_.size());
    for (std::size_t text = 0; text < texts_.size(); ++text) {
      OUTRIDER_RETURN_IF_ERROR(replay(replayer, texts_[text].fit, temperature, by_text[text]));
    }
    fitted_.push_back(in_equal_parts(std::move(by_text)));
  }
  return {};
}

Status Measuring::replay_measured(PassReplay& replayer) {
  measured_.assign(texts_.size(), std::vector<Passes>(options_.temperatures.size()));
  for (std::size_t text = 0; text < texts_.size(); ++text) {
    for (std::size_t t = 0; t < options_.temperatures.size(); ++t) {
      OUTRIDER_RETURN_IF_ERROR(
          replay(replayer, texts_[text].measure, options_.temperatures[t], measured_[text][t]));
    }
  }
  return {};
}

void Measuring::fit_priors() {
  for (std::size_t i = 0; i < adapters_.exits.size(); ++i) {
    std::vector<Calibration>& calibration = adapters_.exits[i].calibration;
    calibration.clear();
    for (std::size_t t = 0; t < fitted_.size(); ++t) {
      calibration.push_back(
          {.temperature = options_.temperatures[t], .prior = fit_prior(of_exit(fitted_[t], i))});
    }
  }
}

void Measuring::fit(const ReplayTimes& times) {
  std::vector<ExitFacts> facts;
  for (std::size_t i = 0; i < adapters_.exits.size(); ++i) {
    ExitAdapter& exit = adapters_.exits[i];
    ExitFacts& fact = facts.emplace_back(ExitFacts{.layer = exit.layer});
    for (std::size_t t = 0; t < fitted_.size(); ++t) {
      const std::vector<ExitSample> samples = of_exit(fitted_[t], i);
      Calibration& calibration = exit.calibration[t];
      calibration = fit_calibration(samples, calibration.temperature, calibration.prior);
      for (const ExitSample& sample : samples) fact.right.push_back(sample.right);
    }
    exit.cost = median(times.exit_shares[i]);
    fact.cost = exit.cost;
  }
  adapters_.chosen = choose_exits(
      facts, {.num_layers = adapters_.num_layers, .chain_share = options_.chain_share});
}

std::vector<std::size_t> Measuring::places_up_to(double depth) const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < adapters_.exits.size(); ++i) {
    if (adapters_.exits[i].layer <= depth * adapters_.num_layers) places.push_back(i);
  }
  return places;
}

std::vector<std::size_t> Measuring::chosen_places() const {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < adapters_.exits.size(); ++i) {
    const auto& chosen = adapters_.chosen;
    if (std::find(chosen.begin(), chosen.end(), adapters_.exits[i].layer) != chosen.end()) {
      places.push_back(i);
    }
  }
  return places;
}

TextResult Measuring::result_of_text(std::size_t text, std::size_t t) const {
  const Passes& passes = measured_[text][t];
  TextResult result{.text = texts_[text].name,
                    .temperature = options_.temperatures[t],
                    .passes = static_cast<std::int64_t>(passes.size())};
  for (const PassSample& pass : passes) {
    result.tokens_per_pass += (pass.accepted + 1.0) / static_cast<double>(passes.size());
  }
  std::vector<Judged> reports;
  const std::vector<std::size_t> chosen = chosen_places();
  for (std::size_t i = 0; i < adapters_.exits.size(); ++i) {
    const ExitAdapter& exit = adapters_.exits[i];
    const std::vector<ExitSample> samples = of_exit(passes, i);
    result.exits.push_back(outrider::result_of(exit.layer, exit.calibration[t], samples));
    add_errors(passes, i, result.exits.back());
    const bool at_half = 2 * exit.layer <= adapters_.num_layers;
    if (at_half && result.exits.back().named >= result.best_at_half.named) {
      result.best_at_half = result.exits.back();
    }
    if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) continue;
    const std::vector<Judged> judged = judged_by(exit.calibration[t], samples);
    reports.insert(reports.end(), judged.begin(), judged.end());
  }
  result.three_quarters = named_together(passes, places_up_to(0.75));
  result.chosen = named_together(passes, chosen);
  result.error_chosen = calibration_error(reports);
  return result;
}

MeasureReport Measuring::report() {
  MeasureReport report{
      .num_layers = adapters_.num_layers, .chosen = adapters_.chosen, .results = {}};
  for (ExitAdapter& exit : adapters_.exits) exit.measured.clear();
  for (std::size_t text = 0; text < texts_.size(); ++text) {
    for (std::size_t t = 0; t < options_.temperatures.size(); ++t) {
      const TextResult& result = report.results.emplace_back(result_of_text(text, t));
      for (std::size_t i = 0; i < result.exits.size(); ++i) {
        const ExitResult& exit = result.exits[i];
        adapters_.exits[i].measured.push_back({.text = result.text,
                                               .temperature = result.temperature,
                                               .passes = result.passes,
                                               .named = exit.named,
                                               .mean_confidence = exit.mean_confidence,
                                               .error_uncalibrated = exit.error_before,
                                               .error = exit.error});
      }
    }
  }
  return report;
}

Status check_vocabularies(const Model& target, const Model& draft) {
  if (draft.info().vocab_size == target.info().vocab_size) return {};
  return failed_precondition("the draft's vocabulary has " +
                             std::to_string(draft.info().vocab_size) + " tokens, the target's " +
                             std::to_string(target.info().vocab_size) +
                             ". Remedy: a draft of the target's tokenizer");
}

}  // namespace

double worth_of(std::span<const ExitFacts> exits, std::span<const std::size_t> chosen,
                const ExitChoiceOptions& options) {
  if (chosen.empty()) return 0;
  const std::size_t passes = exits[chosen.front()].right.size();
  double worth = 0;
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const auto first = std::find_if(chosen.begin(), chosen.end(),
                                    [&](std::size_t place) { return exits[place].right[pass]; });
    if (first != chosen.end()) worth += ready(exits[*first].layer, options);
  }
  worth /= static_cast<double>(std::max<std::size_t>(1, passes));
  for (const std::size_t place : chosen) worth -= exits[place].cost;
  return worth;
}

std::vector<std::int32_t> choose_exits(std::span<const ExitFacts> exits,
                                       const ExitChoiceOptions& options) {
  std::vector<std::size_t> best;
  double best_worth = 0;
  while (true) {
    std::vector<std::size_t> next = best;
    double next_worth = best_worth;
    for (std::size_t place = 0; place < exits.size(); ++place) {
      std::vector<std::size_t> tried = toggled(best, place);
      const double worth = worth_of(exits, tried, options);
      if (worth <= next_worth) continue;
      next = std::move(tried);
      next_worth = worth;
    }
    if (next_worth <= best_worth) break;
    best = std::move(next);
    best_worth = next_worth;
  }
  std::vector<std::int32_t> layers;
  for (const std::size_t place : best) layers.push_back(exits[place].layer);
  return layers;
}

Result<MeasureReport> measure_exits(ExitAdapters& adapters, Model& target, const ModelFiles& files,
                                    Model& draft, const std::vector<ExitText>& texts,
                                    const MeasureOptions& options,
                                    const std::function<void(std::int64_t)>& on_progress) {
  OUTRIDER_RETURN_IF_ERROR(check_vocabularies(target, draft));
  SystemClock clock;
  Measuring measuring(adapters, texts, options, on_progress);
  for (ExitAdapter& exit : adapters.exits) exit.calibration.clear();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ExitHeads> plain,
                            make_adapter_heads(adapters, files));
  PassReplay without_priors(target, draft, *plain, clock);
  OUTRIDER_RETURN_IF_ERROR(measuring.replay_fit(without_priors));
  measuring.fit_priors();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ExitHeads> heads,
                            make_adapter_heads(adapters, files));
  PassReplay replay(target, draft, *heads, clock);
  OUTRIDER_RETURN_IF_ERROR(measuring.replay_fit(replay));
  OUTRIDER_RETURN_IF_ERROR(measuring.replay_measured(replay));
  measuring.fit(replay.times());
  return measuring.report();
}

Result<MeasureReport> measure_committed(const ExitAdapters& adapters, Model& target,
                                        const ModelFiles& files, Model& draft,
                                        const std::vector<ExitText>& texts,
                                        const MeasureOptions& options,
                                        const std::function<void(std::int64_t)>& on_progress) {
  OUTRIDER_RETURN_IF_ERROR(check_vocabularies(target, draft));
  if (adapters.exits.empty() || adapters.exits[0].calibration.empty()) {
    return failed_precondition(
        "the exits are not calibrated. Remedy: outrider-train exits, which ends with calibration");
  }
  ExitAdapters committed = adapters;
  MeasureOptions calibrated = options;
  calibrated.temperatures.clear();
  for (const Calibration& one : adapters.exits[0].calibration) {
    calibrated.temperatures.push_back(one.temperature);
  }
  SystemClock clock;
  Measuring measuring(committed, texts, calibrated, on_progress);
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ExitHeads> heads,
                            make_adapter_heads(committed, files));
  PassReplay replay(target, draft, *heads, clock);
  OUTRIDER_RETURN_IF_ERROR(measuring.replay_measured(replay));
  return measuring.report();
}

}  // namespace outrider
