// A flag that takes one of an enum's names, parsed once, where it stands on the command line.
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>
#include <vector>

#include "common/base/enum_names.h"

namespace outrider {

// `value` keeps what it holds as the default.
template <NamedEnum Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, Enum& value,
                        const std::string& description) {
  return command
      .add_option_function<std::string>(
          flag, [&value](const std::string& name) { value = *parse_name<Enum>(name); }, description)
      ->check(CLI::IsMember(all_names<Enum>()))
      ->default_str(name_of(value));
}

// Nothing unless it is given.
template <NamedEnum Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, std::optional<Enum>& value,
                        const std::string& description) {
  return command
      .add_option_function<std::string>(
          flag, [&value](const std::string& name) { value = parse_name<Enum>(name); }, description)
      ->check(CLI::IsMember(all_names<Enum>()));
}

// Several, with commas between them.
template <NamedEnum Enum>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, std::vector<Enum>& values,
                        const std::string& description) {
  std::string standing;
  for (const Enum value : values) {
    standing += (standing.empty() ? "" : ",") + std::string(name_of(value));
  }
  return command
      .add_option_function<std::vector<std::string>>(
          flag,
          [&values](const std::vector<std::string>& names) {
            values.clear();
            for (const std::string& name : names) values.push_back(*parse_name<Enum>(name));
          },
          description)
      ->check(CLI::IsMember(all_names<Enum>()))
      ->delimiter(',')
      ->default_str("[" + standing + "]");
}

}  // namespace outrider
