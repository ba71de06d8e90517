// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/body_fields.h"

#include <cmath>

namespace outrider {

Result<Json> parse_body(std::string_view body) {
  Result<Json> json = parse_json(body, "the body", RepeatedKeys::kRefused);
  if (!json.ok()) {
    const StatusDetail& detail = json.status().detail();
    return invalid_argument(json.status().message())
        .with_detail({.reason = "invalid_json", .field = detail.field});
  }
  if (!json->is_object()) {
    return invalid_argument("the body must be a JSON object").with_detail({"invalid_json", ""});
  }
  return json;
}

Status wrong(std::string_view field, const std::string& expected) {
  return invalid_argument("'" + std::string(field) + "' must be " + expected)
      .with_detail({.reason = "invalid_value", .field = std::string(field)});
}

// Names the value too, if it is short.
Status wrong(std::string_view field, const std::string& expected, const Json& value) {
  constexpr std::size_t kShort = 40;
  const std::string shown = value.is_primitive() ? value.dump(-1, ' ', true) : "";
  if (shown.empty() || shown.size() > kShort) return wrong(field, expected);
  return wrong(field, expected + ", and is " + shown);
}

Status missing(std::string_view field) {
  return invalid_argument("'" + std::string(field) + "' must be there")
      .with_detail({.reason = "missing_required_parameter", .field = std::string(field)});
}

Status unsupported(std::string_view field) {
  return unimplemented("'" + std::string(field) + "' is not supported here; leave it out")
      .with_detail({.reason = "unsupported_parameter", .field = std::string(field)});
}

Status read_number(const Json& value, std::string_view field, double least, double most,
                   double& out) {
  const std::string range = "a number from " + Json(least).dump() + " to " + Json(most).dump();
  const auto number = value.is_number() ? value.get<double>() : std::nan("");
  if (!std::isfinite(number) || number < least || number > most) return wrong(field, range, value);
  out = number;
  return {};
}

Status read_integer(const Json& value, std::string_view field, std::int64_t least,
                    std::int64_t& out) {
  constexpr double kBeyond = 9007199254740992;  // 2^53: every whole number below it is exact
  const auto number = value.is_number() ? value.get<double>() : std::nan("");
  if (number != std::floor(number) || number < static_cast<double>(least) || number >= kBeyond) {
    return wrong(field, "a whole number from " + std::to_string(least) + ", less than 2^53", value);
  }
  out = static_cast<std::int64_t>(number);
  return {};
}

Status read_bool(const Json& value, std::string_view field, bool& out) {
  if (!value.is_boolean()) return wrong(field, "true or false", value);
  out = value.get<bool>();
  return {};
}

}  // namespace outrider
