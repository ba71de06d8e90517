// SPDX-License-Identifier: Apache-2.0
#include "proto/grpc_status.h"

#include <gtest/gtest.h>

#include "proto/outrider/v1/outrider.pb.h"

namespace outrider {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

TEST(GrpcStatus, EveryCodeComesBackWithItsMessage) {
  for (const StatusCode code :
       {StatusCode::kCancelled, StatusCode::kInvalidArgument, StatusCode::kDeadlineExceeded,
        StatusCode::kNotFound, StatusCode::kFailedPrecondition, StatusCode::kResourceExhausted,
        StatusCode::kUnimplemented, StatusCode::kInternal, StatusCode::kUnavailable,
        StatusCode::kDataLoss, StatusCode::kUnauthenticated, StatusCode::kPermissionDenied}) {
    const Status status(code, "why");
    EXPECT_EQ(to_string(code), to_string(from_grpc(to_grpc(status)).code()));
    EXPECT_EQ(from_grpc(to_grpc(status)), status);
  }
  EXPECT_TRUE(to_grpc(Status()).ok());
  EXPECT_TRUE(from_grpc(grpc::Status::OK).ok());
}

TEST(GrpcStatus, ForeignCodeKeepsItsNumber) {
  const Status status = from_grpc(grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "too far"));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(), "gRPC code 11: too far");
}

TEST(GrpcStatus, RetryDelayTravelsAsGoogleRetryInfo) {
  const grpc::Status status = to_grpc(resource_exhausted("full"), 1250ms);
  EXPECT_EQ(retry_delay(status), Duration(1250ms));
  EXPECT_NE(status.error_details().find("type.googleapis.com/google.rpc.RetryInfo"),
            std::string::npos);
  EXPECT_EQ(retry_delay(to_grpc(resource_exhausted("full"))), std::nullopt);
}

// Earlier, a stream that a proxy reset ended the answer.
TEST(GrpcStatus, WhatAProxyOrTheTransportSaysMayBeRetried) {
  for (const grpc::StatusCode code :
       {grpc::StatusCode::INTERNAL, grpc::StatusCode::CANCELLED, grpc::StatusCode::ABORTED,
        grpc::StatusCode::UNKNOWN, grpc::StatusCode::UNAVAILABLE}) {
    const Status status = ended_call(grpc::Status(code, "RST_STREAM closed stream"));
    EXPECT_EQ(status.code(), StatusCode::kUnavailable) << code;
    EXPECT_NE(status.message().find("RST_STREAM"), std::string::npos);
  }
}

TEST(GrpcStatus, WhatTheServerItselfSaysStands) {
  for (const Status& status :
       {internal_error("a bug"), cancelled("replaced"), invalid_argument("bad")}) {
    EXPECT_EQ(ended_call(to_grpc(status)), status);
  }
  EXPECT_EQ(ended_call(to_grpc(resource_exhausted("full"), 1s)), resource_exhausted("full"));
  EXPECT_EQ(ended_call(grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "no")).code(),
            StatusCode::kPermissionDenied);
}

// HAProxy ends a stream whose edge had more to send with RST_STREAM, after the server's refusal.
TEST(GrpcStatus, WhatTheServerItselfSaysStandsThoughAProxyResetsTheStreamBehindIt) {
  for (const Status& status : {unavailable("this server is draining"), invalid_argument("bad")}) {
    const grpc::Status reset(grpc::StatusCode::CANCELLED, "Received RST_STREAM with error code 8",
                             to_grpc(status).error_details());
    EXPECT_EQ(ended_call(reset), status);
  }
}

TEST(GrpcStatus, AServersWordOfASuccessDoesNotHideAnError) {
  v1::StatusDetails details;
  ASSERT_TRUE(details.ParseFromString(to_grpc(unavailable("why")).error_details()));
  for (const int code : {0, -1, 99}) {
    details.set_code(code);
    const grpc::Status status(grpc::StatusCode::CANCELLED, "reset", details.SerializeAsString());
    EXPECT_EQ(ended_call(status), cancelled("reset")) << code;
  }
}

TEST(GrpcStatus, GarbledDetailsGiveNoDelay) {
  std::string details = to_grpc(resource_exhausted("full"), 1250ms).error_details();
  const auto with = [](const std::string& bytes) {
    return retry_delay(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "full", bytes));
  };
  EXPECT_EQ(with("\xff\xff\xff"), std::nullopt);
  EXPECT_EQ(with(details.substr(0, details.size() - 1)), std::nullopt);
  EXPECT_EQ(retry_delay(to_grpc(resource_exhausted("full"), std::chrono::hours(2))), std::nullopt);
}

TEST(GrpcStatus, ADetailTravelsAndWhatIsNoWordDoesNot) {
  const Status sent =
      invalid_argument("too long").with_detail({.reason = "context_length_exceeded", .field = "x"});
  EXPECT_EQ(ended_call(to_grpc(sent)), sent);
  EXPECT_EQ(ended_call(to_grpc(invalid_argument("plain"))), invalid_argument("plain"));
  const Status hostile = invalid_argument("x").with_detail({.reason = "a\nb", .field = {}});
  EXPECT_EQ(ended_call(to_grpc(hostile)), invalid_argument("x"));
  const Status endless =
      invalid_argument("x").with_detail({.reason = std::string(65, 'a'), .field = {}});
  EXPECT_EQ(ended_call(to_grpc(endless)), invalid_argument("x"));
}

}  // namespace
}  // namespace outrider
