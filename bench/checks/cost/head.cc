// head: what the output matrix takes of a pass, and what it takes if a row's logits are
// computed only when the walk of the verdict comes to that row (LEVER, section 4.4): one row at a
// time, as the next row is known only when the one before has chosen its token.
//
// Without --memory-budget everything is in memory, and passes are compute alone. With it they are
// streamed: one that waits for its reads has less to save. What one row's logits take is measured
// in memory either way.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/checks/checks.h"
#include "common/base/clock.h"
#include "edge_client/flash/bandwidth.h"
#include "edge_client/flash/flash_model.h"

namespace outrider {
namespace {

// They may cost so much of a pass.
constexpr double kMaxLost = 0.02;

struct HeadOptions {
  std::string pack;
  std::uint64_t budget = 0;  // 0: everything in memory
  std::string bandwidth;     // of an emulated flash
  std::vector<int> rows = {5, 9, 17};
  std::vector<double> walked = {2, 3, 4};  // rows of a verdict's path, the root's included
  int rounds = 15;
  int threads = 2;
};

// Seconds of passes, taken in turn.
struct HeadTimes {
  std::vector<double> none, one;       // in memory, by how many rows want logits
  std::vector<double> one_there, all;  // where they run: in memory, or streamed
};

class HeadPasses final {
 public:
  static Result<HeadPasses> make(Model& model, int most_rows) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, model.new_cache(most_rows + 1));
    return HeadPasses(model, std::move(cache));
  }

  // wanted: the last so many rows.
  Result<double> time(int rows, int wanted) {
    KvSlots& slots = cache_->slots();
    std::vector<Row> chain;
    Slot slot = kRootSlot;
    for (int i = 0; i < rows; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(slot, slots.append(slot));
      chain.push_back(
          {cache_.get(), slot, i * 7919 % model_->info().vocab_size, i + wanted >= rows});
    }
    const TimePoint begin = SystemClock().now();
    OUTRIDER_RETURN_IF_ERROR(model_->forward(chain, out_));
    const double seconds = to_seconds(SystemClock().now() - begin);
    slots.release_all_uncommitted();
    return seconds;
  }

 private:
  HeadPasses(Model& model, std::unique_ptr<KvCache> cache)
      : model_(&model), cache_(std::move(cache)) {}

  Model* model_;
  std::unique_ptr<KvCache> cache_;
  PassOutput out_;
};

Result<HeadTimes> measure(HeadPasses& resident, HeadPasses& there, int rows, int rounds) {
  HeadTimes times;
  struct Case {
    HeadPasses& passes;
    int wanted;
    std::vector<double>& samples;
  };
  for (int round = 0; round <= rounds; ++round) {
    for (const Case& one : {Case{resident, 0, times.none}, Case{resident, 1, times.one},
                            Case{there, 1, times.one_there}, Case{there, rows, times.all}}) {
      OUTRIDER_ASSIGN_OR_RETURN(const double seconds, one.passes.time(rows, one.wanted));
      if (round > 0) one.samples.push_back(seconds);  // the first one warms up
    }
  }
  return times;
}

// The share of a pass that a walk of so many rows would save, of the medians.
std::optional<Estimate> saved_share(const HeadTimes& times, double walked) {
  return bootstrap(times.all.size(),
                   [&](std::span<const std::size_t> drawn) -> std::optional<double> {
                     const auto typical = [&](const std::vector<double>& samples) {
                       std::vector<double> some;
                       for (const std::size_t i : drawn) some.push_back(samples[i]);
                       return quantile(std::move(some), 0.5);
                     };
                     const double all = typical(times.all);
                     const double one_row = std::max(typical(times.one) - typical(times.none), 0.0);
                     return (all - typical(times.one_there) - (walked - 1) * one_row) / all;
                   });
}

void judge(const HeadTimes& times, int rows, const std::vector<double>& walks,
           CheckOutcome& outcome, std::vector<Bar>& bars) {
  const double none = median(times.none)->value, one = median(times.one)->value,
               there = median(times.one_there)->value, all = median(times.all)->value;
  outcome.figures[std::to_string(rows)] = {{"pass_ms", all * 1e3},
                                           {"pass_with_logits_of_one_row_ms", there * 1e3},
                                           {"logits_of_one_row_ms", (one - none) * 1e3}};
  std::fprintf(stderr,
               "head: %d rows: a pass %.2f ms, with logits of one row %.2f; these take %.2f in "
               "memory\n",
               rows, all * 1e3, there * 1e3, (one - none) * 1e3);
  for (const double walked : walks) {
    if (walked > rows) continue;
    char name[96];
    std::snprintf(name, sizeof name, "%d rows, %.1f walked: share of a pass saved", rows, walked);
    bars.push_back({name, *saved_share(times, walked), -kMaxLost, Bar::Side::kAtLeast});
  }
}

Result<CheckOutcome> run_head(const HeadOptions& options) {
  SystemClock clock;
  FlashOptions flash{.threads = options.threads, .max_context = 512};
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FlashModel> in_memory,
                            FlashModel::open(options.pack, flash, clock));
  flash.memory_budget = options.budget;
  if (!options.bandwidth.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(flash.bandwidth, parse_bandwidth(options.bandwidth));
  }
  std::unique_ptr<FlashModel> streamed;
  if (options.budget > 0) {
    OUTRIDER_ASSIGN_OR_RETURN(streamed, FlashModel::open(options.pack, flash, clock));
    std::fprintf(stderr, "head: %s\n", streamed->about().c_str());
  }
  const int most = *std::ranges::max_element(options.rows);
  OUTRIDER_ASSIGN_OR_RETURN(HeadPasses resident, HeadPasses::make(in_memory->model(), most));
  OUTRIDER_ASSIGN_OR_RETURN(
      HeadPasses there,
      HeadPasses::make(streamed != nullptr ? streamed->model() : in_memory->model(), most));
  CheckOutcome outcome;
  outcome.passed = true;
  std::vector<Bar> bars;
  for (const int rows : options.rows) {
    OUTRIDER_ASSIGN_OR_RETURN(const HeadTimes times,
                              measure(resident, there, rows, options.rounds));
    judge(times, rows, options.walked, outcome, bars);
  }
  outcome.figures["emulated_flash"] = flash.bandwidth > 0;
  outcome.hold(bars);
  return outcome;
}

}  // namespace

void add_head_check(CheckList& checks) {
  auto options = std::make_shared<HeadOptions>();
  CLI::App* command = checks.add("head", "What logits on demand save of a pass: fails if they cost",
                                 [options] { return run_head(*options); });
  command->add_option("--pack", options->pack, "Of outrider-edge pack")->required();
  command->add_option("--memory-budget", options->budget, "As of outrider-edge run")
      ->transform(CLI::AsSizeValue(true));
  command->add_option("--flash-bandwidth", options->bandwidth,
                      "Emulate a slower flash, as 400MB/s; else this machine's disk");
  command->add_option("--rows", options->rows, "Rows of a pass, like 5,17")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  command->add_option("--walked", options->walked, "Rows of a verdict's path, like 2,3.5")
      ->delimiter(',')
      ->check(CLI::Range(1.0, 64.0));
  command->add_option("--rounds", options->rounds, "Rounds")->check(CLI::Range(2, 1000));
  command->add_option("--threads", options->threads, "Compute threads")->check(CLI::Range(1, 256));
}

}  // namespace outrider
