// SPDX-License-Identifier: Apache-2.0
#include "adapters/elastic/level_widths.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "common/engine/model/format/elastic_table.h"

namespace outrider {
namespace {

// Five layers of 256 neurons and 4 groups of 32 columns: 256 * 3 + 4 * 96 = 1,152 weights a column.
ModelConfig five_layers() {
  ModelConfig config;
  config.hidden_size = 128;
  config.intermediate_size = 256;
  config.num_layers = 5;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 16;
  config.vocab_size = 50;
  return config;
}

WidthsInput input_of(const ModelConfig& config) {
  WidthsInput input{
      .config = config, .importance = {}, .layer_loss = {5, 1, 4, 2, 3}, .anchors = {0}};
  for (int i = 0; i < 5; ++i) {
    LayerImportance layer;
    for (int n = 256; n > 0; --n) layer.neurons.push_back(n * (i + 1));
    for (int g = 4; g > 0; --g) layer.kv_groups.push_back(100.0 * g * (i + 1));
    input.importance.push_back(layer);
  }
  return input;
}

double share_of_level(const ModelConfig& config, const std::vector<LayerWidths>& widths) {
  const auto weights = [](const LayerWidths& w) { return w.neurons * 3.0 + w.kv_groups * 96.0; };
  double sum = 0;
  for (const LayerWidths& each : widths) sum += weights(each);
  return sum / (weights(full_widths(config)) * static_cast<double>(widths.size()));
}

TEST(LevelWidths, OrderPutsTheMostImportantUnitsFirst) {
  const std::vector<LayerImportance> importance = {{{1, 5, 5, 9}, {0.5, 2}}};
  const std::vector<LayerOrder> order = order_by_importance(importance, 1);
  EXPECT_EQ(order[0].neurons, (std::vector<std::int32_t>{3, 1, 2, 0}));
  EXPECT_EQ(order[0].kv_groups, (std::vector<std::int32_t>{1, 0}));
  EXPECT_EQ(order_by_importance(importance, 2)[0].neurons, (std::vector<std::int32_t>{2, 3, 0, 1}));
}

TEST(LevelWidths, AnchorsAreTheFifthOfTheLayersThatMatterMost) {
  EXPECT_EQ(choose_anchors({5, 1, 4, 2, 3}), (std::vector<std::int32_t>{0}));
  EXPECT_EQ(choose_anchors({1, 2, 9, 4, 5, 6, 7, 8, 3, 0}), (std::vector<std::int32_t>{2, 7}));
}

// Every sharing gives a table that can be read: nested, whole groups, anchors whole.
TEST(LevelWidths, LevelsAreNestedWholeGroupsOfAboutTheirShare) {
  const ModelConfig config = five_layers();
  const WidthsInput input = input_of(config);
  const std::vector<double> shares = {0.9, 0.8, 0.7, 0.6, 0.5, 0.4};
  for (const auto& [sharing, name] : enum_names<Sharing>) {
    ElasticTable table{
        .model = "m",
        .anchors = input.anchors,
        .order = std::vector<LayerOrder>(5),
        .levels = {{.name = "100", .layers = std::vector<LayerWidths>(5, full_widths(config))}}};
    for (const double share : shares) {
      const auto widths = narrow(input, sharing, share, table.levels.back().layers);
      EXPECT_NEAR(share_of_level(config, widths), share, 0.07) << name;
      table.levels.push_back({.name = std::to_string(table.levels.size()), .layers = widths});
    }
    for (ElasticLevel& level : table.levels) level.bytes = level_bytes(config, level.layers);
    const Status read =
        parse_elastic_table(elastic_table_text(table), config, "m", "table").status();
    EXPECT_TRUE(read.ok()) << name << ": " << read.message();
  }
}

TEST(LevelWidths, FeedForwardFirstKeepsTheGroupsAsLongAsItCan) {
  const ModelConfig config = five_layers();
  const auto input = input_of(config);
  const std::vector<LayerWidths> full(5, full_widths(config));
  const auto most = narrow(input, Sharing::kFeedForwardFirst, 0.7, full);
  EXPECT_EQ(most[1].kv_groups, 4);
  EXPECT_LT(most[1].neurons, 256);
  EXPECT_LT(narrow(input, Sharing::kFeedForwardFirst, 0.3, most)[1].kv_groups, 4);
}

TEST(LevelWidths, ByImportanceTheLeastImportantLayerLosesMost) {
  const ModelConfig config = five_layers();
  const std::vector<LayerWidths> full(5, full_widths(config));
  const auto widths = narrow(input_of(config), Sharing::kByImportance, 0.6, full);
  EXPECT_LT(widths[1].neurons, widths[4].neurons);
  EXPECT_EQ(widths[0], full_widths(config));
}

TEST(LevelWidths, EveryWayGoesOnWithinALevelOfAnother) {
  const ModelConfig config = five_layers();
  const auto input = input_of(config);
  for (const auto& [first, first_name] : enum_names<Sharing>) {
    const auto larger = narrow(input, first, 0.7, std::vector<LayerWidths>(5, full_widths(config)));
    for (const auto& [then, then_name] : enum_names<Sharing>) {
      const auto smaller = narrow(input, then, 0.5, larger);
      EXPECT_NEAR(share_of_level(config, smaller), 0.5, 0.08) << first_name << ", " << then_name;
      for (std::size_t i = 0; i < larger.size(); ++i) {
        EXPECT_LE(smaller[i].neurons, larger[i].neurons) << first_name << ", " << then_name;
        EXPECT_LE(smaller[i].kv_groups, larger[i].kv_groups) << first_name << ", " << then_name;
      }
    }
  }
}

TEST(LevelWidths, WholeLayersGoTheLeastImportantFirst) {
  const ModelConfig config = five_layers();
  const std::vector<LayerWidths> full(5, full_widths(config));
  const auto widths = narrow(input_of(config), Sharing::kWholeLayers, 0.6, full);
  EXPECT_EQ(widths[1], (LayerWidths{0, 0}));
  EXPECT_EQ(widths[3], (LayerWidths{0, 0}));
  EXPECT_EQ(widths[0], full_widths(config));
  EXPECT_EQ(widths[4], full_widths(config));
}

TEST(LevelWidths, OfTheLastLayerAPartGoesAndALayerThatIsGoneStaysSo) {
  const ModelConfig config = five_layers();
  const std::vector<LayerWidths> full(5, full_widths(config));
  const auto larger = narrow(input_of(config), Sharing::kWholeLayers, 0.7, full);
  EXPECT_EQ(larger[1], (LayerWidths{0, 0}));
  EXPECT_GT(larger[3].neurons, 0);
  EXPECT_LT(larger[3].neurons, 256);
  const auto smaller = narrow(input_of(config), Sharing::kEven, 0.6, larger);
  EXPECT_EQ(smaller[1], (LayerWidths{0, 0}));
  EXPECT_NEAR(share_of_level(config, smaller), 0.6, 0.05);
}

}  // namespace
}  // namespace outrider
