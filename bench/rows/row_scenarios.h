// The row check's work: the same rows run in many ways, which must all give the same bits
// (docs/row-invariance.md). Shared by `outrider-bench rows`, by the `outrider-rows` tool that
// runs on other CPUs, and by the unit tests.
//
// A case is a prompt and a tree of nodes under it, made from its number alone, so that every
// machine makes the same.
//
// Thread rule: one thread, the model's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// The bits of rows, by name. The first way to be recorded defines a row's bits, as a hash of its
// logits; every later one is compared.

// FNV-1a over the bits of a row's logits.
std::uint64_t hash_logits(std::span<const float> logits);

// The bits of every row seen so far, and how they compared.
class RowBook final {
 public:
  // `row`: "case/position of the prompt" or "case/node"; `way` names how it was computed.
  void record(const std::string& row, const std::string& way, std::uint64_t hash);

  std::int64_t compared() const { return compared_; }
  std::int64_t mismatches() const { return mismatches_; }
  // "row way", of the first few.
  const std::vector<std::string>& mismatched() const { return mismatched_; }
  const std::map<std::string, std::uint64_t>& hashes() const { return hashes_; }

 private:
  std::map<std::string, std::uint64_t> hashes_;
  std::int64_t compared_ = 0;
  std::int64_t mismatches_ = 0;
  std::vector<std::string> mismatched_;
};

// Node i follows node parents[i], which stands before it, or the prompt's last token (-1).
struct RowCase {
  int number = 0;
  Position context = 0;  // tokens that its prompt is longer for
  std::vector<TokenId> prompt;
  std::vector<int> parents;
  std::vector<TokenId> tokens;  // by node
};

// Chains (even numbers) and random trees (odd) of 2 to 33 nodes, prompts of 3 to 150 tokens, and
// of `context` more.
RowCase make_row_case(int number, std::int32_t vocab_size, Position context = 0);
inline constexpr int kNumRowCases = 14;

// Runs one case in every way: rows alone; prompt in chunks of 7, 64 and whole, tree in one pass;
// slots and rows in random order; rows beside those of another sequence; after commits. `label`
// (threads, kernel) is put before the ways' names.
Status run_row_case(Model& model, const RowCase& row_case, const std::string& label, RowBook& book);

// Runs one case the quickest way: prompt whole, tree in one pass.
Status run_row_case_once(Model& model, const RowCase& row_case, const std::string& label,
                         RowBook& book);

}  // namespace outrider
