// SPDX-License-Identifier: Apache-2.0
#include "adapters/labels/labeller.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "adapters/exits/hidden_states.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/dtype.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LabellerTest : public testing::Test {
 protected:
  LabellerTest() {
    options_.out = directory_.path("labels");
    options_.top_k = 3;
    options_.layers = {1};
    options_.shard_documents = 2;
    for (int i = 0; i < 5; ++i) {
      Document document{some_tokens(10 + i), {}};
      document.learnt.assign(document.tokens.size(), 1);
      document.learnt[3] = 0;
      documents_.push_back(std::move(document));
    }
  }

  Status label(int stop_after = 100) {
    int seen = 0;
    return label_documents(*model_, documents_, "a tokenizer", options_, [&](std::int64_t) {
      return ++seen > stop_after ? cancelled("enough") : Status();
    });
  }
  LabelShard shard(std::int64_t number) {
    return *read_shard(options_.out, *read_label_index(options_.out), number);
  }

  TestDirectory directory_;
  std::shared_ptr<const ModelFiles> files_ = small_model(directory_.path(), "llama", DType::kF32);
  std::unique_ptr<Model> model_ =
      *make_cpu_model(files_, {.dtype = "f32", .threads = 1, .progress = {}});
  std::vector<Document> documents_;
  LabelOptions options_;
};

TEST(TopK, KeepsTheLikeliestTokensWithTheirLogProbabilities) {
  const std::vector<float> logits = {0, 2, -std::numeric_limits<float>::infinity(), 2, 1};
  std::vector<TokenId> ids;
  std::vector<float> values;
  append_top_k(logits, 3, ids, values);
  EXPECT_THAT(ids, ElementsAre(1, 3, 4));
  const double sum = 2 * std::exp(2.0) + std::exp(1.0) + 1;
  EXPECT_NEAR(std::exp(values[0]), std::exp(2.0) / sum, 1e-6);
  EXPECT_NEAR(std::exp(values[2]), std::exp(1.0) / sum, 1e-6);
}

TEST(TopK, RepeatsTheFirstWithoutWeightWhereAShortlistHasFewer) {
  const std::vector<float> logits = {-std::numeric_limits<float>::infinity(), 5};
  std::vector<TokenId> ids = {9, 9, 9};
  std::vector<float> values = {0, 0, 0};
  append_top_k(logits, 2, ids, values);
  EXPECT_THAT(ids, ElementsAre(9, 9, 9, 1, 1));
  EXPECT_EQ(values[3], 0);
  EXPECT_EQ(std::exp(values[4]), 0);
}

TEST_F(LabellerTest, LabelsAreTheModelsOwnLogitsAndHiddenStates) {
  ASSERT_TRUE(label().ok());
  HiddenReader reader = *HiddenReader::make(*model_, {1});
  HiddenBatch batch = reader.empty_batch();
  ASSERT_TRUE(reader.read(documents_[2], batch).ok());
  ASSERT_TRUE(reader.read(documents_[3], batch).ok());
  const LabelShard second = shard(1);
  ASSERT_EQ(second.documents.size(), 2u);
  EXPECT_EQ(second.documents[1].tokens, documents_[3].tokens);
  EXPECT_EQ(second.documents[1].learnt, documents_[3].learnt);
  std::vector<TokenId> ids;
  std::vector<float> values;
  for (std::size_t row = 0; row < batch.rows(); ++row) {
    append_top_k(std::span(batch.logits).subspan(row * 101, 101), 3, ids, values);
  }
  EXPECT_EQ(second.ids, ids);
  EXPECT_EQ(second.log_probabilities, values);
  ASSERT_EQ(second.hidden[0].size(), batch.hidden[0].size());
  EXPECT_EQ(second.hidden[0][5], to_bf16(batch.hidden[0][5]));
  EXPECT_EQ(shard(2).documents.size(), 1u);
}

TEST_F(LabellerTest, AnEndedRunGoesOnWithTheNextShard) {
  EXPECT_EQ(label(3).code(), StatusCode::kCancelled);
  EXPECT_TRUE(has_shard(options_.out, 0));
  EXPECT_FALSE(has_shard(options_.out, 1));
  const std::string path = options_.out + "/labels-00000.safetensors";
  const auto written = std::filesystem::last_write_time(path);
  ASSERT_TRUE(label().ok());
  EXPECT_EQ(std::filesystem::last_write_time(path), written);
  EXPECT_TRUE(has_shard(options_.out, 2));
}

TEST_F(LabellerTest, LabelsOfAnotherTextAreNotMixedIn) {
  ASSERT_TRUE(label().ok());
  documents_[0].tokens[0] ^= 1;
  EXPECT_EQ(label().code(), StatusCode::kFailedPrecondition);
  documents_[0].tokens[0] ^= 1;
  options_.top_k = 4;
  EXPECT_THAT(label().message(), HasSubstr("Remedy"));
}

TEST_F(LabellerTest, WhatTheModelHasNotIsRefused) {
  options_.layers = {2};
  EXPECT_THAT(label().message(), HasSubstr("--layers: 2 must be from 1 to 1"));
  options_.layers = {};
  options_.top_k = 102;
  EXPECT_THAT(label().message(), HasSubstr("--top-k 102: must be from 1 to 101"));
  options_.top_k = 1;
  documents_[0].tokens.resize(600);
  documents_[0].learnt.resize(600);
  EXPECT_THAT(label().message(), HasSubstr("a document of 600 tokens"));
}

TEST_F(LabellerTest, ADamagedShardIsRefusedByName) {
  ASSERT_TRUE(label().ok());
  const LabelIndex index = *read_label_index(options_.out);
  const auto error = [&](const LabelShard& shard, const LabelIndex& read_as) {
    EXPECT_TRUE(write_shard(options_.out, index, 0, shard).ok());
    const auto read = read_shard(options_.out, read_as, 0);
    EXPECT_EQ(read.status().code(), StatusCode::kDataLoss);
    return read.status().message();
  };
  const LabelShard whole = shard(0);
  LabelShard bad = whole;
  bad.documents[0].tokens[1] = 101;
  EXPECT_THAT(error(bad, index), HasSubstr("tokens holds 101"));
  bad = whole;
  bad.documents.pop_back();
  EXPECT_THAT(error(bad, index), HasSubstr("lengths has another shape"));
  bad = whole;
  bad.log_probabilities[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(error(bad, index), HasSubstr("NaN"));
  LabelIndex other = index;
  other.hidden_size = 71;
  EXPECT_THAT(error(whole, other), HasSubstr("hidden.1 has another shape"));
  std::filesystem::resize_file(options_.out + "/labels-00000.safetensors", 100);
  EXPECT_EQ(read_shard(options_.out, index, 0).status().code(), StatusCode::kDataLoss);
}

}  // namespace
}  // namespace outrider
