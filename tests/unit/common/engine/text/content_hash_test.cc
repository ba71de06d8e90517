// One tokenizer has one hash, for every spelling of its file. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "common/engine/text/tokenizer.h"
#include "tests/unit/common/engine/text/gguf_of.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

std::string hash_of(const Json& json) {
  return load_or_die(json).content_hash();
}

TEST(ContentHash, DependsOnContentOnly) {
  const Json json = small_byte_level();
  const std::string hash = load_or_die(json).content_hash();
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(Tokenizer::load_json(json.dump(4))->content_hash(), hash);
  Json changed = json;
  changed["post_processor"] = {{"type", "ByteLevel"}};
  changed["padding"] = {{"any", 1}};
  EXPECT_EQ(load_or_die(changed).content_hash(), hash);
  const auto differs = [&](const char* key, const Json& value) {
    Json other = json;
    other[Json::json_pointer(key)] = value;
    EXPECT_NE(load_or_die(other).content_hash(), hash) << key;
  };
  differs("/model/vocab/zz", 265);
  differs("/model/merges/0", {"l", "l"});
  differs("/model/ignore_merges", true);
  differs("/normalizer", {{"type", "NFC"}});
  differs("/pre_tokenizer/add_prefix_space", true);
  differs("/added_tokens/0/content", "<|other|>");
  differs("/added_tokens/0/lstrip", true);
}

Json pre_tokenized(const char* steps) {
  Json json = small_byte_level();
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", Json::parse(steps)}};
  return json;
}

TEST(ContentHash, IsThatOfTheBehaviourNotOfItsSpelling) {
  const std::string gpt2 =
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+)";
  const std::string bytes =
      R"({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false})";
  const std::string hash = hash_of(small_byte_level());
  for (const char* how :
       {R"("behavior": "Isolated", "invert": false)", R"("behavior": "Isolated", "invert": true)",
        R"("behavior": "Removed", "invert": true)"}) {
    const std::string split =
        R"([{"type": "Split", "pattern": {"Regex": ")" + gpt2 + "\"}, " + how + "}, " + bytes + "]";
    EXPECT_EQ(hash_of(pre_tokenized(split.c_str())), hash) << how;
  }
  EXPECT_EQ(hash_of(pre_tokenized(
                R"([{"type": "Digits", "individual_digits": false}, {"type": "ByteLevel"}])")),
            hash_of(pre_tokenized(
                R"([{"type": "Split", "pattern": {"Regex": "\\p{N}+"}, "behavior": "Isolated"},
                    {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}]}])")));
  EXPECT_NE(hash_of(pre_tokenized(R"([{"type": "Digits"}, {"type": "ByteLevel"}])")),
            hash_of(pre_tokenized(R"([{"type": "ByteLevel"}])")));
}

TEST(ContentHash, LeavesOutWhatMakesNoDifference) {
  Json json = small_byte_level();
  const std::string hash = hash_of(json);
  json["model"]["unk_token"] = "a";  // no character is unknown
  json["model"]["byte_fallback"] = true;
  json["added_tokens"][0]["special"] = false;  // the meaning is the same
  json["added_tokens"][1]["normalized"] = true;
  EXPECT_EQ(hash_of(json), hash);
  json["model"]["vocab"].erase("z");
  Json dropped = json;
  dropped["model"].erase("unk_token");
  EXPECT_NE(hash_of(json), hash_of(dropped));
}

TEST(ContentHash, IsTheSameForGgufWithPaddingAndOtherTypes) {
  Json json = small_byte_level();
  const std::string hash = hash_of(json);
  EXPECT_EQ(load_gguf(gguf_of_json(json, "gpt-2"))->content_hash(), hash);
  EXPECT_NE(load_gguf(gguf_of_json(json, "smollm"))->content_hash(), hash);
  json["added_tokens"].push_back({{"id", 265}, {"content", "[PAD265]"}, {"special", false}});
  const Tokenizer padded = *load_gguf(gguf_of_json(json, "gpt-2"));
  EXPECT_EQ(padded.content_hash(), hash);
  EXPECT_EQ(padded.find("[PAD265]"), std::nullopt);
}

TEST(ContentHash, IsThatOfATokenizerAloneBesideOtherWeights) {
  const Json json = small_byte_level();
  const std::filesystem::path directory = std::filesystem::path(testing::TempDir()) / "composed";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "model.safetensors") << "weights";
  EXPECT_EQ(Tokenizer::load(directory.string()).status().code(), StatusCode::kNotFound);
  std::ofstream(directory / "tokenizer.gguf", std::ios::binary)
      << gguf_of_json(json, "gpt-2").build();
  const Result<Tokenizer> loaded = Tokenizer::load(directory.string());
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->content_hash(), hash_of(json));
}

}  // namespace
}  // namespace outrider
