// The state of the link, and the side that decides. SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/link_watch.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>
#include <vector>

namespace outrider {
namespace {

class FakeProbe final : public LinkProbe {
 public:
  void probe(Duration /*patience*/, Done done) override {
    ++asked;
    done_ = std::move(done);
  }
  void stop() override { done_ = nullptr; }
  void answer(bool good) { std::exchange(done_, nullptr)({good, std::chrono::milliseconds(1)}); }

  int asked = 0;

 private:
  Done done_;
};

class LinkWatchTest : public testing::Test {
 protected:
  static SessionEvent heard(std::uint32_t epoch) {
    return FromVerifier{epoch, ServerMessage(Opened{})};
  }
  static SessionEvent ended(std::uint32_t epoch, const Status& status) {
    return FromVerifier{epoch, StreamEnded{status}};
  }

  ManualClock clock_;
  FakeProbe probe_;
};

TEST_F(LinkWatchTest, AServerThatFallsSilentIsNoticedAndForgottenWithItsNextWord) {
  LinkWatch watch(Mode::kOnline, &probe_, clock_);
  watch.on_connect({.epoch = 1});
  watch.on_event(heard(1));
  clock_.advance(std::chrono::seconds(60));
  EXPECT_FALSE(watch.silence()) << "before its first verdict others may have the device";
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
  for (int i = 0; i < 4; ++i) {
    watch.on_event(FromVerifier{1, ServerMessage(Verdict{.tokens = {7}})});
    clock_.advance(std::chrono::milliseconds(800));
    EXPECT_FALSE(watch.silence()) << i;
  }
  clock_.advance(std::chrono::milliseconds(2300));  // 3.1 s, less than four gaps
  EXPECT_FALSE(watch.lost_since());
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
  clock_.advance(std::chrono::milliseconds(200));
  ASSERT_TRUE(watch.silence());
  EXPECT_EQ(*watch.silence(), std::chrono::milliseconds(3300));
  EXPECT_EQ(watch.look().link, LinkState::kDegraded);
  EXPECT_FALSE(watch.look().can_answer);
  EXPECT_EQ(watch.lost_since(), clock_.now());
  watch.on_event(FromVerifier{1, ServerMessage(Verdict{.tokens = {7}})});
  EXPECT_FALSE(watch.silence());
  EXPECT_FALSE(watch.lost_since());
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
  watch.on_finish({.ending = Ending::kStopToken, .status = {}});
  clock_.advance(std::chrono::seconds(60));
  EXPECT_FALSE(watch.silence()) << "nobody waits for it";
}

TEST_F(LinkWatchTest, ASilentServerIsTheStandbysToJudgeWhereThereIsOne) {
  LinkWatch watch(Mode::kAuto, &probe_, clock_);
  watch.on_connect({.epoch = 1});
  watch.on_event(FromVerifier{1, ServerMessage(Verdict{.tokens = {7}})});
  clock_.advance(std::chrono::seconds(60));
  EXPECT_FALSE(watch.silence());
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
}

TEST_F(LinkWatchTest, AnAnswersStreamTellsAsItGoes) {
  LinkWatch watch(Mode::kOnline, &probe_, clock_);
  watch.on_connect({.epoch = 1});
  EXPECT_EQ(watch.look().link, LinkState::kUnknown);
  EXPECT_FALSE(watch.look().can_answer);
  watch.on_event(heard(1));
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
  EXPECT_TRUE(watch.look().can_answer);
  watch.on_event(ended(1, unavailable("the link is lost")));
  EXPECT_EQ(watch.look().link, LinkState::kDegraded);
  EXPECT_FALSE(watch.look().can_answer);
  watch.on_connect({.epoch = 2});
  EXPECT_EQ(watch.look().link, LinkState::kDegraded) << "it has not spoken yet";
  watch.on_event(heard(1));
  EXPECT_EQ(watch.look().link, LinkState::kDegraded) << "of the stream before";
  watch.on_event(heard(2));
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
  watch.on_event(ended(2, unavailable("the link is lost")));
  watch.on_finish({.ending = Ending::kLinkLost, .status = unavailable("for too long")});
  EXPECT_EQ(watch.look().link, LinkState::kOffline);
  EXPECT_EQ(probe_.asked, 0) << "what is known was fresh";
}

TEST_F(LinkWatchTest, AnAnswerThatGivesItsStreamUpForSilenceHasLostTheServer) {
  LinkWatch watch(Mode::kOnline, &probe_, clock_);
  watch.on_connect({.epoch = 1});
  watch.on_event(heard(1));
  EXPECT_FALSE(watch.lost_since());
  clock_.advance(std::chrono::seconds(3));
  const TimePoint noticed = clock_.now();
  watch.on_connect({.epoch = 2});  // the session does not know that the first has ended
  EXPECT_EQ(watch.look().link, LinkState::kDegraded);
  clock_.advance(std::chrono::seconds(1));
  watch.on_event(ended(2, unavailable("refused")));
  EXPECT_EQ(watch.lost_since(), noticed);
  watch.on_connect({.epoch = 3});
  watch.on_event(heard(3));
  EXPECT_FALSE(watch.lost_since());
  watch.on_finish({.ending = Ending::kStopToken, .status = {}});
  watch.on_connect({.epoch = 4});
  EXPECT_EQ(watch.look().link, LinkState::kOnline) << "of another answer";
}

TEST_F(LinkWatchTest, AFreshLookWaitsForTheProbe) {
  LinkWatch watch(Mode::kOnline, &probe_, clock_);
  std::vector<LinkState> seen;
  const auto look = [&] {
    watch.look_fresh([&](const LinkWatch::View& view) { seen.push_back(view.link); });
  };
  look();
  look();
  EXPECT_EQ(probe_.asked, 1);
  EXPECT_TRUE(seen.empty());
  probe_.answer(true);
  EXPECT_EQ(seen, (std::vector{LinkState::kOnline, LinkState::kOnline}));
  look();
  EXPECT_EQ(seen.size(), 3u) << "what is known is fresh";
  clock_.advance(LinkWatch::kFresh);
  look();
  EXPECT_EQ(seen.size(), 3u);
  probe_.answer(false);
  EXPECT_EQ(seen.back(), LinkState::kOffline);
}

TEST_F(LinkWatchTest, AServerThatRefusesIsReached) {
  LinkWatch watch(Mode::kOnline, &probe_, clock_);
  watch.on_connect({.epoch = 1});
  watch.on_event(heard(1));
  watch.on_event(ended(1, {StatusCode::kUnauthenticated, "a wrong key"}));
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
}

TEST_F(LinkWatchTest, ADeviceThatDecidesStillTellsOfTheLink) {
  LinkWatch watch(Mode::kAuto, &probe_, clock_);
  EXPECT_TRUE(watch.look().can_answer) << "this device can, whatever the link is";
  EXPECT_FALSE(watch.look().device_decides);
  watch.on_connect({.epoch = 1});
  watch.on_event(heard(1));
  watch.on_connect({.epoch = 2, .route = Route::kOffline});
  EXPECT_TRUE(watch.look().device_decides);
  EXPECT_EQ(watch.look().link, LinkState::kOffline);
  watch.on_event(heard(2));
  EXPECT_EQ(watch.look().link, LinkState::kOffline) << "that was this device";
  watch.on_event(LinkProbed{.good = true, .took = {}});
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
  EXPECT_TRUE(watch.look().device_decides) << "until the server takes over";
  watch.on_connect({.epoch = 3});
  EXPECT_FALSE(watch.look().device_decides);
}

TEST_F(LinkWatchTest, BetweenAnswersTheServerIsAskedWhenWhatIsKnownIsOld) {
  LinkWatch watch(Mode::kOnline, &probe_, clock_);
  watch.look();
  watch.look();
  EXPECT_EQ(probe_.asked, 1) << "one at a time";
  probe_.answer(true);
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
  EXPECT_EQ(probe_.asked, 1) << "that is fresh";
  clock_.advance(LinkWatch::kFresh);
  watch.look();
  EXPECT_EQ(probe_.asked, 2);
  probe_.answer(false);
  EXPECT_EQ(watch.look().link, LinkState::kOffline);
  EXPECT_FALSE(watch.look().can_answer);
}

TEST_F(LinkWatchTest, AProbeThatComesBackInAnAnswerCountsLessThanTheAnswer) {
  LinkWatch watch(Mode::kOnline, &probe_, clock_);
  watch.look();
  watch.on_connect({.epoch = 1});
  watch.on_event(heard(1));
  probe_.answer(false);
  EXPECT_EQ(watch.look().link, LinkState::kOnline);
  clock_.advance(LinkWatch::kFresh);
  watch.look();
  EXPECT_EQ(probe_.asked, 1) << "an answer's stream tells more than a probe";
}

TEST_F(LinkWatchTest, WithoutAServerThereIsNoLink) {
  LinkWatch watch(Mode::kOffline, &probe_, clock_);
  watch.on_connect({.epoch = 1});
  watch.on_event(heard(1));
  const LinkWatch::View view = watch.look();
  EXPECT_EQ(view.link, LinkState::kNone);
  EXPECT_TRUE(view.device_decides);
  EXPECT_TRUE(view.can_answer);
  EXPECT_EQ(probe_.asked, 0);
}

}  // namespace
}  // namespace outrider
