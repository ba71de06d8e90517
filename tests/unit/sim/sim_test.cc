// When things happen in a simulation. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/sim_link.h"
#include "sim/sim_server.h"
#include "sim/simulation.h"
#include "tests/sim/toy_exits.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

constexpr Duration kPass = std::chrono::milliseconds(400);
constexpr Duration kOneWay = std::chrono::milliseconds(10);

class SimTest : public testing::Test {
 protected:
  struct Heard {
    double ms;
    VerifierEvent event;
  };

  explicit SimTest(SimLink::Options link = {.up = {kOneWay, kOneWay}, .down = {kOneWay, kOneWay}})
      : link_(simulation_, server_, link) {}

  static SchedulerOptions options(ToyExits& exits) {
    SchedulerOptions options;
    options.exits = &exits;
    return options;
  }

  void open() {
    link_.start(1, [this](const FromVerifier& said) {
      heard_.push_back({to_ms(simulation_.now().time_since_epoch()), said.event});
    });
    Open open;
    open.prefix = {1, 2, 3};
    open.end_position = 6;
    open.policy = {.pass_policy = PassPolicy::kEager, .patience = Duration{0}, .wants_exits = true};
    link_.send({.acked_position = 3, .acked_reports = 0, .body = std::move(open)});
  }
  void run_until(double ms) {
    simulation_.at(TimePoint{} + from_ms(ms), [] {});  // it is that late then
    while (simulation_.step(TimePoint{} + from_ms(ms))) {
    }
  }

  template <typename Message>
  std::vector<double> times_of() const {
    std::vector<double> times;
    for (const Heard& one : heard_) {
      const auto* message = std::get_if<ServerMessage>(&one.event);
      if (message != nullptr && std::holds_alternative<Message>(*message)) times.push_back(one.ms);
    }
    return times;
  }

  Simulation simulation_{1};
  ToyModel model_{8, 64};  // of four layers
  ToyExits exits_{model_};
  SimServer server_{simulation_, model_, options(exits_),
                    [](const PassRowCounts&) { return kPass; }};
  SimLink link_;
  std::vector<Heard> heard_;
};

TEST_F(SimTest, AnExitSpeaksWhenThePassHasReachedItsLayer) {
  open();
  run_until(430);
  ASSERT_THAT(times_of<Started>(), testing::SizeIs(2));
  EXPECT_EQ(times_of<Started>()[0], 20.0);
  EXPECT_EQ(times_of<Verdict>(), std::vector<double>{420.0});
  // An exit that repeats an earlier outcome sends no report.
  const std::vector<double> reports = times_of<ExitReport>();
  ASSERT_FALSE(reports.empty());
  EXPECT_EQ(reports.front(), 120.0) << "after one layer of four";
  for (const double ms : reports) EXPECT_THAT(ms, testing::AnyOf(120.0, 220.0, 320.0));
}

TEST_F(SimTest, APartitionHoldsWhatIsSentUntilItHeals) {
  open();
  run_until(100);
  link_.partition_down(from_ms(1000));
  run_until(1100);
  EXPECT_THAT(times_of<Verdict>(), testing::IsEmpty());
  run_until(1111);
  EXPECT_THAT(times_of<Verdict>(), testing::Each(1110.0));
  EXPECT_GT(link_.counts().held, 0u);
}

TEST_F(SimTest, AStalledReaderLosesTheReportsOfPassesThatAreOver) {
  open();
  run_until(100);
  link_.stall_reader(from_ms(1000));
  run_until(1111);
  EXPECT_THAT(times_of<Verdict>(), testing::Each(1110.0));
  EXPECT_GT(link_.counts().dropped_reports, 0u);
}

TEST_F(SimTest, ARestartEndsEveryStreamAndRefusesNewOnesForAWhile) {
  open();
  run_until(100);
  EXPECT_EQ(server_.restart(from_ms(50)), 1u);
  run_until(120);
  ASSERT_TRUE(std::holds_alternative<StreamEnded>(heard_.back().event));
  EXPECT_EQ(std::get<StreamEnded>(heard_.back().event).status.code(), StatusCode::kUnavailable);
  open();
  run_until(145);
  EXPECT_TRUE(std::holds_alternative<StreamEnded>(heard_.back().event)) << "still down";
  run_until(150);
  open();
  run_until(700);
  EXPECT_FALSE(times_of<Verdict>().empty());
}

TEST_F(SimTest, AFailingPassEndsItsStreamWithThatError) {
  server_.fail_next_pass(unavailable("the device is lost"));
  open();
  run_until(100);
  ASSERT_TRUE(std::holds_alternative<StreamEnded>(heard_.back().event));
  EXPECT_THAT(std::get<StreamEnded>(heard_.back().event).status.message(),
              testing::HasSubstr("the device is lost"));
  EXPECT_EQ(server_.failed_passes(), 1);
}

class NewConnectionTest : public SimTest {
 protected:
  NewConnectionTest()
      : SimTest({.up = {kOneWay, kOneWay},
                 .down = {kOneWay, kOneWay},
                 .connect_trips = kConnectTrips}) {}
};

TEST_F(NewConnectionTest, GreetsBeforeItsFirstMessage) {
  double connected = 0;
  link_.on_connected = [&](StreamId) { connected = to_ms(simulation_.now().time_since_epoch()); };
  open();
  run_until(500);
  EXPECT_EQ(connected, 50);
  EXPECT_THAT(times_of<Opened>(), testing::ElementsAre(60));
}

class NarrowLinkTest : public SimTest {
 protected:
  NarrowLinkTest()
      : SimTest({.up = {kOneWay, kOneWay}, .down = {kOneWay, kOneWay}, .bytes_per_s = 1000}) {}
};

TEST_F(NarrowLinkTest, MessagesWaitForThoseBeforeThem) {
  open();
  run_until(5000);
  EXPECT_GT(times_of<Started>().front(), 300.0) << "Open alone is some 290 bytes";
  EXPECT_GT(link_.counts().limited, 0u);
}

}  // namespace
}  // namespace outrider
