// The work of the rows check: the same rows computed in many ways, which must all give the same
// bits (docs/row-invariance.md). Used by `outrider-bench rows`, by the `outrider-rows` tool on
// other CPUs, and by the unit tests.
//
// A case is a prompt and a tree of nodes under it. It is a function of its number, so it is the
// same on every machine.
//
// Thread rule: one thread, the model's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/model.h"

namespace outrider {

// The bits of rows, by name. The first way to compute a row defines its bits, as a hash of its
// logits; every later way is compared with it.

// FNV-1a over the bits of a row's logits.
std::uint64_t hash_logits(std::span<const float> logits);

// The bits of every row so far, and the results of the comparisons.
class RowBook final {
 public:
  // `row`: "case/position of the prompt" or "case/node"; `way` says how it was computed.
  void record(const std::string& row, const std::string& way, std::uint64_t hash);

  std::int64_t compared() const { return compared_; }
  std::int64_t mismatches() const { return mismatches_; }
  // "row way" for the first few.
  const std::vector<std::string>& mismatched() const { return mismatched_; }
  const std::map<std::string, std::uint64_t>& hashes() const { return hashes_; }

 private:
  std::map<std::string, std::uint64_t> hashes_;
  std::int64_t compared_ = 0;
  std::int64_t mismatches_ = 0;
  std::vector<std::string> mismatched_;
};

// Node i follows node parents[i], which is earlier, or the prompt's last token (-1).
struct RowCase {
  int number = 0;
  Position context = 0;  // tokens added to its prompt
  std::vector<TokenId> prompt;
  std::vector<int> parents;
  std::vector<TokenId> tokens;  // by node
};

// Chains (even numbers) and random trees (odd numbers) of 2 to 33 nodes, with prompts of 3 to 150
// tokens and `context` more.
RowCase make_row_case(int number, std::int32_t vocab_size, Position context = 0);
inline constexpr int kNumRowCases = 14;

// Runs one case in every way: rows alone; prompt in chunks of 7, 64 and whole, tree in one pass;
// slots and rows in random order; rows beside those of another sequence; after commits. `label`
// (threads, kernel) is put before the ways' names.
Status run_row_case(Model& model, const RowCase& row_case, const std::string& label, RowBook& book);

// Runs one case in the quickest way: prompt whole, tree in one pass.
Status run_row_case_once(Model& model, const RowCase& row_case, const std::string& label,
                         RowBook& book);

}  // namespace outrider
