// Flags whose value is more than a number, read where they stand on the command line: what reads
// it says what is wrong, and the error names the flag.
//
//   add_parsed(command, "--pace", "MS, or ROWS:MS,..", PaceCurve::parse, [&](const PaceCurve& pace)
//   { .. });
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <string>

#include "common/base/status.h"

namespace outrider {

// read: a text to Result<T>. take: gets the value.
template <typename Read, typename Take>
CLI::Option* add_parsed(CLI::App& command, const std::string& flag, const std::string& description,
                        Read read, Take take) {
  return command
      .add_option_function<std::string>(
          flag, [read, take](const std::string& text) { take(*read(text)); }, description)
      ->check(CLI::Validator(
          [read](const std::string& text) { return read(text).status().message(); }, "", ""));
}

}  // namespace outrider
