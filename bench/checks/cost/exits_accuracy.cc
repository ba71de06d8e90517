// exits-accuracy: committed exits on the user's prompts. It replays passes with a draft's chains
// and fits nothing. SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>

#include "adapters/exits/measure.h"
#include "bench/checks/checks.h"
#include "bench/edges/bench_edge.h"
#include "bench/harness/grid_flags.h"
#include "bench/stats/statistics.h"
#include "common/engine/model/loader/loader.h"

namespace outrider {
namespace {

struct AccuracyOptions {
  LoadOptions target;
  std::string draft, adapters, exits = "all", prompts = kPromptSets;
  std::size_t num_prompts = 0;
  MeasureOptions measure = {.max_tokens = 96};
  bool without_prior = false;
  std::optional<double> least_together, least_chosen, most_error;
};

using Drawn = std::span<const std::size_t>;

// One figure per pass of a prompt, over the prompts that the bootstrap drew.
std::optional<double> per_pass(const std::vector<TextResult>& prompts, Drawn drawn,
                               double TextResult::*figure) {
  double sum = 0, passes = 0;
  for (const std::size_t i : drawn) {
    const auto count = static_cast<double>(prompts[i].passes);
    sum += prompts[i].*figure * count;
    passes += count;
  }
  return passes > 0 ? std::optional(sum / passes) : std::nullopt;
}

// Expected calibration error over all reports of the exits named in `layers`.
std::optional<double> error_of(const std::vector<TextResult>& prompts, Drawn drawn,
                               const std::vector<std::int32_t>& layers) {
  constexpr int kBins = 15;
  struct Bin {
    double confidence = 0, right = 0;
  };
  std::map<int, Bin> bins;
  double count = 0;
  for (const std::size_t i : drawn) {
    for (const ExitResult& exit : prompts[i].exits) {
      if (std::ranges::find(layers, exit.layer) == layers.end()) continue;
      for (const ReliabilityBin& one : exit.bins) {
        const auto weight = static_cast<double>(one.count);
        Bin& bin = bins[std::min(static_cast<int>(one.confidence * kBins), kBins - 1)];
        bin.confidence += one.confidence * weight;
        bin.right += one.right * weight;
        count += weight;
      }
    }
  }
  double error = 0;
  for (const auto& [place, bin] : bins) error += std::abs(bin.confidence - bin.right);
  return count > 0 ? std::optional(error / count) : std::nullopt;
}

struct AccuracyFigures {
  std::optional<Estimate> together, chosen, error;
  Json exits = Json::object();  // by layer
};

// One exit in all passes. The figures are shares of the passes; the agreement is a share of the
// tokens.
Json about_exit(const std::vector<TextResult>& prompts, std::size_t exit) {
  double passes = 0, tokens = 0, agreement = 0;
  ExitResult sums;
  for (const TextResult& prompt : prompts) {
    const ExitResult& one = prompt.exits[exit];
    const auto count = static_cast<double>(prompt.passes);
    passes += count;
    tokens += static_cast<double>(one.tokens);
    agreement += one.token_agreement * static_cast<double>(one.tokens);
    sums.named += one.named * count;
    sums.took_fewer += one.took_fewer * count;
    sums.took_more += one.took_more * count;
    sums.other_token += one.other_token * count;
  }
  return {{"named", sums.named / passes},
          {"token_agreement", agreement / tokens},
          {"took_fewer", sums.took_fewer / passes},
          {"took_more", sums.took_more / passes},
          {"other_token", sums.other_token / passes}};
}

AccuracyFigures figures_of(const std::vector<TextResult>& prompts,
                           const std::vector<std::int32_t>& chosen) {
  const auto estimate = [&](double TextResult::*figure) {
    return bootstrap(prompts.size(),
                     [&, figure](Drawn drawn) { return per_pass(prompts, drawn, figure); });
  };
  AccuracyFigures figures{.together = estimate(&TextResult::three_quarters),
                          .chosen = estimate(&TextResult::chosen),
                          .error = bootstrap(prompts.size(), [&](Drawn drawn) {
                            return error_of(prompts, drawn, chosen);
                          })};
  for (std::size_t i = 0; i < prompts.front().exits.size(); ++i) {
    figures.exits[std::to_string(prompts.front().exits[i].layer)] = about_exit(prompts, i);
  }
  return figures;
}

// Bars apply at temperature 0.
CheckOutcome judge(const MeasureReport& report, const AccuracyOptions& options) {
  std::map<double, std::vector<TextResult>> by_temperature;
  for (const TextResult& result : report.results) {
    if (result.passes > 0) by_temperature[result.temperature].push_back(result);
  }
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"chosen", report.chosen}, {"temperatures", Json::array()}};
  std::vector<Bar> bars;
  for (const auto& [temperature, prompts] : by_temperature) {
    const AccuracyFigures figures = figures_of(prompts, report.chosen);
    Json one = {
        {"temperature", temperature}, {"answers", prompts.size()}, {"exits", figures.exits}};
    const auto add = [&](const char* name, const std::optional<Estimate>& value,
                         const std::optional<double>& limit, Bar::Side side) {
      if (!value) return;
      one[name] = to_json(*value);
      if (temperature == 0 && limit) bars.push_back({name, *value, *limit, side});
    };
    add("three_quarters_together", figures.together, options.least_together, Bar::Side::kAtLeast);
    add("chosen_together", figures.chosen, options.least_chosen, Bar::Side::kAtLeast);
    add("calibration_error", figures.error, options.most_error, Bar::Side::kAtMost);
    outcome.figures["temperatures"].push_back(std::move(one));
  }
  if (bars.empty()) {
    outcome.mark_inconclusive(
        "there is no bar. Remedy: --least-together, --least-chosen or --most-error");
  } else {
    outcome.hold(bars);
  }
  return outcome;
}

// Exits whose choices ignore the edge's odds for its own drafted tokens.
ExitAdapters without_priors(ExitAdapters adapters) {
  for (ExitAdapter& exit : adapters.exits) {
    for (Calibration& calibration : exit.calibration) calibration.prior = {};
  }
  return adapters;
}

Result<CheckOutcome> run_exits_accuracy(const AccuracyOptions& options) {
  const std::string& directory = options.target.directory;
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(directory));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts,
                            read_prompts(options.prompts, tokenizer, options.num_prompts));
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(directory, {}));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> target, load_model(options.target));
  OUTRIDER_ASSIGN_OR_RETURN(
      ExitAdapters adapters,
      load_adapters(options.adapters.empty() ? folder_of_model(directory) : options.adapters));
  OUTRIDER_RETURN_IF_ERROR(check_target(adapters, target->info()));
  OUTRIDER_ASSIGN_OR_RETURN(adapters, select_exits(std::move(adapters), options.exits));
  LoadOptions draft_options;
  draft_options.directory = options.draft;
  draft_options.threads = options.target.threads;
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> draft, load_model(draft_options));
  std::vector<ExitText> texts;  // one prompt each, so that the bootstrap can draw prompts
  for (const BenchPrompt& prompt : prompts) {
    texts.push_back({.name = prompt.name, .fit = {}, .measure = {prompt.ids}});
  }
  const auto measure = [&](const ExitAdapters& exits) {
    return measure_committed(
        exits, *target, *files, *draft, texts, options.measure, [](std::int64_t done) {
          std::fprintf(stderr, "\rexits-accuracy: %lld answers ", static_cast<long long>(done));
        });
  };
  OUTRIDER_ASSIGN_OR_RETURN(const MeasureReport report, measure(adapters));
  CheckOutcome outcome = judge(report, options);
  if (options.without_prior) {
    OUTRIDER_ASSIGN_OR_RETURN(const MeasureReport plain, measure(without_priors(adapters)));
    outcome.figures["without_prior"] = judge(plain, options).figures["temperatures"];
  }
  std::fprintf(stderr, "\n");
  return outcome;
}

}  // namespace

void add_exits_accuracy_check(CheckList& checks) {
  auto options = std::make_shared<AccuracyOptions>();
  CLI::App* command =
      checks.add("exits-accuracy", "How often committed exits name a pass's whole outcome",
                 [options] { return run_exits_accuracy(*options); });
  command->add_option("--model", options->target.directory, "Target: a directory or a GGUF file")
      ->required();
  command->add_option("--draft", options->draft, "The target's draft; the passes verify its chains")
      ->required();
  add_prompts_flag(*command, options->prompts);
  command->add_option("--num-prompts", options->num_prompts, "Only the first N prompts; 0: all");
  command->add_option("--adapters", options->adapters, "Their directory; default: the target's");
  command->add_option("--exits", options->exits,
                      "all, auto (the chosen ones), or layers such as 3,6,9");
  command->add_option("--dtype", options->target.dtype,
                      "How the target computes: auto, f32, bf16, int8, int4");
  command->add_option("--threads", options->target.threads, "Threads; 0: one per core");
  command->add_option("--spec-draft-n-max", options->measure.gamma, "Length of the chains")
      ->check(CLI::Range(1, 31));
  command->add_option("--max-tokens", options->measure.max_tokens, "Tokens of each answer")
      ->check(CLI::Range(1, 4096));
  command->add_flag("--without-prior", options->without_prior,
                    "Also measure choices without the edge's odds for its drafted tokens");
  command->add_option("--least-together", options->least_together,
                      "The bar: passes that any exit up to 3/4 depth names, at temperature 0");
  command->add_option("--least-chosen", options->least_chosen,
                      "The bar: passes that any chosen exit names");
  command->add_option("--most-error", options->most_error, "The bar: calibration error");
}

}  // namespace outrider
