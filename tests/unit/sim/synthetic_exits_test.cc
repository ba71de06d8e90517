// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>

#include "sim/synthetic_pair.h"

namespace outrider {
namespace {

constexpr int kRows = 2000;
constexpr std::int32_t kLayers = 32;

ModelInfo small_info() {
  ModelInfo info;
  info.vocab_size = 50;
  info.num_layers = 2;
  info.max_positions = kRows;
  info.stop_ids = {3};
  return info;
}

std::size_t best(std::span<const float> row) {
  return static_cast<std::size_t>(std::ranges::max_element(row) - row.begin());
}

// A pass over a text of kRows tokens.
PassOutput pass_over_text(Model& model, LayerTap* tap = nullptr) {
  const auto cache = *model.new_cache(kRows);
  std::vector<Row> rows;
  Slot parent = kRootSlot;
  for (int i = 0; i < kRows; ++i) {
    parent = *cache->slots().append(parent);
    rows.push_back({cache.get(), parent, i % 50});
  }
  PassOutput out;
  out.tap = tap;
  EXPECT_TRUE(model.forward(rows, out).ok());
  return out;
}

double share_alike(const PassOutput& a, const PassOutput& b) {
  int alike = 0;
  for (std::size_t i = 0; i < kRows; ++i) alike += best(a.row(i)) == best(b.row(i)) ? 1 : 0;
  return alike / double{kRows};
}

TEST(SyntheticPairTest, TheDraftAgreesAsOftenAsItIsToldAndNobodyEndsTheAnswer) {
  SyntheticModel target("target", 1, small_info()), draft("draft", 0.6, small_info());
  const PassOutput said = pass_over_text(target), guessed = pass_over_text(draft);
  EXPECT_NEAR(share_alike(said, guessed), 0.6, 0.05);
  EXPECT_NEAR(share_alike(said, pass_over_text(target)), 1, 1e-9)
      << "the same text, the same token";
  for (std::size_t i = 0; i < kRows; ++i) {
    EXPECT_NE(best(said.row(i)), 3u);
    EXPECT_NE(best(guessed.row(i)), 3u);
  }
}

TEST(SyntheticPairTest, WhatFollowsDependsOnTheWholeText) {
  SyntheticModel target("target", 1, small_info());
  const PassOutput out = pass_over_text(target);  // every 50 rows the same token again
  int alike = 0;
  for (std::size_t i = 50; i < kRows; ++i) alike += best(out.row(i)) == best(out.row(i - 50));
  EXPECT_LT(alike, kRows / 10);
}

// Which share of the rows an exit names rightly, and how sure it is of right and wrong ones.
class ExitCounter final : public LayerTap {
 public:
  explicit ExitCounter(SyntheticExits& exits) : exits_(exits) {}

  bool wants(std::int32_t) const override { return true; }
  void on_layer(const HiddenRows& rows) override {
    std::vector<float> logits(rows.count * 50);
    const auto exit = static_cast<std::size_t>(rows.layer - 1);
    exits_.compute(exit, rows, logits);
    std::vector<bool> right;
    for (std::size_t i = 0; i < rows.count; ++i) {
      const std::span<const float> row(logits.data() + i * 50, 50);
      right.push_back(best(row) == static_cast<std::size_t>(rows.row(i)[0]));
      (right.back() ? sure_right : sure_wrong) += row[best(row)];
    }
    match.push_back(static_cast<double>(std::ranges::count(right, true)) / rows.count);
    if (!before_.empty()) {
      for (std::size_t i = 0; i < right.size(); ++i) fallen += before_[i] && !right[i] ? 1 : 0;
    }
    before_ = std::move(right);
  }

  std::vector<double> match;  // [exit]
  int fallen = 0;             // rows that an exit named rightly, and the next one did not
  double sure_right = 0, sure_wrong = 0;

 private:
  SyntheticExits& exits_;
  std::vector<bool> before_;
};

TEST(SyntheticExitsTest, MatchGrowsOverTheDepthAsFigure7Says) {
  SyntheticModel target("target", 1, small_info());
  RankedTokensModel shown(target, kLayers);
  SyntheticExits exits(figure7_curve(), kLayers);
  EXPECT_EQ(exits.layers().size(), 31u);
  ExitCounter counter(exits);
  pass_over_text(shown, &counter);
  ASSERT_EQ(counter.match.size(), 31u);
  EXPECT_NEAR(counter.match[0], 0.21, 0.03);
  EXPECT_NEAR(counter.match[15], 0.38, 0.03);
  EXPECT_NEAR(counter.match[23], 0.72, 0.03);
  EXPECT_GT(counter.match[30], 0.93);
  EXPECT_EQ(counter.fallen, 0);
}

TEST(SyntheticExitsTest, TheScaleMovesTheMatchAndStaysAShare) {
  EXPECT_NEAR(figure7_curve(0.5).match_at(0.5), 0.19, 1e-9);
  EXPECT_EQ(figure7_curve(3).match_at(0.9), 1);
}

TEST(SyntheticExitsTest, AnArrivalIsOfTheWholePass) {
  SyntheticModel target("target", 1, small_info());
  RankedTokensModel shown(target, kLayers);
  ExitCurve curve = figure7_curve();
  curve.arrival = ExitCurve::Arrival{.miss_rate = 1, .mean = 0.3};
  SyntheticExits never(curve, kLayers);
  ExitCounter misses(never);
  pass_over_text(shown, &misses);
  EXPECT_EQ(misses.match.back(), 0) << "no exit ever names it";
  curve.arrival = ExitCurve::Arrival{.miss_rate = 0, .mean = 0.3};
  SyntheticExits always(curve, kLayers);
  ExitCounter hits(always);
  pass_over_text(shown, &hits);
  EXPECT_EQ(hits.match.front(), 0) << "not before its depth";
  EXPECT_EQ(hits.match.back(), 1) << "all rows of the pass at once";
}

TEST(SyntheticExitsTest, AnExitIsSurerOfWhatIsRight) {
  SyntheticExits exits(figure7_curve(), kLayers);
  const std::vector<RowEvidence> sure = {{.spread = 0.1f}}, unsure = {{.spread = 3}};
  EXPECT_GT(exits.confidence(16, 0, sure), 0.9);
  EXPECT_LT(exits.confidence(16, 0, unsure), 0.1);
  const std::vector<RowEvidence> both = {{.spread = 0.1f}, {.spread = 3}};
  EXPECT_LT(exits.confidence(16, 0, both), exits.confidence(16, 0, sure));
}

}  // namespace
}  // namespace outrider
