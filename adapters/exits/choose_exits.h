// Which exits a target should report from.
//
// An exit after layer l of L speaks after l / L of the pass. If it names the outcome, the draft has
// the rest of the pass for the next chain; if that takes `chain_share` of a pass, a part
//
//   ready(l) = min(1, (1 - l / L) / chain_share)
//
// of it is there when the verdict comes. A pass is worth what its first right exit leaves time for;
// a set of exits is worth the mean over passes, less the share of a pass that computing them takes.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace outrider {

struct ExitFacts {
  std::int32_t layer = 0;
  double cost = 0;               // as a share of a pass
  std::vector<bool> right = {};  // by pass; as many for each exit
};

struct ChoiceOptions {
  std::int32_t num_layers = 0;
  double chain_share = 0.45;  // drafting four tokens against one pass: FSD's table 8, 288 / 620 ms
};

// The worth of the exits at these places of `exits`, which rise.
double worth_of(std::span<const ExitFacts> exits, std::span<const std::size_t> chosen,
                const ChoiceOptions& options);

// The layers of the best set that adding or taking away one exit at a time finds; rising. Empty if
// no exit is worth its cost.
std::vector<std::int32_t> choose_exits(std::span<const ExitFacts> exits,
                                       const ChoiceOptions& options);

}  // namespace outrider
