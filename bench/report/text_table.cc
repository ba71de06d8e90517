// SPDX-License-Identifier: Apache-2.0
#include "bench/report/text_table.h"

#include <fmt/core.h>

#include <algorithm>

namespace outrider {
namespace {

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += " " + cell + " |";
  return row + "\n";
}

// The width of UTF-8 text, approximately: its code points.
std::size_t width_of(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xC0) != 0x80; }));
}

}  // namespace

std::string to_markdown(const TextTable& table) {
  std::string text = markdown_row(table.heads) + "|";
  for (std::size_t i = 0; i < table.heads.size(); ++i) text += "---|";
  text += "\n";
  for (const auto& row : table.rows) text += markdown_row(row);
  return text;
}

std::string to_plain_text(const TextTable& table, std::size_t left_columns) {
  std::vector<std::size_t> widths;
  for (const std::string& head : table.heads) widths.push_back(width_of(head));
  for (const auto& row : table.rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width_of(row[i]));
  }
  const auto line = [&](const std::vector<std::string>& cells) {
    std::string text;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const std::string room(widths[i] - width_of(cells[i]), ' ');
      text += (i > 0 ? "  " : "") + (i < left_columns ? cells[i] + room : room + cells[i]);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text + "\n";
  };
  std::string text = line(table.heads);
  for (const auto& row : table.rows) text += line(row);
  return text;
}

std::string number_or_dash(std::optional<double> value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "–";
}

}  // namespace outrider
