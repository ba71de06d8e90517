// Two answers side by side as they arrive, one line each, on a terminal.
//
//   cloud decoding  I see the silver bottle straight ah
//   Outrider        I see the silver bottle straight ahead at 1.2 m. I walk to it. Act
//
// Thread rule: any threads; a lane's text comes from one. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/mutex.h"

namespace outrider {

// The last columns of a text on one line: control characters become blanks, and an incomplete
// character at the cut is dropped. width: columns; each byte counts as one.
std::string text_tail(std::string_view text, std::size_t width);

class Lanes final {
 public:
  // width: columns of the terminal.
  Lanes(std::vector<std::string> names, std::size_t width);

  // Appends output of a lane's edge: the answer, then a line of JSON, which is not shown.
  void add(std::size_t lane, std::string_view printed);

  // All lanes as displayed, without line breaks.
  std::vector<std::string> lines() const;

 private:
  const std::vector<std::string> names_;
  const std::size_t width_;
  std::size_t longest_name_ = 0;
  mutable Mutex mutex_;
  std::vector<std::string> printed_ OUTRIDER_GUARDED_BY(mutex_);
};

}  // namespace outrider
