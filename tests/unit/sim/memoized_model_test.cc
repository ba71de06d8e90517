// SPDX-License-Identifier: Apache-2.0
#include "sim/memoized_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::SizeIs;

class SeesLayers final : public LayerTap {
 public:
  bool wants(std::int32_t layer) const override { return layer == 1; }
  void on_layer(const HiddenRows& rows) override {
    for (std::size_t i = 0; i < rows.count; ++i) {
      texts.push_back(ToyModel::text_of_hidden(rows.row(i)));
    }
  }
  std::vector<std::vector<TokenId>> texts;
};

class MemoizedModelTest : public testing::Test {
 protected:
  MemoizedModelTest() : plain_(8, 64), model_(std::make_unique<ToyModel>(8, 64)) {}

  // Appends a row under `parent` and runs it alone.
  Slot run(KvCache& cache, Slot parent, TokenId token, bool wanted = true,
           LayerTap* tap = nullptr) {
    const Slot slot = *cache.slots().append(parent);
    const Row row{&cache, slot, token, wanted};
    out_.tap = tap;
    EXPECT_TRUE(model_.forward({&row, 1}, out_).ok());
    return slot;
  }
  std::vector<float> logits() const { return {out_.row(0).begin(), out_.row(0).end()}; }

  ToyModel plain_;
  MemoizedModel model_;
  PassOutput out_;
};

TEST_F(MemoizedModelTest, ARowIsComputedOnceForAll) {
  const auto first = *model_.new_cache(16);
  Slot end = run(*first, kRootSlot, 3, false);
  EXPECT_EQ(model_.computed_rows(), 0u) << "no row has logits";
  end = run(*first, end, 4);
  EXPECT_EQ(model_.computed_rows(), 2u);
  EXPECT_EQ(logits(), plain_.logits_after(std::vector<TokenId>{3, 4}));
  const auto second = *model_.new_cache(16);
  run(*second, run(*second, kRootSlot, 3, false), 4);
  EXPECT_EQ(logits(), plain_.logits_after(std::vector<TokenId>{3, 4}));
  EXPECT_EQ(model_.computed_rows(), 2u);
}

TEST_F(MemoizedModelTest, TextsBehindCommittedOnesAreTheirOwn) {
  const auto cache = *model_.new_cache(16);
  const Slot a = run(*cache, kRootSlot, 3);
  cache->slots().commit(a);
  const Slot b = run(*cache, kRootSlot, 5);
  EXPECT_EQ(logits(), plain_.logits_after(std::vector<TokenId>{3, 5}));
  run(*cache, kRootSlot, 6);
  EXPECT_EQ(logits(), plain_.logits_after(std::vector<TokenId>{3, 6}));
  cache->slots().commit(b);
  run(*cache, kRootSlot, 6);
  EXPECT_EQ(logits(), plain_.logits_after(std::vector<TokenId>{3, 5, 6}));
}

TEST_F(MemoizedModelTest, ATapSeesKnownRowsToo) {
  const auto cache = *model_.new_cache(16);
  SeesLayers tap;
  run(*cache, kRootSlot, 3);
  cache->slots().release_all_uncommitted();
  run(*cache, kRootSlot, 3, true, &tap);
  ASSERT_THAT(tap.texts, SizeIs(1)) << "known without its hidden state";
  cache->slots().release_all_uncommitted();
  const std::uint64_t computed = model_.computed_rows();
  run(*cache, kRootSlot, 3, true, &tap);
  EXPECT_EQ(model_.computed_rows(), computed);
  ASSERT_THAT(tap.texts, SizeIs(2));
  EXPECT_THAT(tap.texts[1], ElementsAre(3));
}

TEST_F(MemoizedModelTest, ForgettingCostsTheRowsAgain) {
  {
    const auto cache = *model_.new_cache(16);
    run(*cache, kRootSlot, 3);
  }
  model_.forget();
  const auto cache = *model_.new_cache(16);
  run(*cache, kRootSlot, 3);
  EXPECT_EQ(model_.computed_rows(), 2u);
  EXPECT_EQ(logits(), plain_.logits_after(std::vector<TokenId>{3}));
}

TEST_F(MemoizedModelTest, AnAbandonedPassLeavesNothing) {
  const auto cache = *model_.new_cache(16);
  const std::atomic<bool> abandoned{true};
  const std::atomic<bool>* const flags[] = {&abandoned};
  out_.abandoned = flags;
  const Slot slot = *cache->slots().append(kRootSlot);
  const Row row{cache.get(), slot, 3, true};
  EXPECT_EQ(model_.forward({&row, 1}, out_).code(), StatusCode::kCancelled);
  EXPECT_EQ(model_.computed_rows(), 0u);
}

}  // namespace
}  // namespace outrider
