// The line of a terminal on which an answer is being written. Two things share it: unverified text,
// dimmed behind the answer, and lines of the log, for which it is lifted and drawn again below.
//
// The cursor stays where the answer ends. Taking back what is unverified is clearing the rest of
// the line; lifting the line is clearing all its rows. Both need the cursor's place, so where the
// width of a character is not certain (beyond Latin letters and common punctuation), nothing
// unverified is shown until the line ends, and a lifted line stays and is drawn once more.
//
// Thread rule: a value; pure: gives bytes for the terminal, writes none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

struct TerminalSize {
  int columns = 0;  // 0: not known
  int rows = 0;
};

class AnswerLine final {
 public:
  // The cursor went to the begin of a line.
  void begin_line() { *this = AnswerLine(); }
  // Text of the answer was written, as `drawn`, which may have colours.
  void wrote(std::string_view text, std::string_view drawn, const TerminalSize& size);

  // In place of what is shown: as much of the text as the line has room for. text: whole characters
  // without controls but line feed and tab.
  std::string show(std::string_view text, const TerminalSize& size);
  // The output that removes it; empty if the line shows none.
  std::string take_back();

  // Leaves the cursor at the begin of a line, with nothing unverified; write drawn() afterwards.
  std::string lift(const TerminalSize& size);
  // All of the line so far.
  const std::string& drawn() const { return drawn_; }

 private:
  std::string drawn_;
  std::optional<int> column_ = 0;  // of the cursor; nothing: not certain
  int row_ = 0;                    // of the cursor, within the line
  int columns_ = 0;                // of the terminal when the line was written
  bool shown_ = false;
};

}  // namespace outrider
