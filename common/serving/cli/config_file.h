// The file behind --config: a strict, small subset of TOML.
//
//   # flags by their long names; before any section they apply to every command
//   log-level = "debug"
//   temp = 0.7
//   [run]                      # only for `outrider-edge run`
//   stop = ["\n\n", "User:"]
//
// A value is a quoted string ("..." with \n \t \\ \" escapes, '...' without), a bare word (a
// number, true, false, or text without spaces), or a list of these on one line.
//
// Thread rule: pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"

namespace outrider {

struct ConfigEntry {
  std::string section;  // "" before the first [section]
  std::string key;
  std::vector<std::string> values;
  int line = 0;  // counted from 1

  friend bool operator==(const ConfigEntry&, const ConfigEntry&) = default;
};

// `what` names the file in errors, which give the line. Errors: kInvalidArgument for anything else
// than the above, a key that stands twice in a section included. A byte-order mark and CRLF line
// ends are read over.
Result<std::vector<ConfigEntry>> parse_config_entries(std::string_view text,
                                                      const std::string& what);

}  // namespace outrider
