// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/provisional_line.h"

#include <cstdint>
#include <utility>

namespace outrider {
namespace {

constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kUndimmed = "\033[0m";
constexpr std::string_view kClearRest = "\033[K";
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

void ProvisionalLine::wrote(std::string_view text, int columns) {
  while (!text.empty()) {
    const Character character = first_of(text);
    text.remove_prefix(character.bytes);
    if (character.code == '\n') {
      column_ = 0;
    } else if (!column_ || columns <= 0) {
      column_.reset();
    } else if (character.code == '\t') {
      column_ = (*column_ / kTabWidth + 1) * kTabWidth;
      if (*column_ >= columns) column_.reset();  // terminals differ
    } else if (takes_one_cell(character.code)) {
      column_ = *column_ < columns ? *column_ + 1 : 1;  // behind the last cell a line begins
    } else {
      column_.reset();
    }
  }
}

std::string ProvisionalLine::show(std::string_view text, int columns) {
  std::string out = take_back();
  if (!column_) return out;
  std::string_view rest = text;
  int width = 0;
  while (!rest.empty() && *column_ + width + 1 < columns) {
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

std::string ProvisionalLine::take_back() {
  return std::exchange(shown_, false) ? std::string(kClearRest) : std::string();
}

}  // namespace outrider
