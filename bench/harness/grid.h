// The experiment: settings (devices and a link) times variants (a strategy with its flags) times
// prompts times repetitions, each answer by an executor.
//
// Plain cloud decoding first decodes every prompt without pace or delay; each answer's tokens are
// compared with that text. The speed of a wrong text is worthless: a cell with mismatches is in no
// ratio. If an answer failed, its prompt is in no ratio of its setting, so both sides of a ratio
// answered the same prompts.
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
#include "common/engine/model/emulated/paced_model.h"

namespace outrider {

// Runs the answers of a grid: by real programs over a link, or by the simulation.
enum class RunClock : std::uint8_t { kReal, kVirtual };

template <>
inline constexpr auto enum_names<RunClock> =
    std::to_array<EnumName<RunClock>>({{RunClock::kReal, "real"}, {RunClock::kVirtual, "virtual"}});

class AnswerExecutor {
 public:
  virtual ~AnswerExecutor() = default;

  virtual RunClock clock() const = 0;
  virtual PromptOrder order() const = 0;
  // The kind of a setting's link: "emulated", "modelled", "simulated", "the real network".
  virtual std::string link_kind(std::size_t setting) const = 0;

  // Detects errors of the set-up before the run: one short answer of each variant, not counted.
  virtual Status warm_up() = 0;
  // The tokens of the setting's target alone, without pace or delay.
  virtual Result<std::vector<TokenId>> reference(std::size_t prompt,
                                                 const GridSetting& setting) = 0;

  virtual Status begin(std::size_t setting) = 0;
  // INVALID_ARGUMENT: this variant cannot run at all. Other errors concern this answer only.
  virtual Result<EdgeAnswer> answer(const AnswerJob& job) = 0;
  // The target's counts of its emulated pace since begin().
  virtual PaceCounts end() = 0;
};

// The share of `wanted` that `ids` equals before the first difference; 1 for an empty text.
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
  std::size_t failures = 0;            // answers that did not finish
  int gamma = 0;                       // that of the variant
  // Sums over the answers that finished.
  double tokens = 0;
  double tokens_on = 0;                 // decoded with speculation on
  std::optional<LinkCounts> link = {};  // the link's counts meanwhile; nothing: not our link

  // The share of the tokens that were decoded with speculation on.
  double speculation_on() const { return tokens > 0 ? tokens_on / tokens : 0; }
};

struct GridOverruns {
  std::string setting;
  PaceCounts target;
  PaceCounts draft;
};

// One finished answer of the grid.
struct FinishedAnswer {
  AnswerJob job;
  std::string error = {};  // empty: it finished
  EdgeAnswer answer = {};  // only without error
  bool same_text = true;   // equal to plain decoding's, or a contender with its own text
  double agreement = 1;    // with plain decoding's text

  bool failed() const { return !error.empty(); }
};

struct GridResult {
  std::vector<GridCell> cells;              // setting by setting, with variants in the plan's order
  std::vector<GridOverruns> overruns = {};  // of the paced settings
  std::size_t compared = 0;                 // answers compared with plain decoding's text
  std::size_t mismatches = 0;               // of these, those that differ
  std::size_t failures = 0;                 // answers that did not finish
  std::size_t reference_tokens = 0;         // of all references
  std::vector<FinishedAnswer> finished = {};  // in the order in which they ran
  std::vector<std::string> link_kinds = {};   // [setting]

  const GridCell* find(const std::string& setting, const std::string& variant) const;
};

// Sorts result.finished into cells, of which the result has none yet. Of a run that goes on: what
// has finished so far.
void fill_cells(const GridPlan& plan, GridResult& result);

// Observes a running grid.
class GridListener {
 public:
  virtual ~GridListener() = default;
  // An answer of an earlier run that is not repeated; its target's pace is not counted again.
  virtual std::optional<FinishedAnswer> known(const AnswerJob& /*job*/) { return std::nullopt; }
  virtual void on_begin(const AnswerJob& /*job*/) {}
  // An error ends the run.
  virtual Status on_finished(const FinishedAnswer& /*answer*/) { return {}; }
};

// INVALID_ARGUMENT with the edge's own message if it refuses a variant; errors of the listener and
// the references. Failed answers are counted, and the run continues.
Result<GridResult> run_grid(const GridPlan& plan, AnswerExecutor& executor, GridListener& listener);

// With real programs and progress on stderr. A failed answer ends the run.
Result<GridResult> run_grid(const GridPlan& plan);

// A test hook: changes the last token of one variant's answers, so that a test can see that the run
// detects it.
class CorruptingExecutor final : public AnswerExecutor {
 public:
  // plan must outlive this object.
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
