// SPDX-License-Identifier: Apache-2.0
#include "common/base/status.h"

#include <gtest/gtest.h>

#include <memory>

namespace outrider {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return invalid_argument("n = " + std::to_string(n) + " is odd");
  return n / 2;
}

Result<int> quarter(int n) {
  OUTRIDER_ASSIGN_OR_RETURN(const int h, half(n));
  OUTRIDER_ASSIGN_OR_RETURN(const int q, half(h));
  return q;
}

TEST(Status, DefaultIsOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().to_string(), "OK");
}

TEST(Status, ContextComesBeforeTheMessageAndKeepsTheCode) {
  const Status status = data_loss("short file").with_context("model.safetensors");
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_EQ(status.to_string(), "DATA_LOSS: model.safetensors: short file");
  EXPECT_TRUE(Status().with_context("anything").ok());
}

TEST(Result, ErrorsPassThroughTheMacros) {
  EXPECT_EQ(*quarter(8), 2);
  EXPECT_EQ(quarter(6).status().message(), "n = 3 is odd");
  EXPECT_EQ(quarter(5).status().message(), "n = 5 is odd");
}

TEST(Result, HoldsMoveOnlyValues) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

TEST(ResultDeathTest, ReadingTheValueOfAFailureIsABugOfOurs) {
  Result<int> failure = half(1);
  EXPECT_DEATH((void)*failure, "check failed");
}

TEST(Status, ADetailStaysWithTheFailure) {
  const Status status =
      invalid_argument("too long").with_detail({.reason = "context_length_exceeded", .field = "p"});
  EXPECT_EQ(status.with_context("here").detail().reason, "context_length_exceeded");
  EXPECT_EQ(status.with_context("here").message(), "here: too long");
  EXPECT_EQ(invalid_argument("x").detail(), StatusDetail());
  EXPECT_NE(status, invalid_argument("too long"));
}

}  // namespace
}  // namespace outrider
