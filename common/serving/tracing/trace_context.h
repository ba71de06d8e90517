// The identity of a span, as W3C Trace Context passes it on between programs.
//
// Thread rule: values and pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "common/base/request_headers.h"

namespace outrider {

using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;

struct TraceContext {
  TraceId trace{};
  SpanId span{};
  bool sampled = false;
  std::string state = {};  // of other vendors, passed on as it came
};

// Nothing: the header is malformed, as W3C defines it. A later version than 00 may be longer.
std::optional<TraceContext> parse_traceparent(std::string_view header);

TraceHeaders headers_of(const TraceContext& context);

}  // namespace outrider
