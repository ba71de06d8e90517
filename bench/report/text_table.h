// A small table of text, as Markdown, as HTML and for a terminal.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace outrider {

struct TextTable {
  std::vector<std::string> heads;
  std::vector<std::vector<std::string>> rows;  // as wide as the heads
};

std::string to_markdown(const TextTable& table);
// Columns as wide as their longest cell; the first columns are left-aligned.
std::string to_plain_text(const TextTable& table, std::size_t left_columns);

// A missing value is a dash.
std::string number_or_dash(std::optional<double> value, const char* format);

}  // namespace outrider
