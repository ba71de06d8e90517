// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/elastic_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

const std::string kFingerprint(64, 'a');

// Three layers of 96 neurons and three groups of two query heads: 32 columns a group.
ModelConfig three_layers() {
  ModelConfig config;
  config.architecture = "llama";
  config.vocab_size = 40;
  config.hidden_size = 48;
  config.intermediate_size = 96;
  config.num_layers = 3;
  config.num_heads = 6;
  config.num_kv_heads = 3;
  config.head_dim = 16;
  config.max_positions = 64;
  config.windows = {0, 0, 0};
  return config;
}

ElasticLevel level(const std::string& name, std::vector<LayerWidths> layers) {
  ElasticLevel made{.name = name, .layers = std::move(layers)};
  made.bytes = level_bytes(three_layers(), made.layers);
  return made;
}

// Layer 1 is as stored, layer 2 is skipped at "40".
ElasticTable sample() {
  std::vector<std::int32_t> neurons;
  for (std::int32_t i = 95; i >= 0; --i) neurons.push_back(i);
  ElasticTable table{.model = kFingerprint,
                     .anchors = {0},
                     .order = {{neurons, {2, 0, 1}}, {}, {neurons, {}}},
                     .levels = {level("100", {{96, 3}, {96, 3}, {96, 3}}),
                                level("60", {{96, 3}, {64, 2}, {32, 3}}),
                                level("40", {{96, 3}, {32, 2}, {0, 0}})}};
  table.levels[1].divergence = 0.25;
  table.levels[1].agreement = 0.875;
  return table;
}

Status status_of(const std::function<void(Json&)>& change) {
  Json json = Json::parse(elastic_table_text(sample()));
  change(json);
  return parse_elastic_table(json.dump(), three_layers(), kFingerprint, "elastic.json").status();
}

void expect_refused(const std::function<void(Json&)>& change, const std::string& field,
                    const std::string& why) {
  const Status status = status_of(change);
  EXPECT_FALSE(status.ok()) << field;
  EXPECT_THAT(status.message(), HasSubstr("elastic.json"));
  EXPECT_THAT(status.message(), HasSubstr(field));
  EXPECT_THAT(status.message(), HasSubstr(why));
}

TEST(ElasticTable, QualityIsATasksScoreOrElseTheDivergence) {
  ElasticTable table = sample();
  EXPECT_DOUBLE_EQ(level_quality(table, table.levels[1]), std::exp(-0.25));
  EXPECT_GE(level_quality(table, table.levels[1]), least_quality(table));
  table.task = "actions";
  table.levels[0].score = 180;
  table.levels[1].score = 135;
  const std::string text = elastic_table_text(table);
  const auto read = parse_elastic_table(text, three_layers(), kFingerprint, "elastic.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(elastic_table_text(*read), text);
  EXPECT_EQ(level_quality(*read, read->levels[1]), 0.75);
  EXPECT_EQ(least_quality(*read), 0.95);
}

TEST(ElasticTable, ATasksScoresAreChecked) {
  expect_refused([](Json& json) { json["task"] = "actions"; }, "score", "levels[0]");
  expect_refused([](Json& json) { json["task"] = ""; }, "task", "names what");
  const auto with_scores = [](double full) {
    return [full](Json& json) {
      json["task"] = "actions";
      for (Json& level : json["levels"]) level["score"] = full;
    };
  };
  expect_refused(with_scores(0), "levels[0].score", "above 0");
  expect_refused(with_scores(-1), "score is -1", "levels[0]");
}

TEST(ElasticTable, IsReadAsWritten) {
  const std::string text = elastic_table_text(sample());
  const auto table = parse_elastic_table(text, three_layers(), kFingerprint, "elastic.json");
  ASSERT_TRUE(table.ok()) << table.status().message();
  EXPECT_EQ(elastic_table_text(*table), text);
  EXPECT_EQ(table->order[0].kv_groups, (std::vector<std::int32_t>{2, 0, 1}));
  EXPECT_EQ(table->levels[2].layers[2], (LayerWidths{0, 0}));
  EXPECT_EQ(table->levels[1].agreement, 0.875);
  EXPECT_EQ(level_id(*table, table->full()), "");
  EXPECT_NE(level_id(*table, table->levels[1]), level_id(*table, table->levels[2]));
}

TEST(ElasticTable, GroupsThatStayTogetherAreWrittenAsGroups) {
  ElasticTable table = sample();
  table.order[0].neurons.clear();
  for (const std::int32_t first : {64, 0, 32}) {
    for (std::int32_t i = 0; i < 32; ++i) table.order[0].neurons.push_back(first + i);
  }
  const std::string text = elastic_table_text(table);
  EXPECT_THAT(text, HasSubstr("{\"neuron_groups\": [2,0,1], \"kv_groups\": [2,0,1]}"));
  const auto read = parse_elastic_table(text, three_layers(), kFingerprint, "elastic.json");
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->order[0].neurons, table.order[0].neurons);
  EXPECT_EQ(read->order[2].neurons, table.order[2].neurons);
}

TEST(ElasticTable, OrderAsStoredHasNoId) {
  ElasticTable table = sample();
  EXPECT_NE(order_id(table), "");
  for (LayerOrder& layer : table.order) layer = {{}, {0, 1, 2}};
  EXPECT_EQ(order_id(table), "");
}

TEST(ElasticTable, LevelsAreFoundByName) {
  const ElasticTable table = sample();
  EXPECT_EQ((*find_level(table, "60"))->layers[1], (LayerWidths{64, 2}));
  const Status missing = find_level(table, "61").status();
  EXPECT_EQ(missing.code(), StatusCode::kNotFound);
  EXPECT_THAT(missing.message(), HasSubstr("100, 60, 40"));
}

// 3 + 4 matrices of a layer by hand: q and o of 32 columns a group, k and v of 16.
TEST(ElasticTable, BytesCountWeightsScalesAndVectors) {
  const std::int64_t cut = (2 * (32 + 16 + 16 + 32) + 3 * 64) * 48;  // "60", layer 1
  const auto full = level_bytes(three_layers(), std::vector<LayerWidths>{{96, 3}});
  const auto less = level_bytes(three_layers(), std::vector<LayerWidths>{{64, 2}});
  EXPECT_EQ(less.at("f32"), 4 * (cut + 40 * 48 + 48 + 2 * 48));
  EXPECT_EQ(less.at("bf16"), 2 * (cut + 40 * 48) + 4 * (48 + 2 * 48));
  EXPECT_EQ(less.at("int8"), cut / 32 * 34 + 40 * 48 / 32 * 34 + 4 * 3 * 48);
  EXPECT_EQ(less.at("int4"), cut / 32 * 20 + 40 * 48 / 32 * 34 + 4 * 3 * 48);
  EXPECT_GT(full.at("int8"), less.at("int8"));
}

TEST(ElasticTable, AnotherModelsIsRefused) {
  expect_refused([](Json& json) { json["model"] = std::string(64, 'b'); }, "model is", "another");
  expect_refused([](Json& json) { json.erase("model"); }, "model", "");
  expect_refused([](Json& json) { json["version"] = 2; }, "version is 2", "must be 1");
  expect_refused([](Json& json) { json["order"].erase(0); }, "order", "3 objects");
}

TEST(ElasticTable, OrdersMustBePermutations) {
  expect_refused(
      [](Json& json) {
        json["order"][0]["kv_groups"] = {0, 1, 1};
      },
      "order[0].kv_groups", "1 comes twice");
  expect_refused(
      [](Json& json) {
        json["order"][0]["kv_groups"] = {0, 1, 3};
      },
      "order[0].kv_groups[2] is 3", "0 to 2");
  expect_refused(
      [](Json& json) {
        json["order"][0]["kv_groups"] = {0, 1};
      },
      "order[0].kv_groups", "each of the layer's 3");
  expect_refused([](Json& json) { json["order"][2]["neurons"][5] = 1.5; },
                 "order[2].neurons[5] is 1.5", "whole number");
  expect_refused([](Json& json) { json["order"][1].erase("neuron_groups"); }, "order[1].neurons",
                 "list");
  expect_refused(
      [](Json& json) {
        json["order"][0]["neuron_groups"] = {2, 1, 0};
      },
      "order[0].neuron_groups is beside neurons", "alone");
}

TEST(ElasticTable, LevelsMustBeNestedWholeGroups) {
  expect_refused([](Json& json) { json["levels"][1]["neurons"][1] = 40; },
                 "levels[1].neurons[1] is 40", "whole groups of 32");
  expect_refused([](Json& json) { json["levels"][2]["neurons"][2] = 64; }, "\"40\"", "not nested");
  expect_refused([](Json& json) { json["levels"][1]["kv_groups"][0] = 2; }, "\"60\"", "anchor");
  expect_refused([](Json& json) { json["levels"][0]["neurons"][1] = 64; }, "\"100\"",
                 "must be the full model");
  expect_refused([](Json& json) { json["levels"] = Json::array(); }, "levels", "1 to 32");
}

TEST(ElasticTable, NamesAndFiguresAreChecked) {
  expect_refused([](Json& json) { json["levels"][1]["name"] = "auto"; }, "levels[1].name", "auto");
  expect_refused([](Json& json) { json["levels"][1]["name"] = "a b"; }, "levels[1].name",
                 "letters");
  expect_refused([](Json& json) { json["levels"][1]["name"] = "100"; }, "levels[1].name",
                 "another");
  expect_refused([](Json& json) { json["levels"][1]["agreement"] = 1.5; }, "agreement is 1.5", "1");
  expect_refused([](Json& json) { json["levels"][1]["divergence"] = -1; }, "divergence is -1", "0");
  expect_refused([](Json& json) { json["levels"][1]["bytes"]["int8"] = 1; },
                 "levels[1].bytes.int8 is 1", "but a level of these widths");
  expect_refused([](Json& json) { json["anchors"] = {3}; }, "anchors[0] is 3", "0 to 2");
}

TEST(ElasticTable, GroupsThatAreNotWholeStayWhole) {
  ModelConfig config = three_layers();
  config.head_dim = 8;  // 16 columns a group
  ElasticTable table = sample();
  for (ElasticLevel& each : table.levels) each.bytes = level_bytes(config, each.layers);
  const Status status =
      parse_elastic_table(elastic_table_text(table), config, kFingerprint, "t").status();
  EXPECT_THAT(status.message(), HasSubstr("levels[1].kv_groups[1] is 2"));
  EXPECT_THAT(status.message(), HasSubstr("16 columns"));
}

TEST(ElasticTable, ModelsWhoseUnitsCannotGoAreRefusedByName) {
  ModelConfig config = three_layers();
  config.mlp_bias = true;
  EXPECT_THAT(check_elastic(config).message(), HasSubstr("biases"));
  config = three_layers();
  config.experts.count = 4;
  EXPECT_THAT(check_elastic(config).message(), HasSubstr("experts"));
}

// Whatever bytes change, a table is refused, or every promise of its header holds.
TEST(ElasticTable, DamagedTextsAreRefusedOrHoldTheirPromises) {
  const std::string text = elastic_table_text(sample());
  std::mt19937 random(32);
  int accepted = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::string damaged = text;
    for (std::uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
      damaged[random() % damaged.size()] = "0123456789,[]{}\".-e "[random() % 20];
    }
    const auto table = parse_elastic_table(damaged, three_layers(), kFingerprint, "t");
    if (!table.ok()) continue;
    ++accepted;
    EXPECT_EQ(table->full().layers[1], full_widths(three_layers()));
    const auto again =
        parse_elastic_table(elastic_table_text(*table), three_layers(), kFingerprint, "again");
    EXPECT_TRUE(again.ok()) << again.status().message();
  }
  EXPECT_GT(accepted, 0);
}

TEST(ElasticTable, FileIsNamedInErrors) {
  const TestDirectory directory;
  directory.write("elastic.json", "{");
  EXPECT_THAT(read_elastic_table(directory.path("elastic.json"), three_layers(), kFingerprint)
                  .status()
                  .message(),
              HasSubstr(directory.path("elastic.json")));
  EXPECT_EQ(
      read_elastic_table(directory.path("none"), three_layers(), kFingerprint).status().code(),
      StatusCode::kNotFound);
}

}  // namespace
}  // namespace outrider
