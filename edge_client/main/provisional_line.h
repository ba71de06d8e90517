// Unverified text on a terminal: dimmed, behind the answer, on the answer's line only. The cursor
// stays where the answer ends, so taking it back is clearing the rest of the line.
//
// That needs the cursor's column, so where the width of a character is not certain (beyond Latin
// letters and common punctuation), nothing is shown until the line ends.
//
// Thread rule: a value; pure: gives bytes for the terminal, writes none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace outrider {

class ProvisionalLine final {
 public:
  // The cursor went to the begin of a line.
  void begin_line() { column_ = 0; }
  // Text of the answer was written. columns: of the terminal; 0: not known.
  void wrote(std::string_view text, int columns);

  // In place of what is shown: as much of the text as the line has room for. text: whole characters
  // without controls but line feed and tab.
  std::string show(std::string_view text, int columns);
  // Empty if nothing is shown.
  std::string take_back();

 private:
  std::optional<int> column_ = 0;  // of the cursor; nothing: not certain
  bool shown_ = false;
};

}  // namespace outrider
