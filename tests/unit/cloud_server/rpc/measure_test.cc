// Measure: bytes there and back, its limits, and what the edge makes of them.
// SPDX-License-Identifier: Apache-2.0
#include <future>

#include "bench/link/link.h"
#include "bench/link/path/link_spec.h"
#include "edge_client/verifiers/link_speed.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;

class MeasureTest : public ServerTest {
 protected:
  Result<LinkSpeed> measured(const Address& server) const {
    return measure_link_speed({.server = server}, stop_.get_token());
  }
  std::stop_source stop_;
};

TEST_F(MeasureTest, BytesThatTakeNoTimeAreALowerBound) {
  const Result<LinkSpeed> speed = measured(address());
  ASSERT_TRUE(speed.ok()) << speed.status().to_string();
  EXPECT_GT(speed->up.bytes_per_second, 0);
  EXPECT_GT(speed->down.bytes_per_second, 0);
}

// A machine that is busy makes it slower, never faster.
TEST_F(MeasureTest, ALinkIsNotTakenForFasterThanItIs) {
  const auto profile = parse_link("ethernet+delay=10ms+up.rate=2mbit+down.rate=8mbit+queue=64kb");
  ASSERT_TRUE(profile.ok()) << profile.status().to_string();
  const std::unique_ptr<Link> link =
      *start_link(*profile, {.seed = 1, .kind = LinkKind::kModelled});
  const Result<LinkSpeed> speed = measured(*link->route(address()));
  ASSERT_TRUE(speed.ok()) << speed.status().to_string();
  EXPECT_LT(speed->up.bytes_per_second, 1.15 * 2e6 / 8);
  EXPECT_GT(speed->up.bytes_per_second, 0.2 * 2e6 / 8);
  EXPECT_LT(speed->down.bytes_per_second, 1.15 * 8e6 / 8);
  EXPECT_GT(speed->down.bytes_per_second, speed->up.bytes_per_second);
  EXPECT_FALSE(speed->up.least);
}

TEST_F(MeasureTest, AnInterruptedMeasurementEnds) {
  stop_.request_stop();
  EXPECT_EQ(measured(address()).status().code(), StatusCode::kCancelled);
}

TEST_F(MeasureTest, NobodyThereIsAnError) {
  const Address nobody = address();
  EXPECT_EQ(bystander_->finish(), Status());
  bystander_.reset();
  server_->shutdown(Duration{0});
  EXPECT_EQ(measured(nobody).status().code(), StatusCode::kUnavailable);
}

class MeasureWithoutRoomTest : public MeasureTest {
 protected:
  MeasureWithoutRoomTest() { rpc_options_.max_calls = 1; }  // the bystander's
};

TEST_F(MeasureWithoutRoomTest, HasNoRoomForMeasurements) {
  const Result<LinkSpeed> speed = measured(address());
  EXPECT_EQ(speed.status().code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(speed.status().message(), HasSubstr("open calls"));
}

}  // namespace
}  // namespace outrider
