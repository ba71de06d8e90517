// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/prompt_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::array kComplete = {MbppForm::kComplete};

TEST(PromptSets, AnMbppTaskAsksToCompleteItsFunction) {
  TestDirectory directory;
  directory.write("mbpp.jsonl", R"({"prompt":"def f(x):\n","canonical_solution":"  return x\n"})");
  const auto tasks = read_mbpp(directory.path("mbpp.jsonl"), kComplete);
  ASSERT_TRUE(tasks.ok()) << tasks.status().to_string();
  EXPECT_EQ(tasks->at(0).prompt, "Complete this Python function:\n\ndef f(x):\n");
  EXPECT_EQ(tasks->at(0).answer, "def f(x):\n  return x\n");
  directory.write("mbpp.jsonl", R"({"prompt":"def f(x):\n"})");
  EXPECT_THAT(read_mbpp(directory.path("mbpp.jsonl"), kComplete).status().message(),
              HasSubstr("canonical_solution"));
}

TEST(PromptSets, AnMbppTaskIsAskedInEachFormThatIsNamed) {
  TestDirectory directory;
  const std::string head =
      R"("prompt":"def f(x):\n  '''\n  Write a function to double it.\n  '''\n")";
  const std::string rest = R"(,"entry_point":"f","canonical_solution":"  return 2 * x\n")";
  const std::string tests =
      R"(,"test":"def check(c):\n    assert f(1) == 2\n    assert f(2) == 4\n")";
  directory.write("mbpp.jsonl", "{" + head + rest + tests + "}\n");
  constexpr std::array kAll = {MbppForm::kComplete, MbppForm::kWrite, MbppForm::kTests};
  const auto tasks = read_mbpp(directory.path("mbpp.jsonl"), kAll);
  ASSERT_TRUE(tasks.ok()) << tasks.status().to_string();
  ASSERT_EQ(tasks->size(), 3u);
  EXPECT_THAT(tasks->at(0).prompt, StartsWith("Complete this Python function:\n\ndef f(x):"));
  EXPECT_EQ(tasks->at(1).prompt, "Write a function to double it. Use Python, and call it f.");
  EXPECT_EQ(
      tasks->at(2).prompt,
      "Write a Python function that passes these tests:\n\nassert f(1) == 2\nassert f(2) == 4\n");
  EXPECT_EQ(tasks->at(2).answer, tasks->at(0).answer);
  directory.write("mbpp.jsonl", "{" + head + rest + "}\n");
  EXPECT_THAT(read_mbpp(directory.path("mbpp.jsonl"), kAll).status().message(), HasSubstr("test"));
}

TEST(PromptSets, OfAConversationTheFirstTurnIsTakenOnce) {
  TestDirectory directory;
  const std::string system = "[INST] <<SYS>>\\nBe good.\\n<</SYS>\\n\\n\\n";
  directory.write("turns.json", "[[0, \"" + system +
                                    "Who? [\\\\INST]\\nHe.\\n[INST] Why? [\\\\INST]\"],"
                                    "[1, \"" +
                                    system +
                                    "Who? [\\\\INST]\\n\"],"
                                    "[2, \"" +
                                    system + std::string(2000, 'x') +
                                    " [\\\\INST]\\n\"],"
                                    "[3, \"When? [/INST]\"]]");
  const auto turns = read_user_turns(directory.path("turns.json"));
  ASSERT_TRUE(turns.ok()) << turns.status().to_string();
  EXPECT_THAT(*turns, ElementsAre("Who?", "When?"));
  for (const char* bad : {"{}", "[]", "[3]", "[[1]]", "[[1, 2]]", "x"}) {
    directory.write("turns.json", bad);
    EXPECT_EQ(read_user_turns(directory.path("turns.json")).status().code(), StatusCode::kDataLoss)
        << bad;
  }
}

TEST(PromptSets, MtBenchGivesTheFirstOfItsTurns) {
  TestDirectory directory;
  directory.write("mt.jsonl", R"({"question_id":81,"turns":["Write.","Rewrite."]})"
                              "\n"
                              R"({"question_id":82,"turns":["Write."]})");
  const auto turns = read_user_turns(directory.path("mt.jsonl"));
  ASSERT_TRUE(turns.ok()) << turns.status().to_string();
  EXPECT_THAT(*turns, ElementsAre("Write.", "Write."));
  for (const char* bad : {R"({"turns":[]})", R"({"turns":"Write."})", R"({"turns":[1]})"}) {
    directory.write("mt.jsonl", bad);
    EXPECT_THAT(read_user_turns(directory.path("mt.jsonl")).status().message(),
                HasSubstr("mt.jsonl:1: no list \"turns\""))
        << bad;
  }
}

TEST(PromptSets, WikitextIsCutAtItsArticles) {
  TestDirectory directory;
  const std::string body(300, 'b');
  directory.write("wiki.txt", " \n = One = \n" + body + "\n = = Part = = \nmore\n = Two = \n" +
                                  body + "\n = Short = \nlittle\n");
  const auto articles = read_wikitext(directory.path("wiki.txt"));
  ASSERT_TRUE(articles.ok()) << articles.status().to_string();
  ASSERT_EQ(articles->size(), 2u);
  EXPECT_THAT(articles->at(0), StartsWith("= One ="));
  EXPECT_THAT(articles->at(0), HasSubstr("= = Part = ="));
  EXPECT_THAT(articles->at(1), StartsWith("= Two ="));
  directory.write("wiki.txt", "little");
  EXPECT_EQ(read_wikitext(directory.path("wiki.txt")).status().code(), StatusCode::kDataLoss);
  EXPECT_EQ(read_wikitext(directory.path("nowhere")).status().code(), StatusCode::kNotFound);
}

}  // namespace
}  // namespace outrider
