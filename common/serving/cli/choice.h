// A flag that takes one of an enum's names, parsed once, where it stands on the command line.
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>
#include <algorithm>
#include <optional>
#include <span>
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
    if (!standing.empty()) standing += ',';
    standing += name_of(value);
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

// --- choices in which guests may stand beside our own (common/decoding/drafting/own_or_guest.h)
// ----------

template <typename Choice>
using GuestsOf = std::span<const typename Choice::GuestKind>;  // they outlive what is chosen

template <typename Choice>
std::vector<std::string> choice_names(GuestsOf<Choice> guests) {
  std::vector<std::string> names = all_names<typename Choice::OwnKind>();
  for (const auto& guest : guests) names.emplace_back(guest.name);
  return names;
}

// name: one of choice_names().
template <typename Choice>
Choice parse_choice(const std::string& name, GuestsOf<Choice> guests) {
  if (const auto own = parse_name<typename Choice::OwnKind>(name)) return *own;
  return Choice(*std::ranges::find(guests, name, &Choice::GuestKind::name));
}

template <typename Choice>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, std::optional<Choice>& value,
                        GuestsOf<Choice> guests, const std::string& description) {
  return command
      .add_option_function<std::string>(
          flag,
          [&value, guests](const std::string& name) { value = parse_choice<Choice>(name, guests); },
          description)
      ->check(CLI::IsMember(choice_names<Choice>(guests)));
}

template <typename Choice>
CLI::Option* add_choice(CLI::App& command, const std::string& flag, std::vector<Choice>& values,
                        GuestsOf<Choice> guests, const std::string& description) {
  std::string standing;
  for (const Choice& value : values) {
    standing += (standing.empty() ? "" : ",") + std::string(name_of(value));
  }
  return command
      .add_option_function<std::vector<std::string>>(
          flag,
          [&values, guests](const std::vector<std::string>& names) {
            values.clear();
            for (const std::string& name : names) {
              values.push_back(parse_choice<Choice>(name, guests));
            }
          },
          description)
      ->check(CLI::IsMember(choice_names<Choice>(guests)))
      ->delimiter(',')
      ->default_str("[" + standing + "]");
}

}  // namespace outrider
