// SPDX-License-Identifier: Apache-2.0
#include "common/base/status.h"

#include <cstdio>
#include <cstdlib>

namespace outrider {

std::string_view to_string(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "OK";
    case StatusCode::kCancelled:
      return "CANCELLED";
    case StatusCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case StatusCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case StatusCode::kNotFound:
      return "NOT_FOUND";
    case StatusCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case StatusCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case StatusCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case StatusCode::kInternal:
      return "INTERNAL";
    case StatusCode::kUnavailable:
      return "UNAVAILABLE";
    case StatusCode::kDataLoss:
      return "DATA_LOSS";
    case StatusCode::kUnauthenticated:
      return "UNAUTHENTICATED";
    case StatusCode::kPermissionDenied:
      return "PERMISSION_DENIED";
  }
  return "UNKNOWN";
}

std::string Status::to_string() const {
  if (ok()) return "OK";
  return std::string(outrider::to_string(code_)) + ": " + message_;
}

Status Status::with_context(std::string_view context) const {
  if (ok()) return *this;
  Status same = *this;
  same.message_ = std::string(context) + ": " + message_;
  return same;
}

const StatusDetail& Status::detail() const {
  static const StatusDetail kNone;
  return detail_ == nullptr ? kNone : *detail_;
}

Status Status::with_detail(StatusDetail detail) const {
  Status same = *this;
  same.detail_ = std::make_shared<const StatusDetail>(std::move(detail));
  return same;
}

Status invalid_argument(std::string message) {
  return {StatusCode::kInvalidArgument, std::move(message)};
}
Status failed_precondition(std::string message) {
  return {StatusCode::kFailedPrecondition, std::move(message)};
}
Status not_found(std::string message) {
  return {StatusCode::kNotFound, std::move(message)};
}
Status resource_exhausted(std::string message) {
  return {StatusCode::kResourceExhausted, std::move(message)};
}
Status unavailable(std::string message) {
  return {StatusCode::kUnavailable, std::move(message)};
}
Status cancelled(std::string message) {
  return {StatusCode::kCancelled, std::move(message)};
}
Status deadline_exceeded(std::string message) {
  return {StatusCode::kDeadlineExceeded, std::move(message)};
}
Status data_loss(std::string message) {
  return {StatusCode::kDataLoss, std::move(message)};
}
Status unimplemented(std::string message) {
  return {StatusCode::kUnimplemented, std::move(message)};
}
Status internal_error(std::string message) {
  return {StatusCode::kInternal, std::move(message)};
}
Status unauthenticated(std::string message) {
  return {StatusCode::kUnauthenticated, std::move(message)};
}
Status permission_denied(std::string message) {
  return {StatusCode::kPermissionDenied, std::move(message)};
}

std::string printable(std::string_view text) {
  constexpr std::size_t kLongest = 80;
  std::string shown = "\"";
  for (const char c : text.substr(0, kLongest)) shown += c >= ' ' && c != 0x7f ? c : '?';
  return shown + (text.size() > kLongest ? "...\"" : "\"");
}

namespace internal {

void check_failed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: check failed: %s (this is a bug in Outrider)\n", file, line,
               condition);
  std::abort();
}

}  // namespace internal
}  // namespace outrider
