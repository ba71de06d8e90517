// SPDX-License-Identifier: Apache-2.0
#include "bench/report/journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

namespace outrider {
namespace {

using testing::HasSubstr;

class JournalTest : public testing::Test {
 protected:
  JournalTest() {
    plan_.prompts = {"one", "two"};
    plan_.settings = {{.name = "lte", .network = "lte"}};
    plan_.variants = {variant_of(Strategy::kAr)};
    std::filesystem::remove(path_);
  }

  static FinishedAnswer answer(std::size_t prompt) {
    AnswerRecord record;
    record.ids = {4, 5};
    record.stats.decode_ms = 30;
    record.stats.completion_tokens = 4;
    record.stats.first_verdict.tokens = 1;
    record.traffic = TrafficRecord{};
    record.stats.chunk_at = {from_ms(1), from_ms(31)};
    record.stats.chunk_tokens = {1, 3};
    FinishedAnswer answer{.job = {0, 0, prompt, 0}};
    answer.answer = *edge_answer_of(record);
    answer.answer.figures.wire_up = 77;
    answer.answer.link = LinkCounts{.down = {.sent = 5, .lost = 2}};
    return answer;
  }

  GridPlan plan_;
  const std::string path_ = testing::TempDir() + "journal_test.jsonl";
  const Json what_ = {{"seed", 1}, {"target", "a"}};
};

TEST_F(JournalTest, WhatWasWrittenIsKnownWhenTheRunGoesOn) {
  {
    const auto journal = *Journal::open(path_, plan_, what_);
    ASSERT_TRUE(journal->add(answer(0)).ok());
    ASSERT_TRUE(journal->add({.job = {0, 0, 1, 0}, .error = "UNAVAILABLE: gone"}).ok());
  }
  const auto journal = Journal::open(path_, plan_, what_);
  ASSERT_TRUE(journal.ok()) << journal.status().to_string();
  const auto& known = (*journal)->known();
  ASSERT_EQ(known.size(), 2u);
  const FinishedAnswer& first = known.at({0, 0, 0, 0});
  EXPECT_EQ(first.answer.figures.tokens, 3);
  EXPECT_EQ(first.answer.figures.wire_up, 77);
  ASSERT_TRUE(first.answer.link.has_value());
  EXPECT_EQ(first.answer.link->down.lost, 2u);
  EXPECT_EQ(first.answer.record.stats.chunk_tokens, (Counts{1, 3}));
  EXPECT_EQ(known.at({0, 0, 1, 0}).error, "UNAVAILABLE: gone");
}

TEST_F(JournalTest, ALineThatWasCutOffIsLeftOut) {
  ASSERT_TRUE((*Journal::open(path_, plan_, what_))->add(answer(0)).ok());
  std::ofstream(path_, std::ios::app) << R"({"setting_index":0,"variant)";
  const auto journal = *Journal::open(path_, plan_, what_);
  EXPECT_EQ(journal->known().size(), 1u);
  ASSERT_TRUE(journal->add(answer(1)).ok());
  EXPECT_EQ((*Journal::open(path_, plan_, what_))->known().size(), 2u);
}

TEST_F(JournalTest, AnotherRunsJournalIsRefused) {
  ASSERT_TRUE(Journal::open(path_, plan_, what_).ok());
  const auto other = Journal::open(path_, plan_, {{"seed", 2}, {"target", "a"}});
  EXPECT_EQ(other.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(other.status().message(), HasSubstr("\"seed\" differs"));
  EXPECT_THAT(other.status().message(), HasSubstr("--fresh"));
}

// Files cannot grow while this object lives, as on a full disk.
class FullDisk final {
 public:
  explicit FullDisk(rlim_t bytes) {
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit now{.rlim_cur = bytes, .rlim_max = before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~FullDisk() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(JournalTest, AFullDiskKeepsWhatWasWhole) {
  const auto journal = *Journal::open(path_, plan_, what_);
  ASSERT_TRUE(journal->add(answer(0)).ok());
  {
    const FullDisk full(std::filesystem::file_size(path_) + 10);
    const Status status = journal->add(answer(1));
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_THAT(status.message(), HasSubstr("run the same command again"));
  }
  const auto again = *Journal::open(path_, plan_, what_);
  EXPECT_EQ(again->known().size(), 1u);
  EXPECT_TRUE(again->add(answer(1)).ok());
}

}  // namespace
}  // namespace outrider
