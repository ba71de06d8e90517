// GGUF files with missing, invalid or contradictory keys: each has a clear error.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/engine/text/gguf_of.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

using testing::HasSubstr;
using Types = std::vector<std::int32_t>;

std::string refusal(const GgufBuilder& builder) {
  return load_gguf(builder).status().to_string();
}

// A whole file, without the key that is set again.
struct GgufKeys {
  std::string model = "gpt2";
  std::string pre = "gpt-2";
  std::vector<std::string> tokens = {"a", "b", "ab", "</s>"};
  Types types = {1, 1, 1, 3};
  std::vector<std::string> merges = {"a b"};
  std::vector<float> scores = {0, 0, 0, 0};

  GgufBuilder build(std::string_view without = "") const {
    GgufBuilder builder;
    const auto is_wanted = [&](std::string_view key) { return key != without; };
    if (is_wanted("model")) builder.text("tokenizer.ggml.model", model);
    if (is_wanted("pre")) builder.text("tokenizer.ggml.pre", pre);
    if (is_wanted("tokens")) builder.texts("tokenizer.ggml.tokens", tokens);
    if (is_wanted("merges")) builder.texts("tokenizer.ggml.merges", merges);
    if (is_wanted("token_type")) {
      builder.numbers("tokenizer.ggml.token_type", GgufValueType::kInt32, types);
    }
    if (is_wanted("scores")) {
      builder.numbers("tokenizer.ggml.scores", GgufValueType::kFloat32, scores);
    }
    return builder;
  }
};

TEST(BadGgufTokenizer, WithoutAKeyThatItNeeds) {
  EXPECT_TRUE(load_gguf(GgufKeys().build()).ok()) << refusal(GgufKeys().build());
  EXPECT_EQ(load_gguf(GgufKeys().build("model")).status().code(), StatusCode::kNotFound);
  for (const char* key : {"tokens", "merges", "token_type"}) {
    EXPECT_THAT(refusal(GgufKeys().build(key)),
                HasSubstr(std::string("tokenizer.ggml.") + key + " is missing"));
  }
  EXPECT_THAT(refusal(GgufKeys{.model = "llama"}.build("scores")), HasSubstr("scores is missing"));
  EXPECT_THAT(refusal(GgufKeys{.model = "gemma4"}.build("merges")), HasSubstr("merges is missing"));
}

TEST(BadGgufTokenizer, OfAKindThatWeDoNotHave) {
  EXPECT_THAT(refusal(GgufKeys{.model = "bert"}.build()),
              HasSubstr("known are gpt2, llama, gemma4"));
  EXPECT_THAT(refusal(GgufKeys{.pre = "tekken\n"}.build()),
              HasSubstr("tokenizer.ggml.pre \"tekken?\" is not supported; known are smollm, "
                        "llama-bpe, qwen2, "));
  EXPECT_THAT(refusal(GgufKeys().build().flag("tokenizer.ggml.add_space_prefix", true)),
              HasSubstr("add_space_prefix"));
}

TEST(BadGgufTokenizer, WithArraysThatContradictEachOther) {
  EXPECT_THAT(refusal(GgufKeys{.types = {1, 1}}.build()),
              HasSubstr("token_type has 2 values, but tokenizer.ggml.tokens 4"));
  EXPECT_THAT(refusal(GgufKeys{.model = "llama", .scores = {1}}.build()),
              HasSubstr("scores has 1 values, but tokenizer.ggml.tokens 4"));
  EXPECT_THAT(refusal(GgufKeys{.tokens = {}, .types = {}}.build()), HasSubstr("0 tokens"));
  EXPECT_THAT(refusal(GgufKeys{.types = {1, 1, 1, 7}}.build()), HasSubstr("token_type[3] is 7"));
  EXPECT_THAT(refusal(GgufKeys{.types = {1, 1, -1, 1}}.build()), HasSubstr("token_type[2] is -1"));
}

TEST(BadGgufTokenizer, WithTokensOrMergesThatAreNone) {
  EXPECT_THAT(refusal(GgufKeys{.tokens = {"a", "b", "ab", "a"}}.build()),
              HasSubstr("appears twice"));
  EXPECT_THAT(refusal(GgufKeys{.tokens = {"a", "b", "ab", "\xff"}}.build()),
              HasSubstr("tokenizer.ggml.tokens[3]: not UTF-8"));
  EXPECT_THAT(refusal(GgufKeys{.tokens = {"a", "b", "ab", ""}}.build()), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal(GgufKeys{.merges = {"a b", "a c"}}.build()),
              HasSubstr("tokenizer.ggml.merges[1]: the token 'c' is not in the vocabulary"));
  EXPECT_THAT(refusal(GgufKeys{.merges = {"ab"}}.build()), HasSubstr("two tokens with one space"));
  // A merge of padding.
  EXPECT_THAT(refusal(GgufKeys{.types = {1, 1, 5, 3}}.build()), HasSubstr("'ab' is not in"));
  EXPECT_THAT(refusal(GgufKeys{.model = "llama", .scores = {0, 0, std::nanf(""), 0}}.build()),
              HasSubstr("piece 2: its score is not a number"));
}

TEST(BadGgufTokenizer, WithIdsOutOfRange) {
  for (const char* name : {"bos", "eos"}) {
    const std::string key = std::string("tokenizer.ggml.") + name + "_token_id";
    EXPECT_THAT(refusal(GgufKeys().build().u32(key, 4)), HasSubstr(key + " 4 has no token"));
    EXPECT_THAT(refusal(GgufKeys().build().value<std::int32_t>(key, GgufValueType::kInt32, -1)),
                HasSubstr(key + " -1 has no token"));
    EXPECT_THAT(refusal(GgufKeys().build().text(key, "a")), HasSubstr(key + " is of type string"));
  }
  // <unk> at an id of an unused piece.
  EXPECT_THAT(refusal(GgufKeys{.model = "llama", .types = {5, 1, 1, 3}}.build().u32(
                  "tokenizer.ggml.unknown_token_id", 0)),
              HasSubstr("unknown_token_id 0 has no token"));
}

TEST(GgufTokenizer, SaysThatItAssumesASplittingThatTheFileDoesNotName) {
  const Result<Tokenizer> named = load_gguf(GgufKeys().build());
  const Result<Tokenizer> unnamed = load_gguf(GgufKeys().build("pre"));
  ASSERT_TRUE(unnamed.ok()) << unnamed.status().to_string();
  EXPECT_EQ(named->assumed(), "");
  EXPECT_THAT(unnamed->assumed(), HasSubstr("tokenizer.ggml.pre is missing, so text is split by "
                                            "the rule 'default'"));
  EXPECT_EQ(unnamed->content_hash(), load_gguf(GgufKeys{.pre = "default"}.build())->content_hash());
}

// Works as SentencePiece does, except that merges are listed and no space is put before the text.
TEST(GgufTokenizer, Gemma4ListsItsMerges) {
  const GgufKeys keys{.model = "gemma4",
                      .tokens = {"a", "b", "ab", "</s>", "▁", "▁a"},
                      .types = {1, 1, 1, 3, 1, 1},
                      .merges = {"▁ a", "a b"}};
  const Result<Tokenizer> tokenizer = load_gguf(keys.build("scores"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  EXPECT_THAT(*tokenizer->encode("ab ab"), testing::ElementsAre(2, 5, 1));
  EXPECT_EQ(*tokenizer->decode(*tokenizer->encode("ab ab")), "ab ab");
}

TEST(GgufTokenizer, TakesTypesFlagsAndTemplates) {
  GgufBuilder builder = GgufKeys{.types = {1, 1, 4, 3}}.build();
  builder.u32("tokenizer.ggml.bos_token_id", 3)
      .flag("tokenizer.ggml.add_bos_token", true)
      .text("tokenizer.chat_template", "{{ x }}")
      .texts("tokenizer.chat_templates", {"tool_use"});
  EXPECT_THAT(refusal(builder), HasSubstr("tokenizer.chat_template.tool_use is missing"));
  builder.text("tokenizer.chat_template.tool_use", "{{ y }}");
  const Tokenizer tokenizer = *load_gguf(builder);
  EXPECT_EQ(tokenizer.bos(), 3);
  EXPECT_TRUE(tokenizer.is_special(3));
  EXPECT_FALSE(tokenizer.is_special(2));
  EXPECT_THAT(*tokenizer.encode("abba"), testing::ElementsAre(3, 2, 1, 0));
  EXPECT_EQ(tokenizer.chat_templates().at("default"), "{{ x }}");
  EXPECT_EQ(tokenizer.chat_templates().at("tool_use"), "{{ y }}");
}

}  // namespace
}  // namespace outrider
