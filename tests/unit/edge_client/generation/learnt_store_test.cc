// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/learnt_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace outrider {
namespace {

const LearningSide kEdge = {"draft-a", "a small device"};

PairProfile learnt(double step_ms) {
  return {.tried = {10, 6},
          .stood = {7, 3},
          .step_ms = step_ms,
          .rtt_ms = 50,
          .speculates = false,
          .probe_in = 40,
          .probe_after = 128,
          .answers = 3,
          .passes = {{1, 1, 990.5, 12}, {9, 4, 1000.25, 3}},
          .exits = {{4, -1.25, 0.5}, {6, 0.75, 1.5}},
          .edge_weights = {{-1.5, 0.25, 3}}};
}

class LearntStoreTest : public testing::Test {
 protected:
  LearntStoreTest() { std::filesystem::remove_all(directory_); }

  void write_file(const std::string& text) const {
    std::filesystem::create_directories(directory_);
    std::ofstream(directory_ + "/learnt.json") << text;
  }

  const std::string directory_ = testing::TempDir() + "learnt_store_test/state";
  const LearntStore store_{directory_};
};

TEST_F(LearntStoreTest, WhatOneAnswerTaughtTheNextOneKnows) {
  EXPECT_TRUE(store_.read(kEdge).pairs.empty());
  EXPECT_TRUE(store_.read(kEdge).ignored.empty()) << "no file yet";
  ASSERT_TRUE(store_.write(kEdge, "target-1", learnt(8)).ok());
  ASSERT_TRUE(store_.write(kEdge, "target-2", learnt(9)).ok());
  ASSERT_TRUE(store_.write(kEdge, "target-1", learnt(7)).ok());
  const PairProfiles pairs = store_.read(kEdge).pairs;
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs.at("target-1"), learnt(7)) << "the later one";
  EXPECT_EQ(pairs.at("target-2"), learnt(9));
}

TEST_F(LearntStoreTest, AnotherDraftOrDeviceLearnsByItself) {
  ASSERT_TRUE(store_.write(kEdge, "target", learnt(8)).ok());
  EXPECT_TRUE(store_.read({"draft-b", kEdge.device}).pairs.empty());
  EXPECT_TRUE(store_.read({"draft-b", kEdge.device}).ignored.empty()) << "nothing is known of it";
  const KeptLearning elsewhere = store_.read({kEdge.draft, "another device"});
  EXPECT_TRUE(elsewhere.pairs.empty());
  EXPECT_THAT(elsewhere.ignored, testing::HasSubstr("is of \"a small device\", and this is "
                                                    "\"another device\""));
  ASSERT_TRUE(store_.write({kEdge.draft, "another device"}, "target", learnt(8)).ok());
  EXPECT_TRUE(store_.read({kEdge.draft, "another device"}).ignored.empty()) << "both are known";
}

TEST_F(LearntStoreTest, OtherSettingsOfTheSameMachineNeedNoWord) {
  ASSERT_TRUE(store_.write({"draft", "a processor, 1 threads"}, "target", learnt(8)).ok());
  const KeptLearning other = store_.read({"draft", "a processor, 4 threads"});
  EXPECT_TRUE(other.pairs.empty());
  EXPECT_EQ(other.ignored, "");
  EXPECT_NE(store_.read({"draft", "a processor of others, 1 threads"}).ignored, "");
}

TEST_F(LearntStoreTest, ItStaysSmallAndTheOldestGoFirst) {
  for (std::size_t i = 0; i < LearntStore::kMaxEntries + 6; ++i) {
    ASSERT_TRUE(store_.write(kEdge, "target-" + std::to_string(i), learnt(1)).ok());
  }
  const PairProfiles pairs = store_.read(kEdge).pairs;
  EXPECT_EQ(pairs.size(), LearntStore::kMaxEntries);
  EXPECT_FALSE(pairs.contains("target-5"));
  EXPECT_TRUE(pairs.contains("target-6"));
  EXPECT_LT(std::filesystem::file_size(directory_ + "/learnt.json"), 64u << 10);
}

// A file with one entry of kEdge, of these depths, passes and exits.
std::string file_with(const std::string& version, const std::string& depths,
                      const std::string& passes,
                      const std::string& exits = "{\"layer\":4,\"offset\":-1,\"slope\":0.5}") {
  return "{\"version\":" + version +
         ",\"pairs\":[{\"target\":\"t\",\"draft\":\"draft-a\",\"device\":\"a small device\","
         "\"learnt\":{" +
         depths +
         ",\"step_ms\":1,\"rtt_ms\":1,\"speculates\":true,\"probe_in\":0,\"probe_after\":1,"
         "\"answers\":1,\"passes\":[" +
         passes + "],\"exits\":[" + exits + "]}}]}";
}

TEST_F(LearntStoreTest, AFileThatMakesNoSenseCountsAsNoneAndThatIsTold) {
  const std::string depths = "\"tried\":[1],\"stood\":[1]";
  const std::string pass = "{\"rows\":2,\"leaves\":1,\"ms\":5,\"weight\":1}";
  write_file(file_with("3", depths, pass));
  ASSERT_EQ(store_.read(kEdge).pairs.size(), 1u) << store_.read(kEdge).ignored;
  const std::pair<std::string, const char*> files[] = {
      {"", "learnt.json"},
      {"{", "learnt.json"},
      {"[]", "version none"},
      {"{\"version\":3}", "pairs"},
      {file_with("2", depths, pass), "version 2"},
      {file_with("7", depths, pass), "version 7"},
      {file_with("3", "\"tried\":[1],\"stood\":[2]", pass),
       "learnt.json make no sense: stood[0] is 2, must be from 0 to 1. Remedy"},
      {file_with("3", "\"tried\":[1,2],\"stood\":[1]", pass), "the size of stood is 1"},
      {file_with("3", "\"tried\":[-1],\"stood\":[1]", pass), "tried[0] is -1"},
      {file_with("3", depths, "{\"rows\":0,\"leaves\":1,\"ms\":5,\"weight\":1}"),
       "passes[0].rows is 0"},
      {file_with("3", depths, "{\"rows\":2,\"leaves\":3,\"ms\":5,\"weight\":1}"),
       "passes[0].leaves is 3"},
      {file_with("3", depths, "{\"rows\":2,\"leaves\":1,\"ms\":-5,\"weight\":1}"),
       "passes[0].ms is -5"},
      {file_with("3", depths, "{\"rows\":2,\"leaves\":1,\"ms\":5}"), "weight"},
      {file_with("3", depths, pass, "{\"layer\":-1,\"offset\":0,\"slope\":1}"),
       "exits[0].layer is -1"},
      {file_with("3", depths, pass, "{\"layer\":4,\"offset\":9,\"slope\":1}"),
       "exits[0].offset is 9, must be from -8 to 8"},
      {file_with("3", depths, pass, "{\"layer\":4,\"offset\":0,\"slope\":-1}"),
       "exits[0].slope is -1"},
      {file_with("3", depths, pass, "{\"layer\":4,\"offset\":0}"), "slope"},
      {file_with("3", depths, pass, "],\"edge_weights\":[9,0,0"), "edge_weights[0] is 9"},
      {file_with("3", depths, pass, "],\"edge_weights\":[1,0"), "the size of edge_weights is 2"},
  };
  for (const auto& [text, why] : files) {
    write_file(text);
    const KeptLearning kept = store_.read(kEdge);
    EXPECT_TRUE(kept.pairs.empty()) << text;
    EXPECT_THAT(kept.ignored, testing::HasSubstr(why)) << text;
  }
  ASSERT_TRUE(store_.write(kEdge, "target", learnt(8)).ok()) << "and is written anew";
  EXPECT_EQ(store_.read(kEdge).pairs.size(), 1u);
  EXPECT_TRUE(store_.read(kEdge).ignored.empty());
}

TEST_F(LearntStoreTest, AFileOfALaterVersionStaysAsItIs) {
  for (const char* version : {"4", "1000", "3.5"}) {
    const std::string later = file_with(version, "\"tried\":[1],\"stood\":[1]", "");
    write_file(later);
    EXPECT_THAT(store_.read(kEdge).ignored, testing::HasSubstr("It stays as it is"));
    EXPECT_TRUE(store_.write(kEdge, "target", learnt(8)).ok());
    std::ifstream file(directory_ + "/learnt.json");
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), later);
  }
}

TEST_F(LearntStoreTest, WithoutAFolderNothingIsKeptAndAFullOneIsToldOf) {
  const LearntStore nowhere("");
  EXPECT_TRUE(nowhere.write(kEdge, "target", learnt(8)).ok());
  EXPECT_TRUE(nowhere.read(kEdge).pairs.empty());
  const LearntStore refused("/proc/outrider-state");
  EXPECT_EQ(refused.write(kEdge, "target", learnt(8)).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
