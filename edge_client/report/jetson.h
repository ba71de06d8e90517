// The state of a Jetson as its kernel reports it: power mode, temperatures, power rails, GPU load,
// and whether it holds clocks back. Read from procfs, sysfs and nvpmodel's files; what they lack,
// from the last line of a file that NVIDIA's tegrastats writes.
//
// The figures are the whole board's, other programs' use included. A file that is missing or holds
// no number costs its figure and is named in `unread`; nothing fails.
//
// Thread rule: values and functions without state, which read files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/json.h"

namespace outrider {

struct JetsonFigures {
  std::string board;                      // the device tree's model
  std::string power_mode;                 // nvpmodel's name of it, or its number; empty: not known
  std::map<std::string, double> celsius;  // by thermal zone
  std::map<std::string, double> watts;    // by power rail
  std::optional<double> gpu_load;         // 0 to 1
  std::vector<std::string> throttled;     // cooling devices that hold clocks back now
  std::optional<std::uint64_t> over_current_events;  // since the board's start
  std::vector<std::string> unread;                   // files that were expected to tell more
};

// root: where proc, sys, etc, var and run are looked for; "" but in tests. Nothing: this is no
// Jetson.
std::optional<JetsonFigures> read_jetson(const std::string& root = "");

// Its rails alone, which are quick to read; from tegrastats' file if there is no sensor. Empty:
// this is no Jetson, or it tells none.
std::map<std::string, double> read_jetson_watts(const std::string& root = "");

// The power of the whole board, from its rails: the rail of its input if it has one; else the sum of
// those that do not feed each other. Nothing without rails.
std::optional<double> board_watts(const std::map<std::string, double>& rails);

// The temperatures, rails and load in a line of tegrastats, in its forms since Jetson Nano.
JetsonFigures parse_tegrastats(std::string_view line);

std::string to_text(const JetsonFigures& figures);  // for people; one or two lines
Json to_json(const JetsonFigures& figures);

}  // namespace outrider
