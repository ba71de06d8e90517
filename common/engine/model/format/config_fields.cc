// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/config_fields.h"

#include <sstream>
#include <utility>

namespace outrider {
namespace {

// Values for messages; a value from a file may be long.
std::string shown(const Json& value) {
  constexpr std::size_t kLongest = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::string shown(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

std::string shown(std::int64_t value) {
  return std::to_string(value);
}

template <typename T>
Status out_of_range(const std::string& what, const char* key, const Json& value, T low, T high) {
  return invalid_argument(what + ": " + key + " is " + shown(value) + ", must be from " +
                          shown(low) + " to " + shown(high));
}

}  // namespace

FieldReader::FieldReader(const Json& object, std::string what)
    : object_(object), what_(std::move(what)) {
  if (!object.is_object()) fail(invalid_argument(what_ + ": must be a JSON object"));
}

const Json* FieldReader::find(const char* key) const {
  if (!object_.is_object()) return nullptr;
  const auto found = object_.find(key);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

bool FieldReader::has(const char* key) const {
  return find(key) != nullptr;
}

void FieldReader::fail(Status status) {
  if (status_.ok()) status_ = std::move(status);
}

void FieldReader::fail_type(const char* key, const Json& value, const char* wanted) {
  fail(invalid_argument(what_ + ": " + key + " is " + shown(value) + ", must be " + wanted));
}

std::int64_t FieldReader::integer(const char* key, std::int64_t low, std::int64_t high,
                                  std::optional<std::int64_t> absent) {
  const Json* value = find(key);
  if (value == nullptr) {
    if (!absent) fail(invalid_argument(what_ + ": " + key + " is missing"));
    return absent.value_or(low);
  }
  if (!value->is_number_integer()) {
    fail_type(key, *value, "an integer");
    return low;
  }
  // Unsigned values beyond std::int64_t would turn negative.
  const bool huge = value->is_number_unsigned() && value->get<std::uint64_t>() > INT64_MAX;
  const std::int64_t number = huge ? INT64_MAX : value->get<std::int64_t>();
  if (number >= low && number <= high) return number;
  fail(out_of_range(what_, key, *value, low, high));
  return low;
}

double FieldReader::real(const char* key, double low, double high, std::optional<double> absent) {
  const Json* value = find(key);
  if (value == nullptr) {
    if (!absent) fail(invalid_argument(what_ + ": " + key + " is missing"));
    return absent.value_or(low);
  }
  if (!value->is_number()) {
    fail_type(key, *value, "a number");
    return low;
  }
  const auto number = value->get<double>();
  if (number >= low && number <= high) return number;
  fail(out_of_range(what_, key, *value, low, high));
  return low;
}

bool FieldReader::flag(const char* key, bool absent) {
  const Json* value = find(key);
  if (value == nullptr) return absent;
  if (value->is_boolean()) return value->get<bool>();
  fail_type(key, *value, "true or false");
  return absent;
}

std::string FieldReader::text(const char* key, const std::optional<std::string>& absent) {
  const Json* value = find(key);
  if (value == nullptr) {
    if (!absent) fail(invalid_argument(what_ + ": " + key + " is missing"));
    return absent.value_or("");
  }
  if (value->is_string()) return value->get<std::string>();
  fail_type(key, *value, "a string");
  return "";
}

}  // namespace outrider
