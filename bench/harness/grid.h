// The experiment: settings (devices and a link) times variants (a strategy with its flags) times
// prompts times repetitions, each answer by an executor (executor.h).
//
// Every prompt is decoded once without pace or delay by plain cloud decoding; each answer's tokens
// are held against that text. The speed of a wrong text is worthless: a cell with mismatches takes
// part in no ratio. Where an answer failed, its prompt takes part in no ratio of its setting, so
// that both sides of each ratio answered the same prompts.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "bench/harness/answer.h"
#include "bench/harness/executor.h"
#include "bench/harness/grid_plan.h"
#include "common/base/status.h"
#include "common/model/emulated/paced_model.h"

namespace outrider {

struct GridCell {
  std::string setting;
  std::string variant;
  Strategy strategy = Strategy::kAr;
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
  double agreement = 1;    // with plain decoding's text (agreement.h)

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

}  // namespace outrider
