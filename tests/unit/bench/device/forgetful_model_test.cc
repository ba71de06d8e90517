// SPDX-License-Identifier: Apache-2.0
#include "bench/device/forgetful_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/model/emulated/null_model.h"

namespace outrider {
namespace {

TEST(ForgetfulModelTest, OnlyRowsFromThePositionOnGiveTheLogitsOfOtherTokens) {
  const NullModelOptions options{.vocab_size = 100, .max_positions = 8};
  const std::unique_ptr<Model> plain = make_null_model(options);
  ForgetfulModel forgetful(make_null_model(options));
  const std::unique_ptr<KvCache> plain_cache = *plain->new_cache(8);
  const std::unique_ptr<KvCache> cache = *forgetful.new_cache(8);
  // The row between has no logits: those after it must still be found.
  std::vector<Row> plain_rows;
  std::vector<Row> rows;
  Slot plain_slot = kRootSlot;
  Slot slot = kRootSlot;
  for (const bool wants_logits : {true, false, true, true}) {
    plain_slot = *plain_cache->slots().append(plain_slot);
    slot = *cache->slots().append(slot);
    plain_rows.push_back({plain_cache.get(), plain_slot, 7, wants_logits});
    rows.push_back({cache.get(), slot, 7, wants_logits});
  }
  PassOutput known;
  PassOutput out;
  ASSERT_TRUE(plain->forward(plain_rows, known).ok());
  forgetful.forget_from(3);
  ASSERT_TRUE(forgetful.forward(rows, out).ok());
  ASSERT_EQ(out.logits.size(), 300u);
  EXPECT_TRUE(std::ranges::equal(out.row(0), known.row(0)));
  EXPECT_TRUE(std::ranges::equal(out.row(1), known.row(1)));
  EXPECT_FALSE(std::ranges::equal(out.row(2), known.row(2)));
  EXPECT_TRUE(std::ranges::is_permutation(out.row(2), known.row(2)));
}

}  // namespace
}  // namespace outrider
