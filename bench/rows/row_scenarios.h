// The row check's work: the same rows run in many ways, which must all give the same bits (DESIGN
// L2, docs/row-invariance.md). Shared by `outrider-bench rows`, by the `outrider-rows` tool that
// runs on other CPUs, and by the unit tests.
//
// A case is a prompt and a tree of nodes under it, made from its number alone, so that every
// machine makes the same.
//
// Thread rule: one thread, the model's. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/rows/row_book.h"
#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

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
