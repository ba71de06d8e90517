// Flags whose value is more than a number, read once, where they stand on the command line.
//
//   add_duration(command, "--timeout", timeout, std::chrono::seconds(1), CLI::Range(0.0, 60.0),
//   ".."); add_parsed(command, "--pace", "MS, or ROWS:MS,..", PaceCurve::parse, [&](const
//   PaceCurve& pace) { .. });
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// A number of `unit`s. `value` keeps what it holds as the default.
inline CLI::Option* add_duration(CLI::App& command, const std::string& flag, Duration& value,
                                 Duration unit, const CLI::Range& range,
                                 const std::string& description) {
  return command
      .add_option_function<double>(
          flag, [&value, unit](double number) { value = from_ms(number * to_ms(unit)); },
          description)
      ->default_str(CLI::detail::to_string(to_ms(value) / to_ms(unit)))
      ->check(range);
}

// Bytes, written as a number of megabytes (of 10^6).
inline CLI::Option* add_megabytes(CLI::App& command, const std::string& flag, std::uint64_t& bytes,
                                  const CLI::Range& range, const std::string& description) {
  return command
      .add_option_function<double>(
          flag, [&bytes](double number) { bytes = static_cast<std::uint64_t>(number * 1e6); },
          description)
      ->default_str(CLI::detail::to_string(static_cast<double>(bytes) / 1e6))
      ->check(range);
}

// A port to listen on. Port: std::uint16_t, or an optional one that is nothing unless it is given.
template <typename Port>
CLI::Option* add_port(CLI::App& command, const std::string& flag, Port& port,
                      const std::string& description) {
  return command.add_option(flag, port, description)->type_name("INT")->check(CLI::Range(0, 65535));
}

// read: a text to Result<T>, whose error says what is wrong; the flag's name is put before it.
// take: gets the value.
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
