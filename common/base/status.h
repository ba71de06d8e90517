// Status and Result<T>: how every fallible call of Outrider reports failure.
//
// A bug of ours aborts, by OUTRIDER_CHECK. Bad content of a peer or a file, and a failure of link,
// disk or memory, is a Status. No exception leaves a library. A message names the field, its value
// and the remedy, and is written for the person who reads it.
//
// Thread rule: values; share them like an int. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace outrider {

// The codes map one to one to gRPC's (proto/grpc_status.cc).
enum class StatusCode {
  kOk,
  kCancelled,
  kInvalidArgument,  // the caller's value is wrong in any state
  kDeadlineExceeded,
  kNotFound,
  kFailedPrecondition,  // the value would be right in another state
  kResourceExhausted,   // try later, or ask for less
  kUnimplemented,
  kInternal,
  kUnavailable,       // the peer is not reachable; a retry may succeed
  kDataLoss,          // a file is damaged or not what it claims to be
  kUnauthenticated,   // no key, or a wrong one
  kPermissionDenied,  // the key is valid but does not allow this
};

std::string_view to_string(StatusCode code);

// The details by which programs distinguish failures of one code. Empty texts: nothing more is
// known.
struct StatusDetail {
  std::string reason;  // a word, such as context_length_exceeded
  std::string field;   // of a request, such as max_tokens

  friend bool operator==(const StatusDetail&, const StatusDetail&) = default;
};

class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const StatusDetail& detail() const;

  // The same failure with this detail.
  Status with_detail(StatusDetail detail) const;

  // "INVALID_ARGUMENT: message", or "OK".
  std::string to_string() const;

  // The same failure, with the place where it happened before the message.
  Status with_context(std::string_view context) const;

  friend bool operator==(const Status& a, const Status& b) {
    return a.code_ == b.code_ && a.message_ == b.message_ && a.detail() == b.detail();
  }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
  std::shared_ptr<const StatusDetail> detail_;  // null: there is none
};

Status invalid_argument(std::string message);
Status failed_precondition(std::string message);
Status not_found(std::string message);
Status resource_exhausted(std::string message);
Status unavailable(std::string message);
Status cancelled(std::string message);
Status deadline_exceeded(std::string message);
Status data_loss(std::string message);
Status unimplemented(std::string message);
Status internal_error(std::string message);
Status unauthenticated(std::string message);
Status permission_denied(std::string message);

// Quotes untrusted text for a message: short, without control characters.
std::string printable(std::string_view text);

namespace internal {
[[noreturn]] void check_failed(const char* file, int line, const char* condition);
}  // namespace internal

// Aborts on a bug of our own. Bytes from the network or a file never trigger it.
#define OUTRIDER_CHECK(condition) \
  ((condition) ? (void)0 : ::outrider::internal::check_failed(__FILE__, __LINE__, #condition))

// A T, or the Status that explains why there is none.
//
//   Result<Config> config = load_config(path);
//   if (!config.ok()) return config.status();
//   use(*config);
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}         // NOLINT(google-explicit-constructor)
  Result(Status status) : status_(std::move(status)) {  // NOLINT(google-explicit-constructor)
    OUTRIDER_CHECK(!status_.ok());
  }

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }

  // Call only when ok().
  T& operator*() & { return checked(); }
  const T& operator*() const& { return const_cast<Result*>(this)->checked(); }
  T&& operator*() && { return std::move(checked()); }
  T* operator->() { return &checked(); }
  const T* operator->() const { return &const_cast<Result*>(this)->checked(); }

 private:
  T& checked() {
    OUTRIDER_CHECK(value_.has_value());
    return *value_;
  }

  std::optional<T> value_;
  Status status_;
};

#define OUTRIDER_CONCAT_INNER(a, b) a##b
#define OUTRIDER_CONCAT(a, b) OUTRIDER_CONCAT_INNER(a, b)

// Returns the Status of `expression` from the enclosing function unless it is ok.
#define OUTRIDER_RETURN_IF_ERROR(expression)                        \
  do {                                                              \
    if (::outrider::Status status_ = (expression); !status_.ok()) { \
      return status_;                                               \
    }                                                               \
  } while (false)

// OUTRIDER_ASSIGN_OR_RETURN(auto x, f()): x = *f(), or returns f()'s Status.
#define OUTRIDER_ASSIGN_OR_RETURN(target, expression) \
  OUTRIDER_ASSIGN_OR_RETURN_INNER(OUTRIDER_CONCAT(outrider_result_, __LINE__), target, expression)
#define OUTRIDER_ASSIGN_OR_RETURN_INNER(result, target, expression) \
  auto result = (expression);                                       \
  if (!result.ok()) return result.status();                         \
  target = *std::move(result)

}  // namespace outrider
