// SPDX-License-Identifier: Apache-2.0
#include "proto/grpc_status.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

TEST(GrpcStatus, EveryCodeComesBackWithItsMessage) {
  for (const StatusCode code :
       {StatusCode::kCancelled, StatusCode::kInvalidArgument, StatusCode::kDeadlineExceeded,
        StatusCode::kNotFound, StatusCode::kFailedPrecondition, StatusCode::kResourceExhausted,
        StatusCode::kUnimplemented, StatusCode::kInternal, StatusCode::kUnavailable,
        StatusCode::kDataLoss}) {
    const Status status(code, "why");
    EXPECT_EQ(to_string(code), to_string(from_grpc(to_grpc(status)).code()));
    EXPECT_EQ(from_grpc(to_grpc(status)), status);
  }
  EXPECT_TRUE(to_grpc(Status()).ok());
  EXPECT_TRUE(from_grpc(grpc::Status::OK).ok());
}

TEST(GrpcStatus, ForeignCodeKeepsItsNumber) {
  const Status status = from_grpc(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "who are you"));
  EXPECT_EQ(status.code(), StatusCode::kInternal);
  EXPECT_EQ(status.message(), "gRPC code 16: who are you");
}

TEST(GrpcStatus, RetryDelayTravelsAsGoogleRetryInfo) {
  const grpc::Status status = to_grpc(resource_exhausted("full"), 1250ms);
  EXPECT_EQ(retry_delay(status), Duration(1250ms));
  EXPECT_NE(status.error_details().find("type.googleapis.com/google.rpc.RetryInfo"),
            std::string::npos);
  EXPECT_EQ(retry_delay(to_grpc(resource_exhausted("full"))), std::nullopt);
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

}  // namespace
}  // namespace outrider
