// SPDX-License-Identifier: Apache-2.0
#include "proto/grpc_log.h"

#include <grpc/support/log.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <string_view>

#include "common/base/clock.h"
#include "common/base/rate_limit.h"
#include "common/serving/telemetry/log.h"

namespace outrider {
namespace {

constexpr Duration kErrorInterval = std::chrono::seconds(10);

// gRPC 1.51's message, one line for each failure.
constexpr std::string_view kHandshakeFailed = "Handshake failed";

std::atomic<std::uint64_t> errors{0};
std::atomic<std::uint64_t> handshakes{0};

// If this error may be logged: how many were suppressed before it.
std::optional<std::uint64_t> admit_error() {
  static RateLimit limit(kErrorInterval);
  return limit.admit(SystemClock().now());
}

// The text is logged as a field, because a peer may have influenced it.
void pass_on(gpr_log_func_args* line) {
  if (line->severity != GPR_LOG_SEVERITY_ERROR) {
    return log(LogLevel::kDebug, "grpc", {{"line", line->message}});
  }
  errors.fetch_add(1, std::memory_order_relaxed);
  if (std::string_view(line->message).starts_with(kHandshakeFailed)) {
    handshakes.fetch_add(1, std::memory_order_relaxed);
  }
  const std::optional<std::uint64_t> held_back = admit_error();
  log(held_back ? LogLevel::kWarning : LogLevel::kDebug, "grpc error",
      {{"line", line->message}, {"held_back", held_back.value_or(0)}});
}

}  // namespace

void take_over_grpc_log() {
  gpr_set_log_function(pass_on);
}

std::uint64_t grpc_errors() {
  return errors.load(std::memory_order_relaxed);
}

std::uint64_t failed_handshakes() {
  return handshakes.load(std::memory_order_relaxed);
}

}  // namespace outrider
