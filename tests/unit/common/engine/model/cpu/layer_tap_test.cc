// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <tuple>

#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/emulated/paced_model.h"
#include "common/engine/model/format/model_writer.h"
#include "tests/unit/common/engine/model/cpu/reference_transformer.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;

// Records what it is shown.
class RecordingTap final : public LayerTap {
 public:
  explicit RecordingTap(std::vector<std::int32_t> layers) : layers_(std::move(layers)) {}
  bool wants(std::int32_t layer) const override {
    return std::find(layers_.begin(), layers_.end(), layer) != layers_.end();
  }
  void on_layer(const HiddenRows& rows) override {
    calls.push_back({rows.layer, rows.first, rows.count});
    for (std::size_t i = 0; i < rows.count; ++i) {
      seen[rows.layer].emplace_back(rows.row(i).begin(), rows.row(i).end());
    }
    if (clock != nullptr) times.push_back(clock->now());
  }

  std::vector<std::tuple<std::int32_t, std::size_t, std::size_t>> calls;
  std::map<std::int32_t, std::vector<std::vector<float>>> seen;
  Clock* clock = nullptr;
  std::vector<TimePoint> times;

 private:
  std::vector<std::int32_t> layers_;
};

// A chain of rows of which the last `wanted` want logits.
Status run(Model& model, const std::vector<TokenId>& tokens, std::size_t wanted, PassOutput& out) {
  auto cache = *model.new_cache(static_cast<std::int32_t>(tokens.size()));
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (const TokenId token : tokens) {
    slot = *cache->slots().append(slot);
    rows.push_back({cache.get(), slot, token, rows.size() + wanted >= tokens.size()});
  }
  return model.forward(rows, out);
}

class LayerTapTest : public ::testing::Test {
 protected:
  std::unique_ptr<Model> model(const std::string& architecture) {
    return *make_cpu_model(small_model(directory_.path(), architecture, DType::kF32),
                           {.dtype = "f32", .threads = 2, .progress = {}});
  }

  TestDirectory directory_;
  PassOutput out_;
};

// A model that ends after the layer, with the same weights, has the logits of the hidden states.
TEST_F(LayerTapTest, ShowsTheResidualStreamAfterTheLayer) {
  const std::vector<TokenId> tokens = some_tokens(20);
  for (const std::string& architecture : kSmallModels) {
    ModelConfig config = small_config(architecture);
    set_layers(config, 1);
    const TestDirectory shorter;
    ASSERT_TRUE(write_model(shorter.path(), config, DType::kF32, random_source(7)).ok());
    const auto files = *load_model_files(shorter.path(), {});
    const auto expected = reference_logits(*files, tokens);

    ModelConfig whole = small_config(architecture);
    ASSERT_GE(whole.num_layers, 2) << architecture;
    const TestDirectory longer;
    ASSERT_TRUE(write_model(longer.path(), whole, DType::kF32, random_source(7)).ok());
    const auto model = *make_cpu_model(*load_model_files(longer.path(), {}),
                                       {.dtype = "f32", .threads = 2, .progress = {}});
    RecordingTap tap({1});
    out_.tap = &tap;
    ASSERT_TRUE(run(*model, tokens, 3, out_).ok());
    ASSERT_EQ(tap.seen[1].size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const std::vector<double> logits = logits_of_hidden(*files, tap.seen[1][i]);
      for (std::size_t v = 0; v < logits.size(); ++v) {
        ASSERT_NEAR(logits[v], expected[17 + i][v], 1e-4) << architecture << " row " << i;
      }
    }
  }
}

TEST_F(LayerTapTest, LooksOnlyWhereItWantsToAndChangesNoBit) {
  const auto llama = model("llama");
  const std::vector<TokenId> tokens = some_tokens(9);
  ASSERT_TRUE(run(*llama, tokens, 9, out_).ok());
  const std::vector<float> plain = out_.logits;
  RecordingTap tap({0, 1, llama->info().num_layers});  // neither before the first nor at the end
  out_.tap = &tap;
  ASSERT_TRUE(run(*llama, tokens, 9, out_).ok());
  EXPECT_EQ(out_.logits, plain);
  EXPECT_THAT(tap.calls, ElementsAre(std::tuple(1, 0u, 9u)));
}

TEST_F(LayerTapTest, AFewRowsBehindALongPromptComeTogether) {
  const auto llama = model("llama");
  RecordingTap tap({1});
  out_.tap = &tap;
  ASSERT_TRUE(run(*llama, some_tokens(258), 5, out_).ok());
  EXPECT_THAT(tap.calls, ElementsAre(std::tuple(1, 0u, 5u)));
}

TEST_F(LayerTapTest, ALongPassShowsAllItsRowsAtOnce) {
  const auto llama = model("llama");
  RecordingTap tap({1});
  out_.tap = &tap;
  ASSERT_TRUE(run(*llama, some_tokens(300), 300, out_).ok());
  EXPECT_THAT(tap.calls, ElementsAre(std::tuple(1, 0u, 300u)));
  ASSERT_TRUE(run(*llama, some_tokens(256), 2, out_).ok());
  EXPECT_THAT(tap.calls.back(), std::tuple(1, 0u, 2u));
}

// Abandons the pass when it is shown a layer.
class AbandoningTap final : public LayerTap {
 public:
  bool wants(std::int32_t) const override { return true; }
  void on_layer(const HiddenRows&) override {
    ++layers;
    abandoned = true;
  }
  int layers = 0;
  std::atomic<bool> abandoned = false;
};

TEST_F(LayerTapTest, AnAbandonedPassEndsBeforeTheNextLayerAndHarmsNoOther) {
  ModelConfig config = small_config("llama");
  set_layers(config, 4);
  ASSERT_TRUE(write_model(directory_.path(), config, DType::kF32, random_source(7)).ok());
  const auto llama = *make_cpu_model(*load_model_files(directory_.path(), {}),
                                     {.dtype = "f32", .threads = 2, .progress = {}});
  const std::vector<TokenId> tokens = some_tokens(6);
  ASSERT_TRUE(run(*llama, tokens, 6, out_).ok());
  const std::vector<float> whole = out_.logits;
  AbandoningTap tap;
  const std::atomic<bool>* const flags[] = {&tap.abandoned};
  out_.tap = &tap;
  out_.abandoned = flags;
  EXPECT_EQ(run(*llama, tokens, 6, out_).code(), StatusCode::kCancelled);
  EXPECT_EQ(tap.layers, 1);
  out_.tap = nullptr;
  tap.abandoned = false;
  ASSERT_TRUE(run(*llama, tokens, 6, out_).ok());
  EXPECT_EQ(out_.logits, whole);
}

// Drops the rows with these indices.
class EndingPruner final : public RowPruner {
 public:
  explicit EndingPruner(std::vector<std::size_t> places) : places_(std::move(places)) {}

  bool wants(std::int32_t layer) const override { return layer == 2; }
  void prune(const HiddenRows& rows, std::span<std::uint8_t> keep) override {
    EXPECT_EQ(rows.count, keep.size());
    for (const std::size_t place : places_) keep[place] = 0;
  }

 private:
  std::vector<std::size_t> places_;
};

// A prompt of three, whose last row wants logits, and a tree: 1 and 2 follow it, 3 and 4 follow 1,
// 5 follows 2.
std::vector<Row> tree_rows(KvCache& cache) {
  std::vector<Row> rows;
  Slot above = kRootSlot;
  for (const TokenId token : {4, 5, 6}) {
    above = *cache.slots().append(above);
    rows.push_back({&cache, above, token, token == 6});
  }
  for (const std::size_t parent : {2u, 2u, 3u, 3u, 4u}) {
    const Slot slot = *cache.slots().append(rows[parent].slot);
    rows.push_back({&cache, slot, static_cast<TokenId>(rows.size()), true});
  }
  return rows;
}

TEST_F(LayerTapTest, RowsThatEndInTheMiddleChangeNoBitOfTheOthers) {
  for (const std::string& architecture : kSmallModels) {
    ModelConfig config = small_config(architecture);
    set_layers(config, 4);
    const TestDirectory directory;
    ASSERT_TRUE(write_model(directory.path(), config, DType::kF32, random_source(7)).ok());
    const auto model = *make_cpu_model(*load_model_files(directory.path(), {}),
                                       {.dtype = "f32", .threads = 2, .progress = {}});
    const auto whole_cache = *model->new_cache(64), pruned_cache = *model->new_cache(64);
    PassOutput whole, pruned;
    ASSERT_TRUE(model->forward(tree_rows(*whole_cache), whole).ok());
    EndingPruner pruner({1, 4});
    RecordingTap tap({1, 3});
    pruned.pruner = &pruner;
    pruned.tap = &tap;
    const std::vector<Row> rows = tree_rows(*pruned_cache);
    ASSERT_TRUE(model->forward(rows, pruned).ok());
    EXPECT_THAT(pruned.places, ElementsAre(0, -1, 1, -1, -1, 2)) << "3 follows 1 and ends with it";
    for (const std::size_t row : {0u, 2u, 5u}) {
      EXPECT_TRUE(std::ranges::equal(pruned.row(row), whole.row(row))) << architecture << row;
    }
    EXPECT_THAT(tap.calls, ElementsAre(std::tuple(1, 0u, 6u), std::tuple(3, 0u, 6u)));

    // The keys and values of rows that stayed are the same too, and a later pass drops no row.
    pruned.pruner = nullptr;
    for (const auto& [cache, out] :
         {std::pair(whole_cache.get(), &whole), std::pair(pruned_cache.get(), &pruned)}) {
      cache->slots().commit(rows[7].slot);
      const Slot next = *cache->slots().append(kRootSlot);
      ASSERT_TRUE(model->forward(std::vector<Row>{{cache, next, 9, true}}, *out).ok());
    }
    EXPECT_TRUE(pruned.places.empty());
    EXPECT_TRUE(std::ranges::equal(pruned.row(0), whole.row(0))) << architecture;
  }
}

TEST_F(LayerTapTest, APassGoesOnWhileOneOfItsFlagsIsNotSet) {
  const std::atomic<bool> set{true}, unset{false};
  const std::atomic<bool>* flags[] = {&set, &unset};
  out_.abandoned = flags;
  EXPECT_TRUE(run(*model("llama"), some_tokens(4), 4, out_).ok());
  flags[1] = &set;
  EXPECT_EQ(run(*model("llama"), some_tokens(4), 4, out_).code(), StatusCode::kCancelled);
}

// A ManualClock that abandons a pass at a given time.
class AbandoningClock final : public Clock {
 public:
  explicit AbandoningClock(double at_ms) : at_(TimePoint() + from_ms(at_ms)) {}

  TimePoint now() const override { return clock_.now(); }
  void sleep_until(TimePoint when) override {
    clock_.sleep_until(when);
    if (now() >= at_) abandoned = true;
  }
  std::atomic<bool> abandoned = false;

 private:
  ManualClock clock_;
  const TimePoint at_;
};

// Two layers of eight parts each: the pass runs to the end of its current part.
TEST_F(LayerTapTest, AnAbandonedPassAtAPaceEndsWithItsPart) {
  AbandoningClock clock(21);
  PacedModel paced(model("llama"), *PaceCurve::parse("1:64"), clock);
  const std::atomic<bool>* const flags[] = {&clock.abandoned};
  out_.abandoned = flags;
  EXPECT_EQ(run(paced, some_tokens(4), 4, out_).code(), StatusCode::kCancelled);
  EXPECT_EQ(clock.now(), TimePoint() + from_ms(24));
  AbandoningClock never(1000);
  PacedModel whole(model("llama"), *PaceCurve::parse("1:64"), never);
  const std::atomic<bool>* const no_flags[] = {&never.abandoned};
  out_.abandoned = no_flags;
  EXPECT_TRUE(run(whole, some_tokens(4), 4, out_).ok());
  EXPECT_EQ(never.now(), TimePoint() + from_ms(64));
}

TEST_F(LayerTapTest, APacedModelShowsALayerAtItsShareOfThePass) {
  ManualClock clock;
  auto llama = model("llama");
  const std::int32_t layers = llama->info().num_layers;
  PacedModel paced(std::move(llama), *PaceCurve::parse("1:60"), clock);
  RecordingTap tap({1});
  tap.clock = &clock;
  out_.tap = &tap;
  ASSERT_TRUE(run(paced, some_tokens(4), 4, out_).ok());
  EXPECT_THAT(tap.times, ElementsAre(TimePoint() + from_ms(60) / layers));
  EXPECT_EQ(clock.now(), TimePoint() + from_ms(60));
  EXPECT_EQ(out_.tap, &tap);
}

}  // namespace
}  // namespace outrider
