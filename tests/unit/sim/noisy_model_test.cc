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

}  // namespace
}  // namespace outrider
