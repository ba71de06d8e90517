// Checked conversions of single fields, shared by both directions of the codec.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/base/types.h"
#include "google/protobuf/repeated_field.h"

namespace outrider::codec {

using Uint32s = google::protobuf::RepeatedField<std::uint32_t>;

// Far above any context, far below the overflow of sums of positions.
inline constexpr std::uint64_t kMaxPosition = std::uint64_t{1} << 40;
// Eleven days.
inline constexpr std::uint64_t kMaxMicroseconds = 1'000'000'000'000;

Status out_of_range(std::string_view field, std::uint64_t value, std::uint64_t max);

Result<Position> to_position(std::string_view field, std::uint64_t value);
// For counts and ids that a struct holds as int32.
Result<std::int32_t> to_int32(std::string_view field, std::uint32_t value);
Result<std::uint8_t> to_confidence(std::string_view field, std::uint32_t value);
Result<std::vector<std::int32_t>> to_int32s(std::string_view field, const Uint32s& values);
Result<Duration> to_duration(std::string_view field, std::uint64_t microseconds);
// Refuses NaN and infinities.
Result<float> to_finite(std::string_view field, float value);
// Names and hashes: at most 256 bytes of printable ASCII, so that they can appear in a log line.
Result<std::string> to_name(std::string_view field, const std::string& value);

std::uint64_t from_duration(Duration duration);
// Makes a value that to_name() accepts: other bytes become '?', the rest is cut.
std::string from_name(std::string_view value);
void from_int32s(const std::vector<std::int32_t>& values, Uint32s& out);

}  // namespace outrider::codec
