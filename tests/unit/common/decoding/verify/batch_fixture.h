// Sessions that ride together at a scheduler over a toy model that notes what it is asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/engine/sampling/sampling.h"
#include "tests/unit/common/decoding/verify/scheduler_fixture.h"

namespace outrider {

// Notes what each pass was asked for, and lends threads.
class WatchedModel final : public Model {
 public:
  struct Pass {
    std::size_t rows = 0;
    std::size_t flags = 0;
    bool tapped = false;
  };

  explicit WatchedModel(ToyModel& model) : model_(model) {}

  const ModelInfo& info() const override { return model_.info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    passes.push_back({rows.size(), out.abandoned.size(), out.tap != nullptr});
    if (out.is_abandoned()) return cancelled("the pass was abandoned");
    out.threads = threads;
    OUTRIDER_RETURN_IF_ERROR(model_.forward(rows, out));
    out.chosen.clear();
    if (chooses) choose_tokens(rows, out);
    return {};
  }

  std::vector<Pass> passes;
  bool chooses = false;  // itself, where a row lets it; then there are no logits
  ThreadPool* threads = nullptr;

 private:
  void choose_tokens(std::span<const Row> rows, PassOutput& out) const {
    const auto width = static_cast<std::size_t>(out.vocab_size);
    for (const Row& row : rows) {
      if (!row.wants_logits) continue;
      const auto logits = std::span(out.logits).subspan(out.chosen.size() * width, width);
      const Position position = row.cache->slots().position(row.slot) + 1;
      out.chosen.push_back(choose(logits, row.choice->sampling, row.choice->seed, position));
      std::ranges::fill(logits, std::numeric_limits<float>::quiet_NaN());
    }
  }

  ToyModel& model_;
};

class BatchTest : public SchedulerTest {
 protected:
  explicit BatchTest(Position max_positions = 256) : SchedulerTest(max_positions) {
    options_.max_concurrent_sessions = 8;
    options_.max_batched_rows = 256;
    options_.prefill_chunk = 4;
    options_.on_session_end = [](const SessionRecord&) {};
  }
  // Once the options are set.
  void begin() { scheduler_.emplace(device_, options_); }

  // One turn of so long; who rode.
  std::vector<StreamId> ride(Duration took = from_ms(2)) {
    if (!scheduler().start(now())) return {};
    clock_.advance(took);
    scheduler().compute();
    scheduler().finish(now());
    const auto served = scheduler().last_served();
    return {served.begin(), served.end()};
  }
  // One turn that takes so long, and so much longer for each of its rows; who rode.
  std::vector<StreamId> ride_by_rows(Duration pass, Duration row) {
    EXPECT_TRUE(scheduler().start(now()));
    scheduler().compute();
    clock_.advance(pass + row * static_cast<std::int64_t>(device_.passes.back().rows));
    scheduler().finish(now());
    const auto served = scheduler().last_served();
    return {served.begin(), served.end()};
  }
  void ride_to_the_end() {
    while (!ride().empty()) {
    }
  }
  void grow(StreamId stream, std::vector<GrowNode> nodes) {
    const MirroredTree& tree = scheduler().session(stream)->tree();
    scheduler().receive(stream, {tree.end(), 0, Grow{tree.ids().last_id() + 1, tree.end(), nodes}},
                        now());
  }

  WatchedModel device_{model_};
};

}  // namespace outrider
