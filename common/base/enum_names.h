// The names of an enum's values, in one list beside the enum, for flags, JSON and the reader.
//
//   enum class Color : std::uint8_t { kRed, kBlue };
//   template <>
//   inline constexpr auto enum_names<Color> =
//       std::to_array<EnumName<Color>>({{Color::kRed, "red"}, {Color::kBlue, "blue"}});
//
//   name_of(Color::kRed);       // "red"
//   parse_name<Color>("blue");  // Color::kBlue; nothing for a name that is not in the list
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace outrider {

template <typename Enum>
struct EnumName {
  Enum value;
  const char* name;
};

// Specialised for each enum that has names; the list holds every value.
template <typename Enum>
inline constexpr std::nullptr_t enum_names = nullptr;

template <typename Enum>
concept NamedEnum =
    std::is_enum_v<Enum> && !std::is_same_v<decltype(enum_names<Enum>), const std::nullptr_t>;

template <NamedEnum Enum>
constexpr const char* name_of(Enum value) {
  for (const EnumName<Enum>& entry : enum_names<Enum>) {
    if (entry.value == value) return entry.name;
  }
  return "";
}

template <NamedEnum Enum>
constexpr std::optional<Enum> parse_name(std::string_view name) {
  for (const EnumName<Enum>& entry : enum_names<Enum>) {
    if (entry.name == name) return entry.value;
  }
  return std::nullopt;
}

// In the list's order.
template <NamedEnum Enum>
std::vector<std::string> all_names() {
  std::vector<std::string> names;
  for (const EnumName<Enum>& entry : enum_names<Enum>) names.emplace_back(entry.name);
  return names;
}

}  // namespace outrider
