// exits: the time that early exits add to a pass (exit_cost.h), for a model's own exits or random
// ones. SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <numeric>
#include <utility>

#include "bench/checks/checks.h"
#include "bench/checks/speed/exit_cost.h"
#include "common/decoding/exits/adapter_heads.h"
#include "common/engine/model/cpu/cpu_model.h"

namespace outrider {
namespace {

struct ExitsOptions {
  std::string model, adapters;
  std::string dtype = "auto";
  std::vector<double> depths = {0.5, 0.75};
  std::int32_t shortlist = 8192;
  int threads = 2;
  TimedPasses passes;
};

constexpr double kBar = 1.10;

// Random ones at the requested depths: weights do not affect the cost.
ExitAdapters random_exits(const ExitsOptions& options, const ModelInfo& model) {
  std::vector<std::int32_t> layers;
  for (const double depth : options.depths) {
    layers.push_back(std::clamp(static_cast<std::int32_t>(std::lround(depth * model.num_layers)), 1,
                                model.num_layers - 1));
  }
  std::sort(layers.begin(), layers.end());
  layers.erase(std::unique(layers.begin(), layers.end()), layers.end());
  ExitAdapters random = random_adapters(model, layers, std::max(1, model.hidden_size / 10), 1);
  if (options.shortlist > 0 && options.shortlist < model.vocab_size) {
    random.shortlist.resize(static_cast<std::size_t>(options.shortlist));
    std::iota(random.shortlist.begin(), random.shortlist.end(), 0);
  }
  return random;
}

struct ExitsToTime {
  std::unique_ptr<ExitHeads> heads;
  std::size_t tokens_considered = 0;
  bool are_random = false;
};

// The model's own chosen exits; random ones if it has none and no --adapters were given.
Result<ExitsToTime> exits_to_time(const ExitsOptions& options, const ModelFiles& files,
                                  const ModelInfo& model) {
  const bool asked_for = !options.adapters.empty();
  Result<ExitAdapters> adapters =
      load_adapters(asked_for ? options.adapters : folder_of_model(options.model));
  const bool are_random = adapters.status().code() == StatusCode::kNotFound && !asked_for;
  if (are_random) {
    std::fprintf(stderr, "exits: %s has no exits; these are random ones\n", options.model.c_str());
    adapters = random_exits(options, model);
  } else if (adapters.ok()) {
    OUTRIDER_RETURN_IF_ERROR(check_target(*adapters, model));
    adapters = select_exits(*std::move(adapters), "auto");
  }
  if (!adapters.ok()) return adapters.status();
  if (adapters->exits.empty()) return failed_precondition("none of the adapters' exits is chosen");
  const std::size_t listed = adapters->shortlist.empty()
                                 ? static_cast<std::size_t>(adapters->vocab_size)
                                 : adapters->shortlist.size();
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<ExitHeads> heads,
                            make_adapter_heads(*std::move(adapters), files));
  return ExitsToTime{std::move(heads), listed, are_random};
}

}  // namespace

Result<CheckOutcome> measure_exits(const ExitsOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(auto files, load_model_files(options.model, {}));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<Model> model,
      make_cpu_model(files, {.dtype = options.dtype, .threads = options.threads, .progress = {}}));
  OUTRIDER_ASSIGN_OR_RETURN(const ExitsToTime exits, exits_to_time(options, *files, model->info()));
  const ExitTimes times = time_exits(*model, *exits.heads, options.passes);
  const auto ratio = ratio_of_medians(times.without_ms, times.with_ms);
  if (!ratio) return failed_precondition("the passes took no time");
  const Bar bar{"pass_ratio", *ratio, kBar, Bar::Side::kAtMost};
  CheckOutcome outcome;
  outcome.passed = true;
  const auto layers = exits.heads->layers();
  outcome.figures = {{"pass_ratio", ratio->value},
                     {"with_ms", quantile(times.with_ms, 0.5)},
                     {"without_ms", quantile(times.without_ms, 0.5)},
                     {"rows", options.passes.rows},
                     {"exits", std::vector<std::int32_t>(layers.begin(), layers.end())},
                     {"layers", model->info().num_layers},
                     {"exits_are", exits.are_random ? "random" : "the model's"},
                     {"tokens_considered", exits.tokens_considered},
                     {"reports", times.reports},
                     {"dtype", model->info().dtype},
                     {"threads", options.threads}};
  outcome.hold({&bar, 1});
  return outcome;
}

void add_exits_check(CheckList& checks) {
  auto options = std::make_shared<ExitsOptions>();
  CLI::App* command = checks.add("exits", "Pass time with early exits against without",
                                 [options] { return measure_exits(*options); });
  command->add_option("--model", options->model, "Model directory or GGUF file")->required();
  command->add_option("--adapters", options->adapters,
                      "Directory of its exit adapters [the model's]");
  command
      ->add_option("--depths", options->depths,
                   "For a model without adapters: random ones at these depths, 0 to 1")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--shortlist", options->shortlist,
                      "For a model without adapters: tokens that exits consider; 0: all");
  command->add_option("--dtype", options->dtype, "auto, f32, bf16, int8 or int4");
  command->add_option("--threads", options->threads, "Compute threads")->check(CLI::Range(1, 256));
  command->add_option("--rows", options->passes.rows, "Rows of a pass")->check(CLI::Range(1, 33));
  command->add_option("--passes", options->passes.passes, "Passes of each kind")
      ->check(CLI::Range(1, 10000));
}

}  // namespace outrider
