// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/common/decoding/drafting/trees/scripted_draft.h"

#include <sstream>
#include <utility>

namespace outrider {

ScriptedDraft::ScriptedDraft(Script script, int workers)
    : script_(std::move(script)),
      drafter_({.max_positions = 100, .vocab_size = 128, .workers = workers}) {
  drafter_.restart(std::vector<TokenId>{1});
}

std::vector<Guess> ScriptedDraft::guesses_after(const std::string& path) const {
  std::vector<Guess> guesses;
  const auto found = script_.find(path);
  std::istringstream words(found == script_.end() ? "z.1" : found->second);
  for (std::string word; words >> word;) {
    guesses.push_back({static_cast<TokenId>(word[0]), std::stof(word.substr(1))});
  }
  return guesses;
}

std::string ScriptedDraft::path_of(NodeIndex node) const {
  std::string path;
  for (NodeIndex at = node; at != kRoot; at = drafter_.tree().node(at).parent) {
    path.insert(path.begin(), static_cast<char>(drafter_.tree().node(at).token));
  }
  return path;
}

void ScriptedDraft::draft(RoundPlanner& planner, const PlanLimits& limits) {
  rows_.clear();
  round_.clear();
  for (int steps = 0; steps < 64; ++steps) {
    const RoundPlan plan = drafter_.plan(planner, limits);
    std::optional<DraftStep> step;
    if (!plan.expand.empty()) {
      step = drafter_.grow(PlannedGrowth(plan, planner.fan_out()), limits.max_depth);
    }
    if (!step) {
      for (const NodeIndex node : plan.nodes) {
        round_ += (round_.empty() ? "" : " ") + path_of(node);
      }
      drafter_.send_plan(plan, planner, limits);
      return;
    }
    DraftStepDone done;
    std::string run = step->guess_after_catch_up ? "-" : "";
    if (step->guess_after_catch_up) done.guesses.push_back(guesses_after(text_));
    for (const DraftRow& row : step->grow) {
      std::string path = row.parent_row >= 0
                             ? paths_[done.slots[static_cast<std::size_t>(row.parent_row)]]
                             : (row.parent == kRootSlot ? text_ : paths_[row.parent]);
      path += static_cast<char>(row.token);
      done.slots.push_back(next_slot_);
      paths_[next_slot_++] = path;
      done.guesses.push_back(guesses_after(path));
      run += path.back();
    }
    rows_ += (rows_.empty() ? "" : " ") + run;
    drafter_.finish_step(done);
  }
}

void ScriptedDraft::commit(const std::string& tokens, RoundPlanner& planner,
                           const PassShape& pass) {
  const std::vector<TokenId> ids(tokens.begin(), tokens.end());
  drafter_.commit(ids);
  text_ += tokens;
  planner.on_verdict(ids, pass);
}

}  // namespace outrider
