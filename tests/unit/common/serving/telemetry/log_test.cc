// SPDX-License-Identifier: Apache-2.0
#include "common/serving/telemetry/log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "common/base/files.h"
#include "common/base/json.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  void TearDown() override {
    EXPECT_TRUE(configure_logging({}).ok());
    std::remove(path_.c_str());
  }
  std::string written() const {
    Result<std::string> text = read_file(path_, 1 << 20);
    EXPECT_TRUE(text.ok()) << text.status().to_string();
    return text.ok() ? *text : "";
  }

  const std::string path_ =
      ::testing::TempDir() + "outrider_log_test_" + std::to_string(::getpid()) + ".log";
};

TEST_F(LogTest, TextHasTimeLevelMessageAndFields) {
  ASSERT_TRUE(configure_logging({.file = path_}).ok());
  log(LogLevel::kInfo, "session opened",
      {{"session", "7f3a"}, {"tokens", 12}, {"rtt_ms", 1.5}, {"resumed", true}});
  EXPECT_THAT(written(), MatchesRegex("[0-9]+:[0-9]+:[0-9]+\\.[0-9]+ info session opened "
                                      "session=7f3a tokens=12 rtt_ms=1.5 resumed=true\n"));
}

TEST_F(LogTest, EachJsonLineIsOneObject) {
  ASSERT_TRUE(configure_logging({.format = LogFormat::kJson, .file = path_}).ok());
  log(LogLevel::kWarning, "a \"quoted\"\nmessage",
      {{"bytes", std::string("\xff\x00\x1b", 3)}, {"count", -3}, {"ratio", 0.25}});
  const std::string line = written();
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const Result<Json> parsed = parse_json(line, "line");
  ASSERT_TRUE(parsed.ok()) << line;
  EXPECT_EQ((*parsed)["level"], "warning");
  EXPECT_EQ((*parsed)["message"], "a \"quoted\"\nmessage");
  EXPECT_EQ((*parsed)["count"], -3);
  EXPECT_EQ((*parsed)["ratio"], 0.25);
  EXPECT_TRUE((*parsed)["bytes"].is_string());
}

// Two lines of a bill add up to what was counted, to a billionth of a dollar.
TEST_F(LogTest, FractionsKeepNineDigits) {
  ASSERT_TRUE(configure_logging({.file = path_}).ok());
  log(LogLevel::kInfo, "answer ended", {{"dollars", 0.00021883875}, {"device_s", 86412.3456}});
  EXPECT_THAT(written(), HasSubstr(" dollars=0.00021883875 device_s=86412.3456\n"));
}

TEST_F(LogTest, WhatAFullDiskDoesNotTakeIsCounted) {
  ASSERT_TRUE(configure_logging({.file = "/dev/full"}).ok());
  const std::uint64_t before = lost_log_lines();
  log(LogLevel::kInfo, "first");
  log(LogLevel::kInfo, "second");
  EXPECT_EQ(lost_log_lines(), before + 2);
  ASSERT_TRUE(configure_logging({.file = path_}).ok());
  log(LogLevel::kInfo, "third");
  EXPECT_EQ(lost_log_lines(), before + 2);
  EXPECT_THAT(written(), HasSubstr("third"));
}

TEST_F(LogTest, LinesForAPipeThatNobodyReadsAreCountedAndNobodyWaits) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  while (write(ends[1], "x", 1) == 1) {
  }
  ASSERT_EQ(fcntl(ends[1], F_SETFL, 0), 0);  // from now on a write waits
  const int kept = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  const std::uint64_t before = lost_log_lines();
  log(LogLevel::kWarning, "first");
  log(LogLevel::kWarning, "second");
  const std::uint64_t lost = lost_log_lines() - before;
  std::string all(1 << 20, ' ');
  EXPECT_GT(read(ends[0], all.data(), all.size()), 0);
  log(LogLevel::kWarning, "third");
  const ssize_t got = read(ends[0], all.data(), all.size());
  dup2(kept, STDERR_FILENO);
  for (const int end : {ends[0], ends[1], kept}) close(end);
  EXPECT_EQ(lost, 2U);
  EXPECT_EQ(lost_log_lines(), before + 2);
  EXPECT_THAT(all.substr(0, got > 0 ? static_cast<std::size_t>(got) : 0), HasSubstr("third"));
}

TEST_F(LogTest, WhatIsBelowTheLevelIsNotWritten) {
  ASSERT_TRUE(configure_logging({.level = LogLevel::kWarning, .file = path_}).ok());
  log(LogLevel::kInfo, "quiet");
  log(LogLevel::kError, "loud");
  EXPECT_FALSE(log_enabled(LogLevel::kInfo));
  EXPECT_THAT(written(), ::testing::AllOf(HasSubstr("loud"), ::testing::Not(HasSubstr("quiet"))));
}

TEST_F(LogTest, ALogIsAppendedToAndNothingElseIs) {
  for (const char* log :
       {"09:41:05.123 info x\n", "{\"time\":\"2026-01-31T09:41:05.123+00:00\"}\n", ""}) {
    std::ofstream(path_) << log;
    EXPECT_TRUE(configure_logging({.file = path_}).ok()) << log;
  }
  for (const char* other : {"{\"model\":1}", "09:41 a diary", "\x01\x02"}) {
    std::ofstream(path_) << other;
    EXPECT_EQ(configure_logging({.file = path_}).code(), StatusCode::kInvalidArgument) << other;
  }
  std::filesystem::remove(path_);
}

TEST_F(LogTest, ARenamedFileIsLeftWhereItIsAndANewOneIsOpened) {
  EXPECT_FALSE(reopen_log_file()) << "stderr";
  ASSERT_TRUE(configure_logging({.file = path_}).ok());
  log(LogLevel::kInfo, "before");
  std::filesystem::rename(path_, path_ + ".1");
  log(LogLevel::kInfo, "between");
  EXPECT_TRUE(reopen_log_file());
  log(LogLevel::kInfo, "after");
  const auto text_of = [](const std::string& path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  EXPECT_NE(text_of(path_ + ".1").find("between"), std::string::npos);
  EXPECT_EQ(text_of(path_ + ".1").find("after"), std::string::npos);
  EXPECT_NE(text_of(path_).find("after"), std::string::npos);
  std::filesystem::remove(path_ + ".1");
}

TEST_F(LogTest, AFileThatCannotBeOpenedIsNamed) {
  const Status status = configure_logging({.file = "/proc/nothing/x.log"});
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("/proc/nothing/x.log"));
}

TEST(FormatLogLine, NoInputCanForgeALineInText) {
  const std::string line = internal::format_log_line(
      LogFormat::kText, "bad\nmessage\x1b[31m",
      {{"peer", "a\n12:00:00 info all is well"}, {"empty", ""}, {"spaced", "x y=z"}});
  EXPECT_EQ(line,
            "bad message [31m peer=\"a\\n12:00:00 info all is well\" empty=\"\" spaced=\"x y=z\"");
}

TEST(FormatLogLine, NumbersThatJsonLacksAreText) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(internal::format_log_line(LogFormat::kJson, "m", {{"a", infinity}, {"b", -infinity}}),
            R"("message":"m","a":"inf","b":"-inf")");
}

TEST(ParseLogLevel, KnowsItsNamesOnly) {
  EXPECT_EQ(parse_log_level("trace"), LogLevel::kTrace);
  EXPECT_EQ(parse_log_level("off"), LogLevel::kOff);
  EXPECT_EQ(parse_log_level("Info"), std::nullopt);
}

}  // namespace
}  // namespace outrider
