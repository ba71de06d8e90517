// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/pre_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/engine/text/format/tokenizer_json.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> cut(const PreTokenizer& pre_tokenizer, const std::string& text,
                             bool at_start = true) {
  const Pieces pieces = *pre_tokenizer.apply(text, at_start);
  std::vector<std::string> out;
  for (const Span& span : pieces.spans) {
    out.push_back(pieces.text.substr(span.begin, span.end - span.begin));
  }
  return out;
}

PreTokenizer parse(const char* text) {
  const Json json = Json::parse(text);
  return *parse_pre_tokenizer({json, "pre_tokenizer"});
}

std::vector<std::string> split(SplitBehavior behavior, bool invert, const std::string& text) {
  return cut(PreTokenizer({SplitStep{*SplitPattern::literal("-"), behavior, invert}}), text);
}

TEST(PreTokenizer, CutsWithEachBehaviour) {
  const std::string text = "the-final--countdown";
  EXPECT_THAT(split(SplitBehavior::kRemoved, false, text),
              ElementsAre("the", "final", "countdown"));
  EXPECT_THAT(split(SplitBehavior::kIsolated, false, text),
              ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithPrevious, false, text),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithNext, false, text),
              ElementsAre("the", "-final", "-", "-countdown"));
  EXPECT_THAT(split(SplitBehavior::kContiguous, false, text),
              ElementsAre("the", "-", "final", "--", "countdown"));
}

TEST(PreTokenizer, SwapsMatchesAndTheTextBetween) {
  const std::string text = "a-b--";
  EXPECT_THAT(split(SplitBehavior::kRemoved, true, text), ElementsAre("-", "-", "-"));
  EXPECT_THAT(split(SplitBehavior::kIsolated, true, text), ElementsAre("a", "-", "b", "-", "-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithPrevious, true, text),
              ElementsAre("a", "-b", "-", "-"));
  EXPECT_THAT(split(SplitBehavior::kMergedWithNext, true, text), ElementsAre("a-", "b-", "-"));
  EXPECT_THAT(split(SplitBehavior::kContiguous, true, text), ElementsAre("a", "-", "b", "--"));
}

TEST(PreTokenizer, LaterStepsNeverJoinWhatEarlierOnesCut) {
  const PreTokenizer pre_tokenizer({
      SplitStep{*SplitPattern::literal("b")},
      SplitStep{*SplitPattern::literal("-"), SplitBehavior::kMergedWithPrevious},
  });
  EXPECT_THAT(cut(pre_tokenizer, "ab-c"), ElementsAre("a", "b", "-", "c"));
}

TEST(PreTokenizer, CutsDigitsOneByOneOrInRuns) {
  const std::string text = "a12\u0663 \u216b4";
  EXPECT_THAT(cut(parse(R"({"type": "Digits", "individual_digits": true})"), text),
              ElementsAre("a", "1", "2", "\u0663", " ", "\u216b", "4"));
  EXPECT_THAT(cut(parse(R"({"type": "Digits", "individual_digits": false})"), text),
              ElementsAre("a", "12\u0663", " ", "\u216b4"));
}

TEST(PreTokenizer, MarksSpacesAsEachSchemeSays) {
  const auto metaspace = [](const std::string& more) {
    return parse((R"({"type": "Metaspace", "replacement": "_")" + more + "}").c_str());
  };
  const PreTokenizer first = metaspace(R"(, "prepend_scheme": "first")");
  EXPECT_THAT(cut(metaspace(""), "a  b"), ElementsAre("_a", "_", "_b"));
  EXPECT_THAT(cut(metaspace(R"(, "split": false)"), " a b"), ElementsAre("_a_b"));
  EXPECT_THAT(cut(metaspace(R"(, "add_prefix_space": false)"), "a b"), ElementsAre("a", "_b"));
  EXPECT_THAT(cut(first, "a b"), ElementsAre("_a", "_b"));
  EXPECT_THAT(cut(first, "a b", /*at_start=*/false), ElementsAre("a", "_b"));
  EXPECT_THAT(cut(metaspace(""), ""), IsEmpty());
}

// Whether text is at the start depends on its original place, not on what a cut has removed.
TEST(PreTokenizer, KnowsTheStartOfTheTextAfterACut) {
  const SpaceStep first{.marker = "_", .prepend = SpaceStep::Prepend::kFirst};
  const SplitStep removed{*SplitPattern::literal("-"), SplitBehavior::kRemoved};
  EXPECT_THAT(cut(PreTokenizer({removed, first}), "a-b"), ElementsAre("_a", "b"));
  EXPECT_THAT(cut(PreTokenizer({removed, first}), "-a-b"), ElementsAre("a", "b"));
}

TEST(PreTokenizer, WritesBytesInGpt2sAlphabet) {
  const PreTokenizer pre_tokenizer = parse(
      R"({"type": "Sequence", "pretokenizers": [{"type": "ByteLevel", "use_regex": false},
          {"type": "Split", "pattern": {"String": "Ġ"}, "behavior": "MergedWithNext"}]})");
  EXPECT_THAT(cut(pre_tokenizer, "a é"), ElementsAre("Ġa", "ĠÃ©"));
  EXPECT_TRUE(pre_tokenizer.makes_byte_characters());
}

}  // namespace
}  // namespace outrider
