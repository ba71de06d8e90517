// A draft whose guesses are written down, for planners: what it is asked to run, in what order, and
// what the round becomes. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/decoding/drafting/drafter.h"
#include "common/decoding/drafting/round_planner.h"

namespace outrider {

class ScriptedDraft final {
 public:
  // By path, a letter for each token: {"", "a.6 b.3"} are the guesses after the text.
  using Script = std::map<std::string, std::string>;

  explicit ScriptedDraft(Script script, int workers = 1);

  // Plans and drafts until the round is whole, and sends it.
  void draft(RoundPlanner& planner, const PlanLimits& limits = kLimits);
  // The verdict's tokens; returns what it learnt from the pass.
  void commit(const std::string& tokens, RoundPlanner& planner, const PassShape& pass = {});

  // Rows that were run, in order, steps apart by blanks: "- a bc" (-: the text).
  const std::string& rows() const { return rows_; }
  // Paths of the round's nodes in the order in which they were added: "a b ab".
  const std::string& round() const { return round_; }

  static constexpr PlanLimits kLimits{.max_nodes = 32, .max_depth = 16, .token_bound = 128};

 private:
  std::string path_of(NodeIndex node) const;
  std::vector<Guess> guesses_after(const std::string& path) const;

  const Script script_;
  Drafter drafter_;
  std::map<Slot, std::string> paths_;
  std::string text_;
  std::string rows_, round_;
  Slot next_slot_ = 0;
};

}  // namespace outrider
