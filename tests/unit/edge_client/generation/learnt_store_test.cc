// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/learnt_store.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace outrider {
namespace {

const LearningSide kEdge = {"draft-a", "a small device"};

LearntPair learnt(double step_ms) {
  return {.tried = {10, 6},
          .stood = {7, 3},
          .step_ms = step_ms,
          .rtt_ms = 50,
          .speculates = false,
          .probe_in = 40,
          .probe_after = 128,
          .answers = 3};
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
  EXPECT_TRUE(store_.read(kEdge).empty());
  ASSERT_TRUE(store_.write(kEdge, "target-1", learnt(8)).ok());
  ASSERT_TRUE(store_.write(kEdge, "target-2", learnt(9)).ok());
  ASSERT_TRUE(store_.write(kEdge, "target-1", learnt(7)).ok());
  const LearntPairs pairs = store_.read(kEdge);
  ASSERT_EQ(pairs.size(), 2u);
  EXPECT_EQ(pairs.at("target-1"), learnt(7)) << "the later one";
  EXPECT_EQ(pairs.at("target-2"), learnt(9));
}

TEST_F(LearntStoreTest, AnotherDraftOrDeviceLearnsByItself) {
  ASSERT_TRUE(store_.write(kEdge, "target", learnt(8)).ok());
  EXPECT_TRUE(store_.read({"draft-b", kEdge.device}).empty());
  EXPECT_TRUE(store_.read({kEdge.draft, "another device"}).empty());
}

TEST_F(LearntStoreTest, ItStaysSmallAndTheOldestGoFirst) {
  for (std::size_t i = 0; i < LearntStore::kMaxEntries + 6; ++i) {
    ASSERT_TRUE(store_.write(kEdge, "target-" + std::to_string(i), learnt(1)).ok());
  }
  const LearntPairs pairs = store_.read(kEdge);
  EXPECT_EQ(pairs.size(), LearntStore::kMaxEntries);
  EXPECT_FALSE(pairs.contains("target-5"));
  EXPECT_TRUE(pairs.contains("target-6"));
  EXPECT_LT(std::filesystem::file_size(directory_ + "/learnt.json"), 64u << 10);
}

TEST_F(LearntStoreTest, AFileThatMakesNoSenseCountsAsNone) {
  for (const char* text :
       {"", "{", "[]", "{\"version\":2,\"pairs\":[]}", "{\"version\":1}",
        "{\"version\":1,\"pairs\":[{\"target\":\"t\",\"draft\":\"draft-a\",\"device\":\"a small "
        "device\",\"learnt\":{\"tried\":[1],\"stood\":[2],\"step_ms\":1,\"rtt_ms\":1,"
        "\"speculates\":true,\"probe_in\":0,\"probe_after\":1,\"answers\":1}}]}"}) {
    write_file(text);
    EXPECT_TRUE(store_.read(kEdge).empty()) << text;
  }
  ASSERT_TRUE(store_.write(kEdge, "target", learnt(8)).ok()) << "and is written anew";
  EXPECT_EQ(store_.read(kEdge).size(), 1u);
}

TEST_F(LearntStoreTest, WithoutAFolderNothingIsKeptAndAFullOneIsToldOf) {
  const LearntStore nowhere("");
  EXPECT_TRUE(nowhere.write(kEdge, "target", learnt(8)).ok());
  EXPECT_TRUE(nowhere.read(kEdge).empty());
  const LearntStore refused("/proc/outrider-state");
  EXPECT_EQ(refused.write(kEdge, "target", learnt(8)).code(), StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace outrider
