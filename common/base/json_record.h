// Writes a struct as a JSON object and reads it back, from one list of fields, so that writer and
// reader cannot differ.
//
//   struct Bytes {
//     std::uint64_t up = 0;
//     std::optional<double> per_token;
//
//     template <typename Self, typename Visitor>
//     static void visit_fields(Self& self, Visitor&& field) {
//       field("up", self.up);
//       field("per_token", self.per_token);
//     }
//   };
//
//   const Json json = write_json(bytes);                         // {"per_token":null,"up":7}
//   const Result<Bytes> read = read_json<Bytes>(json, "line 3");
//
// A field is a bool, a number, a string, a token id, a named enum (its name), a Duration (its
// milliseconds; the key names the unit), another record, a vector of these, or an optional of these
// (null).
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <concepts>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/json.h"
#include "common/base/status.h"

namespace outrider {

template <typename T>
concept JsonRecord = requires(T& record) {
  T::visit_fields(record, [](const char*, auto&) {});
};

// Limit of a Duration: eleven days; a double holds so many nanoseconds exactly.
inline constexpr double kMaxJsonMs = 1e9;

template <typename T>
inline constexpr bool is_optional = false;
template <typename T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <typename T>
inline constexpr bool is_vector = false;
template <typename T>
inline constexpr bool is_vector<std::vector<T>> = true;

template <typename T>
Json write_json(const T& value) {
  if constexpr (JsonRecord<const T>) {
    Json object = Json::object();
    T::visit_fields(
        value, [&object](const char* key, const auto& field) { object[key] = write_json(field); });
    return object;
  } else if constexpr (is_optional<T>) {
    return value ? write_json(*value) : Json();
  } else if constexpr (is_vector<T>) {
    Json array = Json::array();
    for (const auto& element : value) array.push_back(write_json(element));
    return array;
  } else if constexpr (std::same_as<T, Duration>) {
    return to_ms(value);
  } else if constexpr (NamedEnum<T>) {
    return name_of(value);
  } else {
    return value;
  }
}

// Reads values and remembers the path of the first field that is missing or of another type.
class JsonRecordReader final {
 public:
  template <typename T>
  void read(const Json& json, T& value) {
    if constexpr (JsonRecord<T>) {
      if (!expect(json.is_object())) return;
      T::visit_fields(value, [&](const char* key, auto& field) { read_field(json, key, field); });
    } else if constexpr (is_optional<T>) {
      value.reset();
      if (!json.is_null()) read(json, value.emplace());
    } else if constexpr (is_vector<T>) {
      if (!expect(json.is_array())) return;
      value.clear();
      for (const Json& element : json) read(element, value.emplace_back());
    } else {
      read_scalar(json, value);
    }
  }

  bool ok() const { return !failed_; }
  // The path of the field that failed: "bytes.payload_up".
  const std::string& path() const { return path_; }

 private:
  template <typename T>
  void read_field(const Json& object, const char* key, T& field) {
    if (failed_) return;
    const std::size_t length = path_.size();
    path_ += (path_.empty() ? "" : ".") + std::string(key);
    const auto found = object.find(key);
    if (expect(found != object.end())) read(*found, field);
    if (!failed_) path_.resize(length);
  }

  template <typename T>
  void read_scalar(const Json& json, T& value) {
    if constexpr (std::same_as<T, Duration>) {
      const double ms = json.is_number() ? json.get<double>() : kMaxJsonMs + 1;
      if (expect(std::abs(ms) <= kMaxJsonMs)) value = from_ms(ms);
    } else if constexpr (NamedEnum<T>) {
      const auto named =
          json.is_string() ? parse_name<T>(json.get_ref<const std::string&>()) : std::nullopt;
      if (expect(named.has_value())) value = *named;
    } else if constexpr (std::same_as<T, bool>) {
      if (expect(json.is_boolean())) value = json.get<bool>();
    } else if constexpr (std::integral<T>) {
      read_integer(json, value);
    } else if constexpr (std::floating_point<T>) {
      if (expect(json.is_number())) value = json.get<T>();
    } else {
      static_assert(std::same_as<T, std::string>);
      if (expect(json.is_string())) value = json.get<std::string>();
    }
  }

  template <typename T>
  void read_integer(const Json& json, T& value) {
    const bool fits = json.is_number_unsigned()
                          ? std::in_range<T>(json.get<std::uint64_t>())
                          : json.is_number_integer() && std::in_range<T>(json.get<std::int64_t>());
    if (expect(fits)) value = json.get<T>();
  }

  bool expect(bool condition) {
    failed_ = failed_ || !condition;
    return condition;
  }

  bool failed_ = false;
  std::string path_;
};

// `what` names the object in errors. DATA_LOSS names a field that is missing or of another type;
// unknown keys are ignored.
template <typename Record>
Result<Record> read_json(const Json& json, const std::string& what) {
  Record record;
  JsonRecordReader reader;
  reader.read(json, record);
  if (reader.ok()) return record;
  if (reader.path().empty()) return data_loss(what + ": not a JSON object");
  return data_loss(what + " lacks \"" + reader.path() +
                   "\", or its value has another type; was it written by the same build?");
}

}  // namespace outrider
