// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/faults/fault_log.h"

#include <optional>
#include <utility>

namespace outrider {
namespace {

bool is_clients_fault(StatusCode code) {
  return code == StatusCode::kInvalidArgument || code == StatusCode::kFailedPrecondition ||
         code == StatusCode::kResourceExhausted;
}

bool is_our_fault(StatusCode code) {
  return code == StatusCode::kInternal || code == StatusCode::kDataLoss;
}

}  // namespace

void FaultLog::refuse(const std::string& who, const Status& status) {
  refused_.fetch_add(1, std::memory_order_relaxed);
  log_limited(refusals_, "refused " + who + ": " + status.to_string());
}

Status FaultLog::end(const std::string& who, const Status& status, const std::string& for_the_log) {
  if (is_clients_fault(status.code())) refuse(who, status);
  if (!for_the_log.empty()) {
    log_limited(failures_, who + ": " + status.with_context(for_the_log).to_string());
  }
  if (!is_our_fault(status.code())) return status;
  const std::uint64_t number = failed_.fetch_add(1, std::memory_order_relaxed) + 1;
  const std::string incident = "failure " + std::to_string(number);
  if (log_) log_(incident + ", " + who + ": " + status.to_string());
  return Status(status.code(),
                "the server could not continue; its log has the reason under " + incident);
}

void FaultLog::warn(const std::string& line) {
  log_limited(failures_, line);
}

void FaultLog::log_limited(RateLimit& limit, std::string line) {
  const std::optional<std::uint64_t> held_back = limit.admit(clock_.now());
  if (!held_back || !log_) return;
  if (*held_back > 0) {
    line += " (and " + std::to_string(*held_back) + " more since the last line)";
  }
  log_(line);
}

std::string name_in_log(const std::string& peer, const std::string& request_id) {
  return request_id.empty() ? peer : peer + " (request " + request_id + ")";
}

}  // namespace outrider
