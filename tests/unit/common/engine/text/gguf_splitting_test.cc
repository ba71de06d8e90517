// The pieces of short texts by each name in tokenizer.ggml.pre. The expected ones are those of
// Hugging Face's library with the pre-tokenizers in the families' own tokenizer.json.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/format/gguf_splitting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "common/engine/text/pipeline/byte_level.h"

namespace outrider {
namespace {

using testing::HasSubstr;

const std::array<const char*, 3> kTexts = {"I'LL pay $12,345.67!!  ok\n\nमैं e\u0301x",
                                           "x=1234; y²=м", "「日本語」 1२ Καλημέρα  \t"};

struct Expected {
  const char* name;
  std::array<const char*, 3> pieces;  // joined by bars
};

std::string split(const std::string& name, const std::string& text) {
  TokenizerParts parts;
  EXPECT_TRUE(set_gguf_splitting(name, parts).ok()) << name;
  const Pieces pieces =
      *parts.pre_tokenizer.apply(*parts.normalizer.apply(text), /*at_start=*/true);
  std::string joined;
  for (const Span& span : pieces.spans) {
    if (!joined.empty()) joined += "|";
    joined += *bytes_of_characters(
        std::string_view(pieces.text).substr(span.begin, span.end - span.begin));
  }
  return joined;
}

TEST(GgufSplitting, CutsTextAsTheFamiliesOwnFilesSay) {
  const std::vector<Expected> all = {
      {"smollm",
       {"I|'|LL| pay| $|1|2|,|3|4|5|.|6|7|!!| | ok|\n|\n|म|ैं| e|\u0301|x", "x|=|1|2|3|4|;| y|²|=|м",
        "「|日本語|」| |1|२| Καλημέρα|  \t"}},
      {"llama-bpe",
       {"I|'LL| pay| $|12|,|345|.|67|!!| | ok|\n\n|म|ैं| e|\u0301x", "x|=|123|4|;| y|²|=м",
        "「日本語|」| |1२| Καλημέρα|  \t"}},
      {"qwen2",
       {"I|'LL| pay| $|1|2|,|3|4|5|.|6|7|!!| | ok|\n\n|म|ैं| éx", "x|=|1|2|3|4|;| y|²|=м",
        "「日本語|」| |1|२| Καλημέρα|  \t"}},
      {"qwen35",
       {"I|'LL| pay| $|1|2|,|3|4|5|.|6|7|!!| | ok|\n\n|मैं| e\u0301x", "x|=|1|2|3|4|;| y|²|=м",
        "「日本語|」| |1|२| Καλημέρα|  \t"}},
      {"gpt-2",
       {"I|'|LL| pay| $|12|,|345|.|67|!!| | ok|\n|\n|म|ैं| e|\u0301|x", "x|=|1234|;| y|²|=|м",
        "「|日本語|」| 1२| Καλημέρα|  \t"}},
      {"mpt",
       {"I|'|LL| pay| $|12|,|345|.|67|!!| | ok|\n|\n|म|ैं| éx", "x|=|1234|;| y|²|=|м",
        "「|日本語|」| 1२| Καλημέρα|  \t"}},
      {"starcoder",
       {"I|'|LL| pay| $|1|2|,|3|4|5|.|6|7|!!| | ok|\n|\n|म|ैं| e|\u0301|x", "x|=|1|2|3|4|;| y|²|=|м",
        "「|日本語|」| |1|२| Καλημέρα|  \t"}},
      {"refact",
       {"I|'|LL| pay| $|1|2|,|3|4|5|.|6|7|!!| | ok|\n|\n|म|ैं| e|\u0301|x", "x|=|1|2|3|4|;| y|²|=|м",
        "「|日本語|」| |1|२| Καλημέρα|  \t"}},
      {"command-r",
       {"I|'|LL| pay| $|1|2|,|3|4|5|.|6|7|!!| | ok|\n|\n|म|ैं| éx", "x|=|1|2|3|4|;| y|²|=|м",
        "「|日本語|」| |1|२| Καλημέρα|  \t"}},
      {"falcon",
       {"I|'|LL| pay| |$|12|,|345|.|67|!!| | ok|\n|\n|म|ैं| e|\u0301|x",
        "x|=|123|4|;| y|\xC2|\xB2|=|\xD0|\xBC", "「|日本語|」| |1|२| Καλη\xCE|\xBC|έρα|  \t"}},
      {"deepseek-llm",
       {"I|'|LL| pay| $|1|2|,|3|4|5|.|6|7|!!| | ok|\n|\n|मैं| e|\u0301|x", "x|=|1|2|3|4|;| y|²|=|м",
        "「日本語」| |1|२| Καλημέρα|  \t"}},
      {"deepseek-coder",
       {"I|'|LL| pay| $|1|2|,|3|4|5|.|6|7|!!| | ok|\n|\n|म|ैं| e|\u0301|x", "x|=|1|2|3|4|;| y|²|=|м",
        "「|日本語|」| |1|२| Καλημέρα|  \t"}},
  };
  for (const Expected& expected : all) {
    for (std::size_t i = 0; i < kTexts.size(); ++i) {
      EXPECT_EQ(split(expected.name, kTexts[i]), expected.pieces[i]) << expected.name;
    }
  }
}

// The rule is the one by which llama.cpp splits for files that name none.
TEST(GgufSplitting, HasARuleForFilesThatNameNone) {
  const std::string name(kDefaultGgufSplitting);
  EXPECT_EQ(split(name, "x=1234; y"), "x|=|123|4|;| y");
  EXPECT_EQ(split(name, "($5)"), "($|5|)");
  EXPECT_FALSE(gguf_adds_bos(name));
}

TEST(GgufSplitting, NamesWhatItKnows) {
  TokenizerParts parts;
  EXPECT_THAT(set_gguf_splitting("tekken\n", parts).to_string(),
              HasSubstr("tokenizer.ggml.pre \"tekken?\" is not supported; known are smollm"));
  EXPECT_TRUE(gguf_adds_bos("llama-bpe"));
  EXPECT_FALSE(gguf_adds_bos("tekken"));
}

}  // namespace
}  // namespace outrider
