// The engine with its real thread and clock. Nothing here depends on how long anything takes.
// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/scheduling/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "common/engine/model/emulated/paced_model.h"
#include "tests/sim/toy_draft.h"
#include "tests/sim/toy_exits.h"
#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

// Keeps the events of one stream.
class Listener {
 public:
  VerifyEngine::EventSink sink() {
    return [this](VerifierEvent event) {
      const std::lock_guard lock(mu_);
      if (const auto* message = std::get_if<ServerMessage>(&event)) {
        if (const auto* verdict = std::get_if<Verdict>(message)) {
          answer_.insert(answer_.end(), verdict->tokens.begin(), verdict->tokens.end());
        }
        if (const auto* report = std::get_if<ExitReport>(message)) reports_ = report->seq;
        if (const auto* progress = std::get_if<Progress>(message)) {
          EXPECT_TRUE(answer_.empty()) << "progress behind the verdict";
          progress_.push_back(*progress);
        }
      } else {
        status_ = std::get<StreamEnded>(event).status;
      }
      ++events_;
      changed_.notify_all();
    };
  }

  Status wait_for_end() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return status_.has_value(); });
    return *status_;
  }
  void wait_for_tokens(std::size_t count) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return answer_.size() >= count; });
  }
  void wait_for_reports(std::uint32_t count) {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return reports_ >= count; });
  }
  std::uint32_t reports() {
    const std::lock_guard lock(mu_);
    return reports_;
  }
  std::vector<TokenId> answer() {
    const std::lock_guard lock(mu_);
    return answer_;
  }
  std::vector<Progress> progress() {
    const std::lock_guard lock(mu_);
    return progress_;
  }
  int events() {
    const std::lock_guard lock(mu_);
    return events_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<TokenId> answer_;
  std::optional<Status> status_;
  std::uint32_t reports_ = 0;
  std::vector<Progress> progress_;
  int events_ = 0;
};

// A model whose passes wait until the test lets them.
class GatedModel final : public Model {
 public:
  explicit GatedModel(Model& model) : model_(model) {}
  const ModelInfo& info() const override { return model_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    inside_ = true;
    inside_.notify_all();
    open_.wait(false);
    return model_.forward(rows, out);
  }

  void wait_until_inside() { inside_.wait(false); }
  void open() {
    open_ = true;
    open_.notify_all();
  }

 private:
  Model& model_;
  std::atomic<bool> inside_ = false;
  std::atomic<bool> open_ = false;
};

// A model whose passes wait before their second exit, and again at their end, until the test lets
// them go.
class HeldModel final : public Model, private LayerTap {
 public:
  explicit HeldModel(Model& model) : model_(model) {}
  const ModelInfo& info() const override { return model_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    tap_ = out.tap;
    exits_shown_ = 0;
    if (tap_ != nullptr) out.tap = this;
    Status status = model_.forward(rows, out);
    held_.wait(kAtEnd);
    return status;
  }
  void hold() { held_ = kBetweenExits; }
  void let_second_exit_speak() {
    held_ = kAtEnd;
    held_.notify_all();
  }
  void let_go() {
    held_ = kNowhere;
    held_.notify_all();
  }

 private:
  enum Hold { kNowhere, kBetweenExits, kAtEnd };

  bool wants(std::int32_t layer) const override { return tap_->wants(layer); }
  void on_layer(const HiddenRows& rows) override {
    if (exits_shown_++ > 0) held_.wait(kBetweenExits);
    tap_->on_layer(rows);
  }

  Model& model_;
  LayerTap* tap_ = nullptr;
  int exits_shown_ = 0;
  std::atomic<Hold> held_ = kNowhere;
};

Open open_message(std::vector<TokenId> prefix, Position tokens, PassPolicy policy) {
  Open open;
  open.end_position = static_cast<Position>(prefix.size()) + tokens;
  open.prefix = std::move(prefix);
  open.policy.pass_policy = policy;
  return open;
}

std::vector<TokenId> expected(const ToyModel& model, const Open& open) {
  const std::vector<TokenId> text =
      model.decode(open.prefix, open.end_position, open.sampling, open.seed);
  return {text.begin() + static_cast<std::ptrdiff_t>(open.prefix.size()), text.end()};
}

class EngineTest : public testing::Test {
 protected:
  SystemClock clock_;
  ToyModel model_;
  SchedulerOptions options_;
};

TEST_F(EngineTest, AnswersAStream) {
  VerifyEngine engine(model_, options_, clock_);
  Listener listener;
  const StreamId stream = engine.connect(listener.sink());
  const Open open = open_message({1, 2, 3}, 20, PassPolicy::kEager);
  engine.post(stream, {.body = open});
  EXPECT_TRUE(listener.wait_for_end().ok());
  EXPECT_EQ(listener.answer(), expected(model_, open));
  engine.post(stream, {.body = Cancel{}});  // late: dropped
  engine.disconnect(stream);
  EXPECT_TRUE(engine.wait_until_idle(std::chrono::minutes(1)));
  EXPECT_EQ(engine.stats().finished_length, 1u);
}

TEST_F(EngineTest, ALongPromptThatIsReadInOnePassTellsHowFarItIs) {
  ToyModel model(8, 1000);
  options_.prefill_chunk = 1000;
  VerifyEngine engine(model, options_, clock_);
  const auto layers = static_cast<std::size_t>(model.info().num_layers);
  ASSERT_GT(layers, 1u);
  for (const auto& [length, told] : {std::pair{std::size_t{400}, layers}, {std::size_t{100}, 0u}}) {
    Listener listener;
    engine.post(engine.connect(listener.sink()),
                {.body = open_message(std::vector<TokenId>(length, 3), 5, PassPolicy::kEager)});
    EXPECT_TRUE(listener.wait_for_end().ok());
    ASSERT_EQ(listener.progress().size(), told);
    for (std::size_t i = 0; i < told; ++i) {
      EXPECT_EQ(listener.progress()[i].done, static_cast<Position>(length * (i + 1) / layers));
      EXPECT_EQ(listener.progress()[i].total, static_cast<Position>(length));
    }
  }
}

TEST_F(EngineTest, ADraftOnThreadsOfItsOwnChangesNoToken) {
  ToyDraft draft(model_, 1);
  options_.draft_source = DraftSource::kBoth;
  options_.draft_model = &draft;
  options_.drafts_in_passes = true;
  PacedModel paced(std::make_unique<ToyModel>(), *PaceCurve::parse("1"), clock_);
  VerifyEngine engine(paced, options_, clock_);
  Open asked = open_message({1, 2, 3}, 100, PassPolicy::kEager);
  asked.accepts_server_nodes = true;
  for (int round = 0; round < 2; ++round) {
    Listener listener;
    const StreamId stream = engine.connect(listener.sink());
    engine.post(stream, {.body = asked});
    ASSERT_TRUE(listener.wait_for_end().ok());
    EXPECT_EQ(listener.answer(), expected(model_, asked));
  }
  EXPECT_GT(draft.passes(), 0);
}

// A device whose passes take ten seconds, unless they are abandoned.
std::unique_ptr<PacedModel> slow_model(Clock& clock) {
  return std::make_unique<PacedModel>(std::make_unique<ToyModel>(), *PaceCurve::parse("10000"),
                                      clock);
}

void wait_until_running(const VerifyEngine& engine) {
  while (engine.running_for() < std::chrono::milliseconds(100)) std::this_thread::yield();
}

TEST_F(EngineTest, ADisconnectAbandonsThePassThatRunsForIt) {
  const std::unique_ptr<PacedModel> slow = slow_model(clock_);
  VerifyEngine engine(*slow, options_, clock_);
  Listener listener;
  const StreamId stream = engine.connect(listener.sink());
  engine.post(stream, {.body = open_message({1, 2, 3}, 20, PassPolicy::kEager)});
  wait_until_running(engine);
  const TimePoint left = clock_.now();
  engine.disconnect(stream);
  EXPECT_TRUE(engine.wait_until_idle(std::chrono::seconds(9)));
  EXPECT_LT(clock_.now() - left, std::chrono::seconds(5)) << "the pass would take ten";
  EXPECT_EQ(engine.stats().passes, 0u);
}

TEST_F(EngineTest, StreamsOfALostDeviceEndThoughItsPassHangs) {
  const std::unique_ptr<PacedModel> slow = slow_model(clock_);
  VerifyEngine engine(*slow, options_, clock_);
  Listener listener;
  const StreamId stream = engine.connect(listener.sink());
  engine.post(stream, {.body = open_message({1, 2, 3}, 20, PassPolicy::kEager)});
  wait_until_running(engine);
  engine.fail_all(unavailable("lost"));
  EXPECT_EQ(listener.wait_for_end(), unavailable("lost"));
}

TEST_F(EngineTest, AHangBetweenPassesIsSeenAsOneInThemIs) {
  std::promise<void> go_on;
  options_.on_session_end = [&](const SessionRecord&) { go_on.get_future().wait(); };
  VerifyEngine engine(model_, options_, clock_);
  Listener listener;
  engine.post(engine.connect(listener.sink()),
              {.body = open_message({1, 2, 3}, 5, PassPolicy::kEager)});
  EXPECT_TRUE(listener.wait_for_end().ok());
  wait_until_running(engine);
  go_on.set_value();
  EXPECT_TRUE(engine.wait_until_idle(std::chrono::minutes(1)));
  EXPECT_EQ(engine.running_for(), Duration{0});
}

TEST_F(EngineTest, CountsThePassesThatTheDeviceFailedInARow) {
  VerifyEngine engine(model_, options_, clock_);
  for (std::uint64_t failed = 1; failed <= 2; ++failed) {
    model_.break_next_passes(1);
    Listener listener;
    engine.post(engine.connect(listener.sink()),
                {.body = open_message({1}, 5, PassPolicy::kEager)});
    EXPECT_EQ(listener.wait_for_end().code(), StatusCode::kInternal);
    engine.wait_until_idle(std::chrono::seconds(9));
    EXPECT_EQ(engine.stats().failed_in_a_row, failed);
  }
  Listener listener;
  engine.post(engine.connect(listener.sink()), {.body = open_message({1}, 5, PassPolicy::kEager)});
  EXPECT_TRUE(listener.wait_for_end().ok());
  engine.wait_until_idle(std::chrono::seconds(9));
  EXPECT_EQ(engine.stats().failed_in_a_row, 0u);
}

TEST_F(EngineTest, WakesWhenPatienceIsOver) {
  VerifyEngine engine(model_, options_, clock_);
  Listener listener;
  const StreamId stream = engine.connect(listener.sink());
  Open open = open_message({1}, 5, PassPolicy::kEager);
  open.policy.patience = from_ms(1);
  engine.post(stream, {.body = open});
  EXPECT_TRUE(listener.wait_for_end().ok());
  EXPECT_EQ(listener.answer(), expected(model_, open));
}

TEST_F(EngineTest, ServesStreamsOfManyThreadsAtOnce) {
  VerifyEngine engine(model_, options_, clock_);
  constexpr TokenId kEdges = 6;
  std::vector<std::thread> edges;
  edges.reserve(kEdges);
  std::atomic<int> right = 0;
  for (TokenId first = 0; first < kEdges; ++first) {
    edges.emplace_back([&, first] {
      Listener listener;
      const StreamId stream = engine.connect(listener.sink());
      const Open open = open_message({first, 1}, 30, PassPolicy::kOnRequest);
      engine.post(stream, {.body = open});
      for (std::size_t have = 1; have < 30; ++have) {
        listener.wait_for_tokens(have);
        const auto end = static_cast<Position>(2 + have);
        engine.post(stream, {.acked_position = end, .body = Grow{1, end, {}}});
      }
      const bool ok = listener.wait_for_end().ok();
      if (ok && listener.answer() == expected(model_, open)) ++right;
    });
  }
  for (std::thread& edge : edges) edge.join();
  EXPECT_EQ(right, kEdges);
}

// Exit reports, a verdict and Usage come of the pass that runs as the stream goes.
TEST_F(EngineTest, NoEventComesAfterDisconnect) {
  ToyExits exits(model_);
  options_.exits = &exits;
  GatedModel gated(model_);
  VerifyEngine engine(gated, options_, clock_);
  Listener listener;
  const StreamId stream = engine.connect(listener.sink());
  Open open = open_message({1, 2}, 1, PassPolicy::kEager);
  open.policy.wants_exits = true;
  engine.post(stream, {.body = open});
  gated.wait_until_inside();
  engine.disconnect(stream);
  const int events = listener.events();
  EXPECT_GE(events, 2) << "Opened and Started";
  gated.open();
  EXPECT_TRUE(engine.wait_until_idle(std::chrono::minutes(1)));
  EXPECT_GT(engine.stats().exits_computed, 0u);
  EXPECT_EQ(engine.stats().passes, 1u);
  EXPECT_EQ(listener.events(), events);
}

TEST_F(EngineTest, DisconnectWaitsForTheEventInDelivery) {
  VerifyEngine engine(model_, options_, clock_);
  std::atomic<bool> inside = false;
  std::atomic<bool> held = true;
  const StreamId stream = engine.connect([&](const VerifierEvent&) {
    inside = true;
    inside.notify_all();
    held.wait(true);
  });
  engine.post(stream, {.body = open_message({1}, 5, PassPolicy::kEager)});
  inside.wait(false);
  std::atomic<bool> returned = false;
  std::thread leaving([&] {
    engine.disconnect(stream);
    returned = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(returned);
  held = false;
  held.notify_all();
  leaving.join();
}

// The second stream comes during the first's first pass, so the second pass is theirs together.
TEST_F(EngineTest, PassesGoOnWhileASinkTakesItsTime) {
  GatedModel gated(model_);
  VerifyEngine engine(gated, options_, clock_);
  Listener slow, other;
  std::atomic<bool> held = true;
  int verdicts = 0;
  const StreamId stream = engine.connect([&, sink = slow.sink()](const VerifierEvent& event) {
    const auto* message = std::get_if<ServerMessage>(&event);
    const bool is_verdict = message != nullptr && std::holds_alternative<Verdict>(*message);
    if (is_verdict && ++verdicts == 2) held.wait(true);
    sink(event);
  });
  const Open open = open_message({1, 2, 3}, 30, PassPolicy::kEager);
  engine.post(stream, {.body = open});
  gated.wait_until_inside();
  engine.post(engine.connect(other.sink()), {.body = open});
  gated.open();
  while (engine.stats().passes < 10) std::this_thread::yield();
  held = false;
  held.notify_all();
  for (Listener* listener : {&slow, &other}) {
    EXPECT_TRUE(listener->wait_for_end().ok());
    EXPECT_EQ(listener->answer(), expected(model_, open));
  }
}

TEST_F(EngineTest, APeerThatFloodsWhileTheDeviceWorksLosesItsStream) {
  GatedModel gated(model_);
  VerifyEngine engine(gated, options_, clock_);
  Listener flooding;
  const StreamId stream = engine.connect(flooding.sink());
  engine.post(stream, {.body = open_message({1}, 5, PassPolicy::kOnRequest)});
  gated.wait_until_inside();
  for (int i = 0; i < 1000; ++i) engine.post(stream, {.acked_position = 1, .body = Policy{}});
  gated.open();
  EXPECT_EQ(flooding.wait_for_end().code(), StatusCode::kResourceExhausted);
}

// A quick edge on a slow machine acknowledges every verdict; it once lost its stream for that.
TEST_F(EngineTest, AcknowledgementsThatWaitTogetherCountAsOne) {
  GatedModel gated(model_);
  VerifyEngine engine(gated, options_, clock_);
  Listener diligent;
  const StreamId stream = engine.connect(diligent.sink());
  engine.post(stream, {.body = open_message({1}, 5, PassPolicy::kEager)});
  gated.wait_until_inside();
  for (int i = 0; i < 1000; ++i) engine.post(stream, {.acked_position = 1, .body = AckOnly{}});
  gated.open();
  EXPECT_EQ(diligent.wait_for_end(), Status());
}

TEST_F(EngineTest, ReportsLeaveWhileThePassRuns) {
  HeldModel held(model_);
  ToyExits exits(model_);
  options_.exits = &exits;
  held.hold();
  VerifyEngine engine(held, options_, clock_);
  Listener listener;
  const StreamId stream = engine.connect(listener.sink());
  Open open = open_message({1, 2}, 3, PassPolicy::kEager);
  open.policy.wants_exits = true;
  engine.post(stream, {.body = open});
  listener.wait_for_reports(1);
  EXPECT_TRUE(listener.answer().empty());
  held.let_go();
  EXPECT_TRUE(listener.wait_for_end().ok());
  EXPECT_EQ(listener.answer(), expected(model_, open));
}

TEST_F(EngineTest, AnAcknowledgementDuringThePassMakesRoomForWhatWaits) {
  HeldModel held(model_);
  ToyExits exits(model_);
  options_.exits = &exits;
  VerifyEngine engine(held, options_, clock_);
  Listener listener;
  const StreamId stream = engine.connect(listener.sink());
  Open open = open_message({1, 2}, 200, PassPolicy::kOnRequest);
  open.policy.wants_exits = true;
  engine.post(stream, {.body = open});
  // Pass after pass without an acknowledgement of reports, nor of text that would settle them,
  // until no more may be on their way.
  constexpr Position kAcked = 2;
  Position end = 3;
  for (; listener.reports() < 8; ++end) {
    listener.wait_for_tokens(static_cast<std::size_t>(end) - 2);
    engine.post(stream, {.acked_position = kAcked, .body = Grow{1, end, {}}});
    ASSERT_LT(end, 100);
  }
  listener.wait_for_tokens(static_cast<std::size_t>(end) - 2);
  held.hold();
  engine.post(stream, {.acked_position = kAcked, .body = Grow{1, end, {}}});
  EXPECT_EQ(listener.reports(), 8u);
  engine.post(stream, {.acked_position = kAcked, .acked_reports = 8, .body = AckOnly{}});
  held.let_second_exit_speak();
  listener.wait_for_reports(9);
  EXPECT_EQ(listener.answer().size(), static_cast<std::size_t>(end) - 2);
  held.let_go();
  engine.post(stream, {.acked_position = kAcked, .acked_reports = 9, .body = Cancel{}});
  EXPECT_TRUE(listener.wait_for_end().ok());
}

TEST_F(EngineTest, LargeMessagesFillTheInboxSooner) {
  GatedModel gated(model_);
  VerifyEngine engine(gated, options_, clock_);
  Listener flooding;
  const StreamId stream = engine.connect(flooding.sink());
  engine.post(stream, {.body = open_message({1}, 5, PassPolicy::kOnRequest)});
  gated.wait_until_inside();
  for (int i = 0; i < 3; ++i) {
    engine.post(stream, {.body = Grow{1, 1, std::vector<GrowNode>(300'000)}});
  }
  gated.open();
  EXPECT_EQ(flooding.wait_for_end().code(), StatusCode::kResourceExhausted);
}

TEST_F(EngineTest, DrainsAndThenIsIdle) {
  VerifyEngine engine(model_, options_, clock_);
  Listener waiting;
  const StreamId stream = engine.connect(waiting.sink());
  engine.post(stream, {.body = open_message({1}, 5, PassPolicy::kOnRequest)});
  waiting.wait_for_tokens(1);
  engine.drain();
  EXPECT_FALSE(engine.wait_until_idle(Duration{0}));
  Listener late;
  engine.post(engine.connect(late.sink()), {.body = open_message({1}, 5, PassPolicy::kEager)});
  EXPECT_EQ(late.wait_for_end().code(), StatusCode::kUnavailable);
  engine.post(stream, {.acked_position = 2, .body = Cancel{}});
  EXPECT_TRUE(waiting.wait_for_end().ok());
  EXPECT_TRUE(engine.wait_until_idle(std::chrono::minutes(1)));
}

// The change waits behind a pass of the model before, and keeps nothing of its sessions.
TEST_F(EngineTest, VerifiesWithAnotherModelFromTheNextStreamOn) {
  ToyModel other(11);
  GatedModel gated(model_);
  VerifyEngine engine(gated, options_, clock_);
  Listener cut;
  const StreamId before = engine.connect(cut.sink());
  engine.post(before, {.body = open_message({1, 2, 3}, 20, PassPolicy::kEager)});
  gated.wait_until_inside();
  engine.disconnect(before);
  engine.change_model(other);
  Listener listener;
  const Open open = open_message({1, 2, 3}, 20, PassPolicy::kEager);
  engine.post(engine.connect(listener.sink()), {.body = open});
  gated.open();
  EXPECT_TRUE(listener.wait_for_end().ok());
  EXPECT_EQ(listener.answer(), expected(other, open));
  EXPECT_NE(listener.answer(), expected(model_, open));
  EXPECT_TRUE(engine.wait_until_idle(std::chrono::minutes(1)));
  EXPECT_EQ(engine.stats().sessions_opened, 1u);
}

TEST_F(EngineTest, ShuttingDownEndsEveryStreamWithUnavailable) {
  Listener waiting;
  {
    VerifyEngine engine(model_, options_, clock_);
    const StreamId stream = engine.connect(waiting.sink());
    engine.post(stream, {.body = open_message({1}, 5, PassPolicy::kOnRequest)});
    waiting.wait_for_tokens(1);
  }
  EXPECT_EQ(waiting.wait_for_end().code(), StatusCode::kUnavailable);
}

TEST_F(EngineTest, SessionsHaveNamesThatNobodyGuesses) {
  VerifyEngine engine(model_, options_, clock_);
  std::vector<std::string> names;
  for (int i = 0; i < 2; ++i) {
    Listener done;
    std::string name;
    const auto record = done.sink();
    const StreamId stream = engine.connect([&](VerifierEvent event) {
      const auto* message = std::get_if<ServerMessage>(&event);
      const auto* opened = message != nullptr ? std::get_if<Opened>(message) : nullptr;
      if (opened != nullptr) name = opened->session_id;
      record(std::move(event));
    });
    engine.post(stream, {.body = open_message({1}, 1, PassPolicy::kEager)});
    EXPECT_TRUE(done.wait_for_end().ok());
    engine.disconnect(stream);
    names.push_back(name);
  }
  EXPECT_EQ(names[0].size(), 32u);
  EXPECT_NE(names[0], names[1]);
}

}  // namespace
}  // namespace outrider
