// SPDX-License-Identifier: Apache-2.0
#include "proto/codec_fields.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace outrider::codec {
namespace {

constexpr std::size_t kMaxNameBytes = 256;

bool is_printable(char c) {
  return c >= 0x20 && c <= 0x7e;
}

}  // namespace

Status out_of_range(std::string_view field, std::uint64_t value, std::uint64_t max) {
  return invalid_argument(std::string(field) + " is " + std::to_string(value) + ", must be 0 to " +
                          std::to_string(max));
}

Result<Position> to_position(std::string_view field, std::uint64_t value) {
  if (value > kMaxPosition) return out_of_range(field, value, kMaxPosition);
  return static_cast<Position>(value);
}

Result<std::int32_t> to_int32(std::string_view field, std::uint32_t value) {
  constexpr auto kMax = static_cast<std::uint32_t>(std::numeric_limits<std::int32_t>::max());
  if (value > kMax) return out_of_range(field, value, kMax);
  return static_cast<std::int32_t>(value);
}

Result<std::uint8_t> to_confidence(std::string_view field, std::uint32_t value) {
  if (value > 255) return out_of_range(field, value, 255);
  return static_cast<std::uint8_t>(value);
}

Result<std::vector<std::int32_t>> to_int32s(std::string_view field, const Uint32s& values) {
  std::vector<std::int32_t> out;
  out.reserve(static_cast<std::size_t>(values.size()));
  for (const std::uint32_t value : values) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::int32_t converted, to_int32(field, value));
    out.push_back(converted);
  }
  return out;
}

Result<Duration> to_duration(std::string_view field, std::uint64_t microseconds) {
  if (microseconds > kMaxMicroseconds) return out_of_range(field, microseconds, kMaxMicroseconds);
  return Duration(std::chrono::microseconds(microseconds));
}

Result<float> to_finite(std::string_view field, float value) {
  if (!std::isfinite(value)) {
    return invalid_argument(std::string(field) + " is " + std::to_string(value) +
                            ", must be a finite number");
  }
  return value;
}

Result<std::string> to_name(std::string_view field, const std::string& value) {
  if (value.size() > kMaxNameBytes) {
    return invalid_argument(std::string(field) + " has " + std::to_string(value.size()) +
                            " bytes, at most " + std::to_string(kMaxNameBytes));
  }
  if (!std::all_of(value.begin(), value.end(), is_printable)) {
    return invalid_argument(std::string(field) + " holds bytes other than printable ASCII");
  }
  return value;
}

std::uint64_t from_duration(Duration duration) {
  const auto count = std::chrono::duration_cast<std::chrono::microseconds>(duration).count();
  return std::min(static_cast<std::uint64_t>(std::max<std::int64_t>(count, 0)), kMaxMicroseconds);
}

std::string from_name(std::string_view value) {
  std::string out(value.substr(0, kMaxNameBytes));
  std::replace_if(
      out.begin(), out.end(), [](char c) { return !is_printable(c); }, '?');
  return out;
}

void from_int32s(const std::vector<std::int32_t>& values, Uint32s& out) {
  out.Reserve(static_cast<int>(values.size()));
  for (const std::int32_t value : values) out.Add(static_cast<std::uint32_t>(value));
}

}  // namespace outrider::codec
