// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/prompt_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string write_lines(const std::string& text) {
  const std::string path = testing::TempDir() + "prompts.jsonl";
  std::ofstream(path) << text;
  return path;
}

TEST(PromptFileTest, TheUsualDataSetsAreRead) {
  const std::string path = write_lines(
      "{\"prompt\":\"a\",\"answer\":\"-\"}\n\n{\"question\":\"b\"}\n{\"instruction\":\"c\"}\n"
      "{\"turns\":[\"d\",\"-\"]}");
  std::vector<std::string> prompts;
  const std::vector<PromptLine> all = *read_prompt_file(path, 0);
  for (const PromptLine& line : all) prompts.push_back(line.prompt);
  EXPECT_THAT(prompts, ElementsAre("a", "b", "c", "d"));
  const std::vector<PromptLine> two = *read_prompt_file(path, 2);
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].answer, "-");
  EXPECT_THAT(two[1].name, HasSubstr("prompts.jsonl:3"));
}

TEST(PromptFileTest, FewerThanAreAskedForAreRefused) {
  const std::string path = write_lines("{\"prompt\":\"a\"}\n{\"prompt\":\"b\"}\n");
  EXPECT_EQ(read_prompt_file(path, 2)->size(), 2u);
  const Status refused = read_prompt_file(path, 3).status();
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("prompts.jsonl: holds 2 of the 3 requested prompts"));
  EXPECT_THAT(refused.message(), HasSubstr("--num-prompts 2"));
}

TEST(PromptFileTest, ALineWithoutAPromptIsNamed) {
  for (const char* bad : {"{}", "3", "{\"prompt\":\"x\",\"answer\":1}", "{\"prompt\":1}",
                          "{\"turns\":[]}", "{\"turns\":[2]}"}) {
    const auto prompts =
        read_prompt_file(write_lines(std::string("{\"prompt\":\"a\"}\n") + bad), 0);
    ASSERT_FALSE(prompts.ok()) << bad;
    EXPECT_THAT(prompts.status().message(), HasSubstr("prompts.jsonl:2")) << bad;
  }
  EXPECT_THAT(read_prompt_file(write_lines("\n"), 0).status().message(), HasSubstr("no prompt"));
  EXPECT_THAT(read_prompt_file("/nowhere", 0).status().message(),
              HasSubstr("/nowhere: no such file. Remedy: --prompts FILE; the default, bench/"));
}

std::string prompt_of_line(const PromptLine& line) {
  return line.prompt;
}

TEST(PromptFileTest, AFoldersFilesTakeTurns) {
  const std::string folder = testing::TempDir() + "prompt_folder/";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  EXPECT_THAT(read_prompt_file(folder, 0).status().message(), HasSubstr("no prompt"));
  std::ofstream(folder + "b.jsonl") << "{\"prompt\":\"b1\"}\n";
  std::ofstream(folder + "a.jsonl") << "{\"prompt\":\"a1\"}\n{\"prompt\":\"a2\"}\n";
  std::ofstream(folder + "README.md") << "none";
  std::vector<std::string> prompts;
  const std::vector<PromptLine> lines = *read_prompt_file(folder, 0);
  std::ranges::transform(lines, std::back_inserter(prompts), prompt_of_line);
  EXPECT_THAT(prompts, ElementsAre("a1", "b1", "a2"));
  EXPECT_THAT(read_prompt_file(folder, 2)->back().name, HasSubstr("b.jsonl:1"));
  EXPECT_THAT(read_prompt_file(folder, 4).status().message(), HasSubstr("holds 3 of the 4"));
}

}  // namespace
}  // namespace outrider
