// The experiment: settings (devices and a link) times variants (a strategy with its flags) times
// prompts times repetitions, each answer by an executor.
//
// Every prompt is decoded once without pace or delay by plain cloud decoding; each answer's tokens
// are held against that text. The speed of a wrong text is worthless: a cell with mismatches takes
// part in no ratio. Where an answer failed, its prompt takes part in no ratio of its setting, so
// that both sides of each ratio answered the same prompts.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/harness/answer.h"
#include "bench/harness/grid_plan.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "common/model/emulated/paced_model.h"

namespace outrider {

// What carries out the answers of a grid: real programs over a link, or the simulation.
enum class RunClock : std::uint8_t { kReal, kVirtual };

template <>
inline constexpr auto enum_names<RunClock> =
    std::to_array<EnumName<RunClock>>({{RunClock::kReal, "real"}, {RunClock::kVirtual, "virtual"}});

class AnswerExecutor {
 public:
  virtual ~AnswerExecutor() = default;

  virtual RunClock clock() const = 0;
  virtual PromptOrder order() const = 0;
  // How the link of a setting came about: "emulated", "modelled", "simulated", "the real network".
  virtual std::string link_kind(std::size_t setting) const = 0;

  // What must fail fails here and not after an hour: one short answer of each variant, not counted.
  virtual Status warm_up() = 0;
  // The tokens that the setting's target alone writes, without pace or delay.
  virtual Result<std::vector<TokenId>> reference(std::size_t prompt,
                                                 const GridSetting& setting) = 0;

  virtual Status begin(std::size_t setting) = 0;
  // INVALID_ARGUMENT: no answer of this variant can be had. Other errors are this answer's.
  virtual Result<EdgeAnswer> answer(const AnswerJob& job) = 0;
  // What the target counted of its emulated pace since begin().
  virtual PaceCounts end() = 0;
};

// The share of `wanted` that `ids` writes before it first says something else; 1 for no text.
inline double agreement(std::span<const TokenId> wanted, std::span<const TokenId> ids) {
  if (wanted.empty()) return 1;
  const auto ends = std::ranges::mismatch(wanted, ids);
  return static_cast<double>(ends.in1 - wanted.begin()) / static_cast<double>(wanted.size());
}

struct GridCell {
  std::string setting;
  std::string variant;
  StrategyChoice strategy = Strategy::kAr;
  std::vector<AnswerFigures> answers;  // repetition by repetition, prompt by prompt
  std::size_t mismatches = 0;          // answers that differ from plain decoding's text
  std::string speculation;             // of the last answer
  std::size_t failures = 0;            // answers that did not come to their end
  int gamma = 0;                       // as the variant's
  // Of all answers that came to their end.
  double tokens = 0;
  double tokens_on = 0;                 // decoded while the edge speculated
  std::optional<LinkCounts> link = {};  // what the link did meanwhile; nothing: none of ours

  // The share of the tokens that were decoded while the edge speculated.
  double speculation_on() const { return tokens > 0 ? tokens_on / tokens : 0; }
};

struct GridOverruns {
  std::string setting;
  PaceCounts target;
  PaceCounts draft;
};

// One answer of the grid as it went.
struct FinishedAnswer {
  AnswerJob job;
  std::string error = {};  // empty: it came to its end
  EdgeAnswer answer = {};  // only without error
  bool same_text = true;   // or a text of its own
  double agreement = 1;    // with plain decoding's text

  bool failed() const { return !error.empty(); }
};

struct GridResult {
  std::vector<GridCell> cells;                // setting by setting, variants in the plan's order
  std::vector<GridOverruns> overruns = {};    // of the paced settings
  std::size_t compared = 0;                   // answers held against plain decoding's text
  std::size_t mismatches = 0;                 // of these, those that differ
  std::size_t failures = 0;                   // answers that did not come to their end
  std::size_t reference_tokens = 0;           // of all references
  std::vector<FinishedAnswer> finished = {};  // in the order in which they ran
  std::vector<std::string> link_kinds = {};   // [setting]

  const GridCell* find(const std::string& setting, const std::string& variant) const;
};

// What goes on while the grid runs.
class GridListener {
 public:
  virtual ~GridListener() = default;
  // An answer of an earlier run that need not be had again; its target's pace is not counted anew.
  virtual std::optional<FinishedAnswer> known(const AnswerJob& /*job*/) { return std::nullopt; }
  virtual void on_begin(const AnswerJob& /*job*/) {}
  // An error ends the run.
  virtual Status on_finished(const FinishedAnswer& /*answer*/) { return {}; }
};

// INVALID_ARGUMENT with the edge's own words if it refuses a variant, and errors of the listener
// and the references. Answers that fail are counted, and the run goes on.
Result<GridResult> run_grid(const GridPlan& plan, AnswerExecutor& executor, GridListener& listener);

// By real programs, with progress on stderr. An answer that fails ends the run.
Result<GridResult> run_grid(const GridPlan& plan);

// A test hook: one variant's answers end in another token than they should, so that a run can be
// seen to notice.
class CorruptingExecutor final : public AnswerExecutor {
 public:
  // plan outlives this.
  CorruptingExecutor(std::unique_ptr<AnswerExecutor> executor, const GridPlan& plan,
                     std::string variant)
      : executor_(std::move(executor)), plan_(plan), variant_(std::move(variant)) {}

  RunClock clock() const override { return executor_->clock(); }
  PromptOrder order() const override { return executor_->order(); }
  std::string link_kind(std::size_t setting) const override {
    return executor_->link_kind(setting);
  }
  Status warm_up() override { return executor_->warm_up(); }
  Result<std::vector<TokenId>> reference(std::size_t prompt, const GridSetting& setting) override {
    return executor_->reference(prompt, setting);
  }
  Status begin(std::size_t setting) override { return executor_->begin(setting); }
  PaceCounts end() override { return executor_->end(); }
  Result<EdgeAnswer> answer(const AnswerJob& job) override {
    Result<EdgeAnswer> answer = executor_->answer(job);
    if (answer.ok() && plan_.variants[job.variant].name == variant_ &&
        !answer->record.ids.empty()) {
      ++answer->record.ids.back();
    }
    return answer;
  }

 private:
  const std::unique_ptr<AnswerExecutor> executor_;
  const GridPlan& plan_;
  const std::string variant_;
};

}  // namespace outrider
