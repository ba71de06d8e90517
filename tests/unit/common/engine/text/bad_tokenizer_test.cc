// Malicious files and texts: each has a clear error, and none takes long.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/engine/text/pipeline/split_pattern.h"
#include "common/engine/text/tokenizer.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

using testing::HasSubstr;

std::string error_of(const std::string& json, const std::string& config = "") {
  return Tokenizer::load_json(json, config).status().to_string();
}

std::string error_of(const Json& json) {
  return error_of(json.dump());
}

Json split_by(const std::string& pattern) {
  Json json = small_byte_level();
  json["pre_tokenizer"] = Json::parse(R"({"type": "Sequence", "pretokenizers": [
      {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {}},
      {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}]})");
  json["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = pattern;
  return json;
}

TEST(BadTokenizerJson, ThatIsNoJsonOrTooDeep) {
  EXPECT_THAT(error_of(std::string()), HasSubstr("empty"));
  EXPECT_THAT(error_of(std::string("{\"model\": ")), HasSubstr("not valid JSON"));
  EXPECT_THAT(error_of(std::string(100'000, '[')), HasSubstr("nested deeper than"));
  EXPECT_THAT(error_of(std::string("[]")), HasSubstr("object expected"));
  EXPECT_THAT(error_of(std::string("{}")), HasSubstr("decoder"));
  EXPECT_THAT(error_of(small_byte_level().dump(), "{"), HasSubstr("tokenizer_config.json"));
}

TEST(BadTokenizerJson, WithMergesOfUnknownTokens) {
  Json json = small_byte_level();
  json["model"]["merges"][2] = {"he", "never"};
  EXPECT_THAT(error_of(json), HasSubstr("model.merges[2]: the token 'never' is not in the voc"));
  json["model"]["merges"][2] = {"hello", "hello"};  // longer than any token
  EXPECT_THAT(error_of(json), HasSubstr("'hellohello' is not in the vocabulary"));
  for (const Json& merge : {Json("one"), Json("a b c"), Json(3), Json({"a"}), Json({1, 2})}) {
    json["model"]["merges"][2] = merge;
    EXPECT_THAT(error_of(json), HasSubstr("model.merges[2]: two tokens"));
  }
}

TEST(BadTokenizerJson, WithIdsOutOfRangeOrTwice) {
  for (const Json& id : {Json(-1), Json(2147483647), Json(5'000'000'000), Json(100'000)}) {
    Json json = small_byte_level();
    json["model"]["vocab"]["zz"] = id;
    EXPECT_THAT(error_of(json), HasSubstr("model.vocab['zz']: id " + id.dump()));
    json = small_byte_level();
    json["added_tokens"][0]["id"] = id;
    EXPECT_THAT(error_of(json), HasSubstr("added_tokens[0].id: id " + id.dump()));
  }
  Json json = small_byte_level();
  json["model"]["vocab"]["zz"] = 97;
  EXPECT_THAT(error_of(json), HasSubstr("id 97 is also that of"));
  json["model"]["vocab"]["zz"] = 1.5;
  EXPECT_THAT(error_of(json), HasSubstr("a token id expected"));
  json = small_byte_level();
  json["added_tokens"][0]["id"] = 97;
  EXPECT_THAT(error_of(json), HasSubstr("contradicts the vocabulary"));
  json["added_tokens"][0]["id"] = json["added_tokens"][1]["id"];
  EXPECT_THAT(error_of(json), HasSubstr("appears twice"));
}

TEST(BadTokenizerJson, WithAFeatureWeDoNotHave) {
  const auto with = [](const char* key, const Json& value) {
    Json json = small_byte_level();
    json[Json::json_pointer(key)] = value;
    return error_of(json);
  };
  EXPECT_THAT(with("/model/type", "Unigram"), HasSubstr("model.type 'Unigram'"));
  EXPECT_THAT(with("/model/dropout", 0.1), HasSubstr("model.dropout"));
  EXPECT_THAT(with("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(with("/model/novelty", 1), HasSubstr("model.novelty: not supported"));
  EXPECT_THAT(with("/novelty", 1), HasSubstr("novelty: not supported"));
  EXPECT_THAT(with("/normalizer", {{"type", "Nmt"}}), HasSubstr("normalizer: type 'Nmt'"));
  EXPECT_THAT(with("/pre_tokenizer", {{"type", "BertPreTokenizer"}}), HasSubstr("'BertPreTok"));
  EXPECT_THAT(with("/decoder", {{"type", "CTC"}}), HasSubstr("decoder: type 'CTC'"));
  EXPECT_THAT(with("/decoder", nullptr), HasSubstr("decoder: missing"));
  EXPECT_THAT(with("/post_processor", {{"type", "BertProcessing"}}), HasSubstr("'BertProc"));
  EXPECT_THAT(with("/pre_tokenizer", 7), HasSubstr("pre_tokenizer.type: a text expected"));
}

TEST(BadTokenizerJson, WithStepsThatMakeTooMuchOfAText) {
  Json json = small_byte_level();
  const Json twice = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaa"}};
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json::array()}};
  for (int i = 0; i < 40; ++i) json["normalizer"]["normalizers"].push_back(twice);
  EXPECT_EQ(load_or_die(json).encode("a").status().code(), StatusCode::kResourceExhausted);
  for (int i = 0; i < 40; ++i) json["normalizer"]["normalizers"].push_back(twice);
  EXPECT_THAT(error_of(json), HasSubstr("more than 64 steps"));
}

TEST(BadTokenizerJson, WithASpellingThatNoLibraryHas) {
  const auto with = [](const Json& step) {
    Json json = small_byte_level();
    json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {step}}};
    return error_of(json);
  };
  const Json space = {{"String", " "}};
  EXPECT_THAT(with({{"type", "Split"}, {"pattern", space}, {"behavior", "Mixed"}}),
              HasSubstr("behavior 'Mixed' is not supported; known are Removed, Isolated"));
  EXPECT_THAT(with({{"type", "Split"}, {"behavior", "Removed"}}), HasSubstr("pattern"));
  EXPECT_THAT(with({{"type", "Split"}, {"pattern", {{"String", ""}}}}),
              HasSubstr("matches the empty text"));
  EXPECT_THAT(with({{"type", "Digits"}, {"individual_digits", 1}}), HasSubstr("true or false"));
  EXPECT_THAT(with({{"type", "Punctuation"}, {"invert", true}}), HasSubstr("invert"));
  EXPECT_THAT(with({{"type", "Metaspace"}, {"replacement", "ab"}}), HasSubstr("one character"));
  EXPECT_THAT(with({{"type", "Metaspace"}, {"replacement", "a"}, {"prepend_scheme", "last"}}),
              HasSubstr("known are always, first, never"));
  EXPECT_THAT(with({{"type", "Metaspace"},
                    {"replacement", "a"},
                    {"add_prefix_space", false},
                    {"prepend_scheme", "first"}}),
              HasSubstr("contradicts"));
}

TEST(BadTokenizerJson, WithTemplateIdsThatHaveNoToken) {
  Json json = small_byte_level();
  json["post_processor"] = Json::parse(R"({"type": "TemplateProcessing", "pair": [],
      "single": [{"SpecialToken": {"id": "S"}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"S": {"id": "S", "ids": [400]}}})");
  EXPECT_THAT(error_of(json), HasSubstr("id 400 has no token"));
  json["post_processor"]["special_tokens"]["S"]["ids"] = {-5};
  EXPECT_THAT(error_of(json), HasSubstr("id -5 is out of range"));
  json["post_processor"]["special_tokens"] = Json::object();
  EXPECT_THAT(error_of(json), HasSubstr("special_tokens.S"));
}

TEST(SplitPattern, RefusesSyntaxThatTheEnginesReadDifferently) {
  for (const char* pattern : {"a{2}+", "[a[b]]", "[a&&b]", "\\w+", "\\h", "(?m:a)", "(*FAIL)a",
                              "(?R)", "(a)\\1", "a*", "\\Ka"}) {
    EXPECT_EQ(SplitPattern::compile(pattern).status().code(), StatusCode::kUnimplemented)
        << pattern;
  }
  for (const char* pattern : {"(a", "[a", "a**b", "\\p{Nonsense}", "a\\"}) {
    EXPECT_FALSE(SplitPattern::compile(pattern).ok()) << pattern;
  }
}

// Each needs exponential time to find that nothing matches, unless steps are bounded.
TEST(SplitPattern, BoundsTheStepsOfAHostilePattern) {
  for (const char* pattern : {"(a+)+$", "(a|aa)+[!]$", "(a|a?)+[b!]x?$"}) {
    const Result<Tokenizer> tokenizer = Tokenizer::load_json(split_by(pattern).dump());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
    const Status status = tokenizer->encode(std::string(100'000, 'a') + "!?").status();
    EXPECT_EQ(status.to_string().substr(0, 18), "RESOURCE_EXHAUSTED") << pattern;
  }
}

// The budget of one piece is not available to every piece.
TEST(SplitPattern, BoundsTheStepsOfAllPiecesTogether) {
  Json json = split_by("[a-z]{14}");
  json["pre_tokenizer"]["pretokenizers"].insert(json["pre_tokenizer"]["pretokenizers"].begin() + 1,
                                                json["pre_tokenizer"]["pretokenizers"][0]);
  json["pre_tokenizer"]["pretokenizers"][1]["pattern"]["Regex"] = "(a+)+[b-d]";
  const Result<Tokenizer> tokenizer = Tokenizer::load_json(json.dump());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  EXPECT_EQ(tokenizer->encode(std::string(140'000, 'a')).status().code(),
            StatusCode::kResourceExhausted);
}

// Each is one unbroken run of that length; quadratic time would take hours.
TEST(HostileText, OfAMillionCharactersWithoutABreakIsEncoded) {
  const std::size_t size = 1'000'000;
  for (const Json& json : {small_byte_level(), small_sentencepiece(), small_metaspace()}) {
    const Tokenizer tokenizer = load_or_die(json);
    for (const char* unit : {"^", "a", "ab", " ", "\n", "😀"}) {
      std::string text;
      while (text.size() < size) text += unit;
      const Result<std::vector<TokenId>> ids = tokenizer.encode(text);
      ASSERT_TRUE(ids.ok()) << ids.status().to_string();
      // Metaspace alone does not join bytes again.
      if (json["decoder"]["type"] == "Metaspace") continue;
      EXPECT_TRUE(*tokenizer.decode(*ids) == text) << "a million of '" << unit << "'";
    }
  }
}

TEST(HostileText, BeyondTheLimitIsRefused) {
  const Tokenizer tokenizer = load_or_die(small_byte_level());
  const std::string text(Tokenizer::kMaxTextBytes + 1, 'a');
  EXPECT_EQ(tokenizer.encode(text).status().code(), StatusCode::kInvalidArgument);
}

TEST(BadSentencePieceModel, IsRefusedWhateverIsWrong) {
  const std::string piece(
      "\x0a\x0a\x0a\x01"
      "a\x15\0\0\0\0\x18\x01",
      12);                                       // "a", score 0, normal
  const std::string bpe("\x12\x02\x18\x02", 4);  // model_type 2
  EXPECT_FALSE(Tokenizer::load_sentencepiece("").ok());
  EXPECT_THAT(Tokenizer::load_sentencepiece(piece).status().message(), HasSubstr("model_type 1"));
  EXPECT_THAT(Tokenizer::load_sentencepiece(piece + bpe).status().message(),
              HasSubstr("bos_id 1 is out of range"));
  for (std::size_t cut = 1; cut < piece.size(); ++cut) {
    EXPECT_FALSE(Tokenizer::load_sentencepiece(piece.substr(0, cut)).ok());
  }
  // A length near 2^64, a group, a field number of 0, a varint without end.
  for (const std::string& bytes :
       {std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), std::string("\x0b\x0c"),
        std::string("\x02\x01"), std::string(20, '\xff')}) {
    EXPECT_THAT(Tokenizer::load_sentencepiece(bytes).status().message(), HasSubstr("damaged"));
  }
}

TEST(BadTokenizerFolder, NamesWhatIsMissingOrWrong) {
  const std::filesystem::path folder = testing::TempDir() + "outrider_bad_tokenizer";
  std::filesystem::remove_all(folder);
  EXPECT_EQ(Tokenizer::load(folder.string()).status().code(), StatusCode::kNotFound);
  std::filesystem::create_directory(folder);
  EXPECT_THAT(Tokenizer::load(folder.string()).status().message(),
              HasSubstr("there is no tokenizer"));
  EXPECT_THAT(Tokenizer::load(folder.string()).status().message(), HasSubstr("Remedy: name the"));
  std::ofstream(folder / "adapters.safetensors") << "exits";
  EXPECT_THAT(Tokenizer::load(folder.string()).status().message(), HasSubstr("exits of a target"));
  std::ofstream(folder / "layers.safetensors") << "layers";
  EXPECT_THAT(Tokenizer::load(folder.string()).status().message(),
              HasSubstr("outrider-train compose --target TARGET --layers " + folder.string()));
  std::ofstream(folder / "tokenizer.json").flush();
  EXPECT_THAT(Tokenizer::load(folder.string()).status().message(), HasSubstr("empty"));
  std::ofstream(folder / "tokenizer.json") << "version https://git-lfs.github.com/spec/v1\noid 0\n";
  EXPECT_THAT(Tokenizer::load(folder.string()).status().message(), HasSubstr("git lfs pull"));
  std::ofstream(folder / "tokenizer.json") << small_byte_level().dump();
  EXPECT_TRUE(Tokenizer::load(folder.string()).ok());
  std::ofstream(folder / "tokenizer_config.json") << R"({"added_tokens_decoder": {"-3": {}}})";
  EXPECT_THAT(Tokenizer::load(folder.string()).status().message(), HasSubstr("must be a token id"));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace outrider
