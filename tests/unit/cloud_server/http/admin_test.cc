// What probes and Prometheus are answered. SPDX-License-Identifier: Apache-2.0
#include "cloud_server/http/admin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "tests/unit/common/http/http_client.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class AdminTest : public testing::Test {
 protected:
  AdminTest() {
    AdminQuestions questions;
    questions.is_alive = [this] { return alive_.load(); };
    questions.is_ready = [this] { return ready_.load(); };
    questions.metrics = [] { return std::string("outrider_x 1\n"); };
    questions.check_metrics_key = [this](const std::string&, const std::string&) { return key_; };
    server_ =
        *AdminServer::start({.health = Address{"127.0.0.1", 0}, .metrics = Address{"127.0.0.1", 0}},
                            std::move(questions));
  }

  std::string health(const std::string& path) { return http_get(*server_->health_address(), path); }
  std::string metrics() { return http_get(*server_->metrics_address(), "/metrics"); }

  std::atomic<bool> alive_ = true, ready_ = true;
  Status key_;
  std::unique_ptr<AdminServer> server_;
};

TEST_F(AdminTest, AHungServerIsNeitherAliveNorReady) {
  EXPECT_THAT(health("/health/live"), HasSubstr("200 OK"));
  EXPECT_THAT(health("/health/ready"), HasSubstr("200 OK"));
  alive_ = false;
  EXPECT_THAT(health("/health/live"), HasSubstr("HTTP/1.1 503"));
  EXPECT_THAT(health("/health/ready"), HasSubstr("HTTP/1.1 503"));
}

TEST_F(AdminTest, ADrainingServerIsAliveAndNotReady) {
  ready_ = false;
  EXPECT_THAT(health("/health/live"), HasSubstr("200 OK"));
  EXPECT_THAT(health("/health"), HasSubstr("HTTP/1.1 503"));
}

TEST_F(AdminTest, MetricsSayWhyTheyAreRefusedAndWhenToAskAgain) {
  EXPECT_THAT(metrics(), HasSubstr("outrider_x 1"));
  key_ = unauthenticated("no such key");
  EXPECT_THAT(metrics(), AllOf(HasSubstr("HTTP/1.1 401"), HasSubstr("read-metrics")));
  key_ = resource_exhausted("too many wrong keys");
  EXPECT_THAT(metrics(), AllOf(HasSubstr("HTTP/1.1 429"), HasSubstr("Retry-After: 2")));
}

}  // namespace
}  // namespace outrider
