// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/emulated/null_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "common/engine/model/emulated/paced_model.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

TokenId best(std::span<const float> logits) {
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

class NullModelTest : public ::testing::Test {
 protected:
  Slot append(KvCache& cache, Slot parent) { return *cache.slots().append(parent); }
  Status run(const std::vector<Row>& rows) { return model_->forward(rows, out_); }

  std::unique_ptr<Model> model_ = make_null_model({.vocab_size = 100, .max_positions = 8});
  std::unique_ptr<KvCache> cache_ = *model_->new_cache(16);
  PassOutput out_;
};

TEST_F(NullModelTest, ARowDependsOnItsTokenAndPositionOnly) {
  const Slot a = append(*cache_, kRootSlot);
  const Slot b = append(*cache_, a);
  const Slot c = append(*cache_, a);
  ASSERT_TRUE(run({{cache_.get(), a, 7}, {cache_.get(), b, 9}, {cache_.get(), c, 9}}).ok());
  ASSERT_EQ(out_.logits.size(), 300u);
  EXPECT_TRUE(std::ranges::equal(out_.row(1), out_.row(2)));
  const std::vector<float> together(out_.row(2).begin(), out_.row(2).end());
  ASSERT_TRUE(run({{cache_.get(), a, 7, false}, {cache_.get(), c, 9}}).ok());
  ASSERT_EQ(out_.logits.size(), 100u);
  EXPECT_TRUE(std::ranges::equal(out_.row(0), together));
}

TEST_F(NullModelTest, ItsTextVaries) {
  std::set<TokenId> seen;
  TokenId token = 1;
  Slot slot = kRootSlot;
  for (int i = 0; i < 8; ++i) {
    slot = append(*cache_, slot);
    ASSERT_TRUE(run({{cache_.get(), slot, token}}).ok());
    seen.insert(token = best(out_.row(0)));
  }
  EXPECT_GT(seen.size(), 4u);
}

TEST_F(NullModelTest, RowsThatAreNotSoundAreRefusedByNumber) {
  const std::unique_ptr<KvCache> other = *make_null_model({})->new_cache(4);
  const Slot a = append(*cache_, kRootSlot);
  const Slot b = append(*cache_, a);
  KvCache* const cache = cache_.get();
  const auto refused = [&](const std::vector<Row>& rows) {
    const Status status = run(rows);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    return status.message();
  };
  EXPECT_THAT(refused({{cache, a, -1}}), HasSubstr("row 0: token -1"));
  EXPECT_THAT(refused({{cache, a, 1}, {cache, b, 100}}), HasSubstr("row 1: token 100"));
  EXPECT_THAT(refused({{cache, 5, 1}}), HasSubstr("not in use"));
  EXPECT_THAT(refused({{cache, -1, 1}}), HasSubstr("not in use"));
  EXPECT_THAT(refused({{cache, 1 << 30, 1}}), HasSubstr("not in use"));
  EXPECT_THAT(refused({{cache, a, 1}, {cache, a, 1}}), HasSubstr("also that of row 0"));
  EXPECT_THAT(refused({{cache, b, 1}, {cache, a, 1}}), HasSubstr("comes after it"));
  EXPECT_THAT(refused({{other.get(), a, 1}}), HasSubstr("belongs to another model"));
  EXPECT_THAT(refused({{nullptr, a, 1}}), HasSubstr("belongs to another model"));
  cache_->slots().commit(a);
  EXPECT_THAT(refused({{cache, a, 1}}), HasSubstr("committed"));
  Slot slot = b;
  for (int i = 2; i <= 8; ++i) slot = append(*cache_, slot);
  EXPECT_THAT(refused({{cache, slot, 1}}), HasSubstr("position 8 is beyond the model's 8"));
  EXPECT_TRUE(run({{cache, b, 1}}).ok());
  EXPECT_FALSE(model_->new_cache(0).ok());
}

TEST_F(NullModelTest, APacedPassTakesItsTimeByTheRow) {
  ManualClock clock;
  PacedModel paced(std::move(model_), *PaceCurve::parse("1:10,3:12"), clock);
  EXPECT_THAT(paced.info().name, HasSubstr("emulated pace: 1:10,3:12 ms a pass"));
  const Slot a = append(*cache_, kRootSlot);
  const Slot b = append(*cache_, a);
  const std::vector<Row> rows = {{cache_.get(), a, 7}, {cache_.get(), b, 9}};
  ASSERT_TRUE(paced.forward(rows, out_).ok());
  EXPECT_EQ(clock.now(), TimePoint() + from_ms(11));
  EXPECT_EQ(paced.counts().passes, 1);
  EXPECT_EQ(paced.counts().overruns, 0);
  const std::vector<Row> bad = {{cache_.get(), a, -1}};
  EXPECT_FALSE(paced.forward(bad, out_).ok());
  EXPECT_EQ(clock.now(), TimePoint() + from_ms(11));
  paced.set_slowdown(4);
  ASSERT_TRUE(paced.forward(rows, out_).ok());
  EXPECT_EQ(clock.now(), TimePoint() + from_ms(11 + 44));
}

// A pass that is slower than the pace.
class SlowModel final : public Model {
 public:
  SlowModel(std::unique_ptr<Model> model, ManualClock& clock)
      : model_(std::move(model)), clock_(clock) {}
  const ModelInfo& info() const override { return model_->info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_->new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    clock_.advance(from_ms(20));
    return model_->forward(rows, out);
  }

 private:
  std::unique_ptr<Model> model_;
  ManualClock& clock_;
};

TEST(PacedModelTest, APassThatOutlastsItsPaceIsCounted) {
  ManualClock clock;
  PacedModel paced(std::make_unique<SlowModel>(make_null_model({}), clock), *PaceCurve::parse("10"),
                   clock);
  PassOutput out;
  ASSERT_TRUE(paced.forward({}, out).ok());
  EXPECT_EQ(paced.counts().overruns, 1);
  EXPECT_EQ(clock.now(), TimePoint() + from_ms(20));
}

}  // namespace
}  // namespace outrider
