// SPDX-License-Identifier: Apache-2.0
#include "sim/synthetic_pair.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/engine/model/emulated/null_model.h"

namespace outrider {
namespace {

constexpr NullModelOptions kNull{.vocab_size = 4000, .max_positions = 8};

// The logits of three rows one after the other, the second of which has none.
std::vector<float> logits_of(Model& model) {
  const std::unique_ptr<KvCache> cache = *model.new_cache(8);
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (const bool wants_logits : {true, false, true}) {
    slot = *cache->slots().append(slot);
    rows.push_back({cache.get(), slot, 7, wants_logits});
  }
  PassOutput out;
  EXPECT_TRUE(model.forward(rows, out).ok());
  return out.logits;
}

TEST(NoisyModelTest, AddsNoiseOfItsDeviationThatIsTheSameEachTime) {
  const std::unique_ptr<Model> plain = make_null_model(kNull);
  NoisyModel noisy(make_null_model(kNull), 2.0);
  const std::vector<float> before = logits_of(*plain);
  const std::vector<float> after = logits_of(noisy);
  ASSERT_EQ(before.size(), 8000u);
  ASSERT_EQ(after.size(), before.size());
  EXPECT_EQ(logits_of(noisy), after);
  double sum = 0, squares = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    const double moved = after[i] - before[i];
    sum += moved;
    squares += moved * moved;
  }
  EXPECT_NEAR(sum / 8000, 0, 0.1);
  EXPECT_NEAR(std::sqrt(squares / 8000), 2, 0.1);
  // Another position has other noise.
  EXPECT_NE(after[0] - before[0], after[4000] - before[4000]);
}

TEST(NoisyModelTest, WithoutDeviationItIsTheModel) {
  const std::unique_ptr<Model> plain = make_null_model(kNull);
  NoisyModel noisy(make_null_model(kNull), 0);
  EXPECT_EQ(logits_of(noisy), logits_of(*plain));
}

// Two drafts that are right as often as each other, and not after the same texts.
TEST(SyntheticModelTest, DraftsOfOtherNumbersAgreeAfterOtherTexts) {
  const std::unique_ptr<Model> like = make_null_model(kNull);
  SyntheticModel target("target", 1, like->info());
  SyntheticModel one("one", 0.8, like->info()), other("other", 0.8, like->info(), 1);
  const auto guesses = [](Model& model) {
    std::vector<std::ptrdiff_t> best;
    for (TokenId token = 1; token <= 400; ++token) {
      const std::unique_ptr<KvCache> cache = *model.new_cache(1);
      const Row row{cache.get(), *cache->slots().append(kRootSlot), token};
      PassOutput out;
      EXPECT_TRUE(model.forward({&row, 1}, out).ok());
      best.push_back(std::ranges::max_element(out.logits) - out.logits.begin());
    }
    return best;
  };
  const auto right = guesses(target), first = guesses(one), second = guesses(other);
  int first_right = 0, second_right = 0, both = 0;
  for (std::size_t i = 0; i < right.size(); ++i) {
    first_right += first[i] == right[i] ? 1 : 0;
    second_right += second[i] == right[i] ? 1 : 0;
    both += first[i] == right[i] && second[i] == right[i] ? 1 : 0;
  }
  EXPECT_NEAR(first_right, 320, 40);
  EXPECT_NEAR(second_right, 320, 40);
  EXPECT_NEAR(both, 256, 40);
}

}  // namespace
}  // namespace outrider
