// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/answer_line.h"

#include <cstdint>
#include <utility>

namespace outrider {
namespace {

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kUndimmed = "\033[0m";
constexpr std::string_view kClearRest = "\033[K";
constexpr std::string_view kClearBelow = "\033[J";
constexpr int kTabWidth = 8;

struct Character {
  std::uint32_t code = 0;
  std::size_t bytes = 1;
};

// text: not empty, UTF-8.
Character first_of(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const std::size_t bytes = byte(0) < 0x80 ? 1 : byte(0) < 0xe0 ? 2 : byte(0) < 0xf0 ? 3 : 4;
  if (bytes == 1 || bytes > text.size()) return {.code = byte(0), .bytes = 1};
  std::uint32_t code = byte(0) & (0x7fu >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) code = code << 6 | (byte(i) & 0x3fu);
  return {.code = code, .bytes = bytes};
}

// Whether every terminal gives it one cell.
bool takes_one_cell(std::uint32_t code) {
  constexpr std::uint32_t kSoftHyphen = 0xad, kFirstCombining = 0x300;
  const bool latin = code >= 0x20 && code < kFirstCombining && code != kSoftHyphen &&
                     (code < 0x7f || code >= 0xa0);
  const bool dashes_and_quotes = code >= 0x2010 && code <= 0x2027;
  return latin || dashes_and_quotes;
}

}  // namespace

void AnswerLine::wrote(std::string_view text, std::string_view drawn, const TerminalSize& size) {
  const int columns = size.columns;
  if (columns != std::exchange(columns_, columns) && !drawn_.empty()) column_.reset();
  if (const std::size_t end = drawn.rfind('\n'); end != std::string_view::npos) {
    drawn_.clear();
    drawn.remove_prefix(end + 1);
  }
  drawn_ += drawn;
  while (!text.empty()) {
    const Character character = first_of(text);
    text.remove_prefix(character.bytes);
    if (character.code == '\n') {
      column_ = 0;
      row_ = 0;
    } else if (!column_ || columns <= 0) {
      column_.reset();
    } else if (character.code == '\t') {
      column_ = (*column_ / kTabWidth + 1) * kTabWidth;
      if (*column_ >= columns) column_.reset();  // terminals differ
    } else if (!takes_one_cell(character.code)) {
      column_.reset();
    } else if (*column_ < columns) {
      ++*column_;
    } else {  // behind the last cell a row begins
      column_ = 1;
      ++row_;
    }
  }
}

std::string AnswerLine::show(std::string_view text, const TerminalSize& size) {
  std::string out = take_back();
  if (!column_) return out;
  std::string_view rest = text;
  int width = 0;
  while (!rest.empty() && *column_ + width + 1 < size.columns) {
    const Character character = first_of(rest);
    if (!takes_one_cell(character.code)) break;
    rest.remove_prefix(character.bytes);
    ++width;
  }
  if (width == 0) return out;
  shown_ = true;
  out.append(kDim).append(text.substr(0, text.size() - rest.size())).append(kUndimmed);
  return out + "\033[" + std::to_string(width) + "D";
}

std::string AnswerLine::take_back() {
  return std::exchange(shown_, false) ? std::string(kClearRest) : std::string();
}

std::string AnswerLine::lift(const TerminalSize& size) {
  std::string out = take_back();
  if (drawn_.empty() && column_ == 0) return out;
  if (!column_ || size.columns != columns_ || row_ >= size.rows) {
    column_.reset();
    return out + "\n";
  }
  if (row_ > 0) out += "\033[" + std::to_string(row_) + "A";
  return out.append("\r").append(kClearBelow);
}

}  // namespace outrider
