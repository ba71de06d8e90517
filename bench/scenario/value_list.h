// Lists of numbers as people write them on a command line: "0,0.7", "2-8", "0-100+25".
//
// A range has both ends; after + stands its step, 1 without it (llama-bench's way of writing).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct ValueBounds {
  double least = 0;
  double most = 0;
};

// In the order written. `flag` names the list in errors. INVALID_ARGUMENT for what is no number, is
// outside the bounds, stands twice, for a range that falls, and for more than 1,000 values.
Result<std::vector<double>> parse_values(const std::string& text, const std::string& flag,
                                         const ValueBounds& bounds);

// The same of whole numbers.
Result<std::vector<int>> parse_whole_values(const std::string& text, const std::string& flag,
                                            const ValueBounds& bounds);

// The words between commas, without blanks around them; nothing between two commas is a word too.
std::vector<std::string> split_list(const std::string& text);

}  // namespace outrider
