// The lines of a finished program's output that tell how it went.
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace outrider {

// Without its end; empty if there is none.
inline std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of("\r\n");
  if (end == std::string::npos) return "";
  const std::size_t newline = text.rfind('\n', end);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return text.substr(begin, end - begin + 1);
}

// What outrider-edge says of its own failure, or else its last line.
inline std::string last_error_line(const std::string& err) {
  const std::size_t begin = err.rfind("outrider-edge: ");
  if (begin == std::string::npos) return last_line(err);
  return err.substr(begin, err.find('\n', begin) - begin);
}

}  // namespace outrider
