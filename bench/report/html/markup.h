// Pieces of a page. Text from outside goes through escaped().
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "bench/report/text_table.h"

namespace outrider {

// Escapes text, and values of attributes in double quotes.
std::string html_escaped(std::string_view text);

// A line of text in a picture.
std::string svg_text(double x, double y, const char* anchor, const std::string& text);

// A figure of a report.
struct PageFigure {
  std::string title;
  std::string mark;     // how its numbers were made: "emulated", "simulated", ..
  std::string body;     // markup
  std::string caption;  // what it means, with units
};
std::string to_html(const PageFigure& figure);

// One chart of a figure, with its explanation below it; caption: text.
std::string captioned(const std::string& markup, const std::string& caption);

std::string to_html(const TextTable& table);

// The page's style: dark or light like the reader's system, readable on paper and at 390 px.
std::string_view page_style();

}  // namespace outrider
