// head: what a pass takes with the logits of all its rows, and with those of the rows that a
// verdict's walk comes to (LEVER, section 4.4), asked for one at a time, as the next row is known
// only when the one before has chosen its token. (A walk also asks for likely rows ahead, which
// saves it turns: common/verify/demanded_walk.h.)
//
// Without --memory-budget everything is in memory, and passes are compute alone. With it they are
// streamed: one that waits for its reads has less to save.
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
  std::vector<int> walked = {2, 3, 4};  // rows of a verdict's path, the root's included
  int rounds = 15;
  int threads = 2;
};

class HeadPasses final {
 public:
  static Result<HeadPasses> make(Model& model, int most_rows) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<KvCache> cache, model.new_cache(most_rows + 1));
    return HeadPasses(model, std::move(cache));
  }

  // walked: how many rows' logits are asked for; nothing: all rows have them.
  Result<double> time(int rows, std::optional<int> walked) {
    KvSlots& slots = cache_->slots();
    std::vector<Row> chain;
    Slot slot = kRootSlot;
    for (int i = 0; i < rows; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(slot, slots.append(slot));
      chain.push_back({cache_.get(), slot, i * 7919 % model_->info().vocab_size, true});
    }
    out_.on_demand = walked.has_value();
    const TimePoint begin = SystemClock().now();
    OUTRIDER_RETURN_IF_ERROR(model_->forward(chain, out_));
    if (walked) OUTRIDER_RETURN_IF_ERROR(walk(static_cast<std::size_t>(*walked)));
    const double seconds = to_seconds(SystemClock().now() - begin);
    slots.release_all_uncommitted();
    return seconds;
  }

 private:
  HeadPasses(Model& model, std::unique_ptr<KvCache> cache)
      : model_(&model), cache_(std::move(cache)) {}

  Status walk(std::size_t rows) {
    OUTRIDER_CHECK(out_.row_logits != nullptr);
    for (std::size_t row = 0; row < rows; ++row) {
      OUTRIDER_RETURN_IF_ERROR(out_.row_logits->compute(std::span(&row, 1), out_));
    }
    out_.row_logits->end();
    return {};
  }

  Model* model_;
  std::unique_ptr<KvCache> cache_;
  PassOutput out_;
};

// Of passes of so many rows, taken in turn.
Status judge(HeadPasses& passes, int rows, const HeadOptions& options, CheckOutcome& outcome,
             std::vector<Bar>& bars) {
  std::vector<double> all;
  std::vector<std::vector<double>> asked(options.walked.size());
  for (int round = 0; round <= options.rounds; ++round) {
    OUTRIDER_ASSIGN_OR_RETURN(const double whole, passes.time(rows, std::nullopt));
    if (round > 0) all.push_back(whole);  // the first one warms up
    for (std::size_t i = 0; i < asked.size(); ++i) {
      if (options.walked[i] > rows) continue;
      OUTRIDER_ASSIGN_OR_RETURN(const double seconds, passes.time(rows, options.walked[i]));
      if (round > 0) asked[i].push_back(seconds);
    }
  }
  Json& figures = outcome.figures[std::to_string(rows)];
  figures["pass_ms"] = median(all)->value * 1e3;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].empty()) continue;
    const std::string walked = std::to_string(options.walked[i]);
    figures["pass_of_" + walked + "_walked_ms"] = median(asked[i])->value * 1e3;
    bars.push_back(
        {std::to_string(rows) + " rows, " + walked + " walked: all logits' time over theirs",
         *ratio_of_medians(asked[i], all), 1 - kMaxLost, Bar::Side::kAtLeast});
  }
  return {};
}

Result<CheckOutcome> run_head(const HeadOptions& options) {
  SystemClock clock;
  FlashOptions flash{.threads = options.threads, .max_context = 512};
  flash.memory_budget = options.budget;
  if (!options.bandwidth.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(flash.bandwidth, parse_bandwidth(options.bandwidth));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<FlashModel> model,
                            FlashModel::open(options.pack, flash, clock));
  std::fprintf(stderr, "head: %s\n", model->about().c_str());
  const int most = *std::ranges::max_element(options.rows);
  OUTRIDER_ASSIGN_OR_RETURN(HeadPasses passes, HeadPasses::make(model->model(), most));
  CheckOutcome outcome;
  outcome.passed = true;
  std::vector<Bar> bars;
  for (const int rows : options.rows) {
    OUTRIDER_RETURN_IF_ERROR(judge(passes, rows, options, outcome, bars));
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
  command->add_option("--walked", options->walked, "Rows of a verdict's path, like 2,3")
      ->delimiter(',')
      ->check(CLI::Range(1, 64));
  command->add_option("--rounds", options->rounds, "Rounds")->check(CLI::Range(2, 1000));
  command->add_option("--threads", options->threads, "Compute threads")->check(CLI::Range(1, 256));
}

}  // namespace outrider
