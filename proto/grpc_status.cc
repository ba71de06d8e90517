// SPDX-License-Identifier: Apache-2.0
#include "proto/grpc_status.h"

#include <algorithm>
#include <array>
#include <utility>

#include "proto/outrider/v1/outrider.pb.h"

namespace outrider {
namespace {

constexpr const char* kRetryInfoType = "type.googleapis.com/google.rpc.RetryInfo";
constexpr const char* kErrorType = "type.googleapis.com/outrider.v1.Error";
constexpr std::int64_t kMaxRetrySeconds = 3600;
constexpr std::int64_t kNanosPerSecond = 1'000'000'000;

constexpr std::array<std::pair<StatusCode, grpc::StatusCode>, 13> kCodes = {{
    {StatusCode::kOk, grpc::StatusCode::OK},
    {StatusCode::kCancelled, grpc::StatusCode::CANCELLED},
    {StatusCode::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
    {StatusCode::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
    {StatusCode::kNotFound, grpc::StatusCode::NOT_FOUND},
    {StatusCode::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION},
    {StatusCode::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {StatusCode::kUnimplemented, grpc::StatusCode::UNIMPLEMENTED},
    {StatusCode::kInternal, grpc::StatusCode::INTERNAL},
    {StatusCode::kUnavailable, grpc::StatusCode::UNAVAILABLE},
    {StatusCode::kDataLoss, grpc::StatusCode::DATA_LOSS},
    {StatusCode::kUnauthenticated, grpc::StatusCode::UNAUTHENTICATED},
    {StatusCode::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
}};

void add_retry(v1::StatusDetails& details, Duration retry_after) {
  v1::RetryInfo info;
  const std::int64_t nanos = std::max<std::int64_t>(retry_after.count(), 0);
  info.mutable_retry_delay()->set_seconds(nanos / kNanosPerSecond);
  info.mutable_retry_delay()->set_nanos(static_cast<std::int32_t>(nanos % kNanosPerSecond));
  v1::AnyDetail& detail = *details.add_details();
  detail.set_type_url(kRetryInfoType);
  detail.set_value(info.SerializeAsString());
}

void add_error(v1::StatusDetails& details, const StatusDetail& told) {
  v1::Error error;
  error.set_reason(told.reason);
  error.set_field(told.field);
  v1::AnyDetail& detail = *details.add_details();
  detail.set_type_url(kErrorType);
  detail.set_value(error.SerializeAsString());
}

// Words of a peer: nothing if they are no words.
StatusDetail detail_of(const v1::AnyDetail& detail) {
  constexpr std::size_t kMost = 64;
  v1::Error error;
  if (!error.ParseFromString(detail.value())) return {};
  const auto is_word = [](const std::string& text) {
    return text.size() <= kMost && std::ranges::all_of(text, [](char c) {
             return c == '_' || c == '.' || c == '[' || c == ']' || (c >= '0' && c <= '9') ||
                    (c >= 'a' && c <= 'z');
           });
  };
  if (!is_word(error.reason()) || !is_word(error.field())) return {};
  return {.reason = error.reason(), .field = error.field()};
}

// The codes that gRPC itself, a proxy or a gateway uses for a broken connection.
bool may_be_transports(grpc::StatusCode code) {
  return code == grpc::StatusCode::INTERNAL || code == grpc::StatusCode::CANCELLED ||
         code == grpc::StatusCode::ABORTED || code == grpc::StatusCode::UNKNOWN;
}

// The status in an Outrider server's detail. A proxy that resets the stream after the server's last
// message keeps the detail, but sets its own code and message.
std::optional<Status> servers_word(const grpc::Status& status) {
  v1::StatusDetails details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  const auto ours_is = std::ranges::find(details.details(), kErrorType, &v1::AnyDetail::type_url);
  if (ours_is == details.details().end()) return std::nullopt;
  Status said = from_grpc(status);
  for (const auto& [ours, theirs] : kCodes) {
    if (theirs == details.code() && ours != StatusCode::kOk) {
      said = Status(ours, details.message());
    }
  }
  const StatusDetail detail = detail_of(*ours_is);
  return detail == StatusDetail() ? said : said.with_detail(detail);
}

}  // namespace

grpc::Status to_grpc(const Status& status, std::optional<Duration> retry_after) {
  if (status.ok()) return grpc::Status::OK;
  grpc::StatusCode code = grpc::StatusCode::INTERNAL;
  for (const auto& [ours, theirs] : kCodes) {
    if (ours == status.code()) code = theirs;
  }
  v1::StatusDetails details;
  details.set_code(code);
  details.set_message(status.message());
  add_error(details, status.detail());
  if (retry_after) add_retry(details, *retry_after);
  return {code, status.message(), details.SerializeAsString()};
}

Status from_grpc(const grpc::Status& status) {
  if (status.ok()) return {};
  for (const auto& [ours, theirs] : kCodes) {
    if (theirs == status.error_code()) return Status(ours, status.error_message());
  }
  return internal_error("gRPC code " + std::to_string(status.error_code()) + ": " +
                        status.error_message());
}

Status ended_call(const grpc::Status& status) {
  if (const std::optional<Status> said = servers_word(status)) return *said;
  if (!may_be_transports(status.error_code())) return from_grpc(status);
  return unavailable("the connection to the server broke (" + from_grpc(status).to_string() + ")");
}

std::optional<Duration> retry_delay(const grpc::Status& status) {
  v1::StatusDetails details;
  if (!details.ParseFromString(status.error_details())) return std::nullopt;
  for (const v1::AnyDetail& detail : details.details()) {
    v1::RetryInfo info;
    if (detail.type_url() != kRetryInfoType || !info.ParseFromString(detail.value())) continue;
    const std::int64_t seconds = info.retry_delay().seconds();
    const std::int64_t nanos = info.retry_delay().nanos();
    if (seconds < 0 || seconds > kMaxRetrySeconds || nanos < 0 || nanos >= kNanosPerSecond) {
      continue;
    }
    return Duration(seconds * kNanosPerSecond + nanos);
  }
  return std::nullopt;
}

}  // namespace outrider
