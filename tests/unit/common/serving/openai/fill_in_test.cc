// The prompts of texts between two others, for tokenizers with the marks of each known form.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/openai/fill_in.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/serving/openai/request_prompt.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Marks = std::vector<std::string>;

// The bytes of a text are its ids; the marks follow the two of chats.
constexpr TokenId kFirstMark = 256 + 7 + 2;

Tokenizer with_marks(const Marks& marks) {
  Json json = small_byte_level();
  Json mark = json["added_tokens"].back();
  for (const std::string& content : marks) {
    mark["id"] = mark["id"].get<int>() + 1;
    mark["content"] = content;
    json["added_tokens"].push_back(mark);
  }
  return load_or_die(json);
}

Result<EncodedPrompt> prompt_of(const Tokenizer& tokenizer, const std::string& fields) {
  const auto request = parse_completion("{" + fields + "}", Api::kCompletions, {});
  if (!request.ok()) return request.status();
  auto made = encode_request(tokenizer, *request, {});
  if (!made.ok()) return made.status();
  return std::move(made->prompts.front());
}

TEST(FillIn, EveryFormHasItsMarksInItsOwnOrder) {
  for (const Marks& marks : {Marks{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},
                             Marks{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},
                             Marks{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
                             Marks{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"}}) {
    const auto prompt = prompt_of(with_marks(marks), R"("prompt":"x","suffix":"yz")");
    ASSERT_TRUE(prompt.ok()) << marks[0] << prompt.status().to_string();
    EXPECT_THAT(prompt->ids,
                ElementsAre(kFirstMark, 'x', kFirstMark + 1, 'y', 'z', kFirstMark + 2));
    EXPECT_THAT(prompt->stop_ids, ElementsAre(kFirstMark, kFirstMark + 1, kFirstMark + 2));
  }
  const auto suffix_first =
      prompt_of(with_marks({"[SUFFIX]", "[PREFIX]"}), R"("prompt":"x","suffix":"yz")");
  ASSERT_TRUE(suffix_first.ok()) << suffix_first.status().to_string();
  EXPECT_THAT(suffix_first->ids, ElementsAre(kFirstMark, 'y', 'z', kFirstMark + 1, 'x'));
}

TEST(FillIn, MarksInTheTextsStayText) {
  const Tokenizer tokenizer = with_marks({"<fim_prefix>", "<fim_suffix>", "<fim_middle>"});
  const auto prompt = prompt_of(tokenizer, R"("prompt":"<fim_middle>","suffix":"<|im_end|>")");
  ASSERT_TRUE(prompt.ok()) << prompt.status().to_string();
  const auto specials =
      std::ranges::count_if(prompt->ids, [&](TokenId id) { return tokenizer.is_special(id); });
  EXPECT_EQ(specials, 3);
}

TEST(FillIn, APromptMayBeIdsAndAnEmptySuffixIsNone) {
  const Tokenizer tokenizer = with_marks({"<fim_prefix>", "<fim_suffix>", "<fim_middle>"});
  EXPECT_THAT(prompt_of(tokenizer, R"("prompt":[120,121],"suffix":"z")")->ids,
              ElementsAre(kFirstMark, 'x', 'y', kFirstMark + 1, 'z', kFirstMark + 2));
  EXPECT_THAT(prompt_of(tokenizer, R"("prompt":"x","suffix":"")")->ids, ElementsAre('x'));
}

TEST(FillIn, ATokenizerWithoutMarksRefusesAndSoDoesAnEcho) {
  const Tokenizer tokenizer = with_marks({"<fim_prefix>", "<fim_suffix>"});
  const Status refused = prompt_of(tokenizer, R"("prompt":"x","suffix":"z")").status();
  EXPECT_EQ(refused.code(), StatusCode::kUnimplemented);
  EXPECT_EQ(refused.detail().field, "suffix");
  EXPECT_THAT(refused.message(), HasSubstr("Remedy"));
  EXPECT_EQ(
      prompt_of(tokenizer, R"("prompt":"x","suffix":"z","echo":true)").status().detail().field,
      "echo");
  EXPECT_EQ(prompt_of(tokenizer, R"("prompt":"x","suffix":5)").status().detail().field, "suffix");
}

}  // namespace
}  // namespace outrider
