// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tracing/trace_context.h"

#include <algorithm>
#include <span>

namespace outrider {
namespace {

constexpr std::size_t kLength = 55;  // of version 00
constexpr std::size_t kTraceAt = 3, kSpanAt = 36, kFlagsAt = 53;
constexpr std::uint8_t kSampled = 1;

// Lower case only. Nothing: it is no digit.
std::optional<std::uint8_t> digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<std::uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<std::uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

// text: two digits for each byte.
bool read_hex(std::string_view text, std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto high = digit(text[2 * i]);
    const auto low = digit(text[2 * i + 1]);
    if (!high || !low) return false;
    bytes[i] = static_cast<std::uint8_t>(*high << 4 | *low);
  }
  return true;
}

std::string hex(std::span<const std::uint8_t> bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

bool is_zero(std::span<const std::uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

std::optional<TraceContext> parse_traceparent(std::string_view header) {
  if (header.size() < kLength || header[kTraceAt - 1] != '-' || header[kSpanAt - 1] != '-' ||
      header[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceContext context;
  if (!read_hex(header, version) || !read_hex(header.substr(kTraceAt), context.trace) ||
      !read_hex(header.substr(kSpanAt), context.span) ||
      !read_hex(header.substr(kFlagsAt), flags)) {
    return std::nullopt;
  }
  const bool ends_well = header.size() == kLength || (version[0] > 0 && header[kLength] == '-');
  if (!ends_well || version[0] == 0xff || is_zero(context.trace) || is_zero(context.span)) {
    return std::nullopt;
  }
  context.sampled = (flags[0] & kSampled) != 0;
  return context;
}

TraceHeaders headers_of(const TraceContext& context) {
  return {.parent = "00-" + hex(context.trace) + "-" + hex(context.span) +
                    (context.sampled ? "-01" : "-00"),
          .state = context.state};
}

}  // namespace outrider
