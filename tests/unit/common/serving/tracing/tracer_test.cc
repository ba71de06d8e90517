// Sampling, keeping and dropping of spans, whatever the collector does.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tracing/tracer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>

#include "common/serving/tracing/stream_spans.h"
#include "tests/support/eventually.h"

namespace outrider {
namespace {

constexpr char kParent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// A collector of this process.
struct Kept {
  Tracer::Send send() {
    return [this](const std::vector<TraceSpan>& batch, const std::stop_token& stop) {
      while (blocks && !stop.stop_requested()) std::this_thread::yield();
      const std::lock_guard lock(mu);
      spans.insert(spans.end(), batch.begin(), batch.end());
      return Result<std::uint64_t>(std::uint64_t{0});
    };
  }
  std::atomic<bool> blocks{false};
  std::mutex mu;
  std::vector<TraceSpan> spans;
};

TEST(TraceContextTest, AContextIsReadAndWrittenAsW3cSays) {
  const std::optional<TraceContext> context = parse_traceparent(kParent);
  ASSERT_TRUE(context);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(headers_of(*context).parent, kParent);
  const std::string text = kParent;
  for (const std::string& wrong :
       {std::string(), text + "-", "ff" + text.substr(2), text.substr(0, 54),
        "00-" + std::string(32, '0') + text.substr(35),
        text.substr(0, 36) + std::string(16, '0') + "-01", text.substr(0, 53) + "0G"}) {
    EXPECT_FALSE(parse_traceparent(wrong)) << wrong;
  }
  EXPECT_TRUE(parse_traceparent("cc" + text.substr(2) + "-later"));
  EXPECT_FALSE(parse_traceparent("cc" + text.substr(2) + "later"));
}

TEST(TracerTest, ARequestIsSampledAsItsParentSaysOrByTheRatio) {
  Kept kept;
  Tracer half({.asks_parent = true, .ratio = 0.5}, kept.send(), nullptr);
  EXPECT_TRUE(half.begin({.parent = kParent}).context.sampled);
  std::string unsampled = kParent;
  unsampled.back() = '0';
  EXPECT_FALSE(half.begin({.parent = unsampled}).context.sampled);
  int taken = 0;
  for (int i = 0; i < 2000; ++i) taken += half.begin({}).context.sampled ? 1 : 0;
  EXPECT_GT(taken, 850);
  EXPECT_LT(taken, 1150);
}

TEST(TracerTest, ACollectorThatHangsDelaysNobodyAndWhatFindsNoRoomIsCounted) {
  Kept kept;
  kept.blocks = true;
  Tracer tracer({}, kept.send(), nullptr);
  constexpr std::uint64_t kSpans = 10'000;
  for (std::uint64_t i = 0; i < kSpans; ++i) tracer.add({});
  EXPECT_GE(tracer.counts().dropped, kSpans - Tracer::kMaxQueued - Tracer::kMaxBatch);
  EXPECT_EQ(tracer.counts().exported, 0u);
  kept.blocks = false;
  EXPECT_TRUE(eventually([&] {
    const Tracer::Counts now = tracer.counts();
    return now.exported + now.dropped == kSpans;
  }));
}

TEST(StreamSpansTest, AStreamOfManyPassesHasABoundedNumberOfSpans) {
  Kept kept;
  {
    Tracer tracer({}, kept.send(), nullptr);
    StreamSpans spans(tracer, {.name = "generate"}, "pass");
    TimePoint now{};
    spans.on(ServerMessage(Opened{}), now);
    for (std::uint64_t i = 0; i < 2 * StreamSpans::kMaxPasses; ++i) {
      now += std::chrono::milliseconds(1);
      spans.on(ServerMessage(Verdict{.tokens = {1}}), now);
    }
  }
  EXPECT_EQ(kept.spans.size(), StreamSpans::kMaxPasses + 2);  // its wait, and itself
}

}  // namespace
}  // namespace outrider
