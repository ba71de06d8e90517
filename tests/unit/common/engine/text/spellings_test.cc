// Small tokenizers of every kind that a file can spell: ids and text equal those of Hugging Face
// (tests/golden/make_spelling_goldens.py), and so do those of the same tokenizer in a GGUF file.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <set>
#include <sstream>
#include <string>

#include "tests/unit/common/engine/text/gguf_of.h"
#include "tests/unit/common/engine/text/golden_texts.h"

namespace outrider {
namespace {

const Json& spellings() {
  static const Json kSpellings = Json::parse(read_whole(kGoldenText + "/spellings.json"));
  return kSpellings;
}

// Each byte alone and among letters, digits and spaces: not all of it is UTF-8.
std::vector<std::string> single_byte_lines() {
  std::vector<std::string> lines;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    lines.push_back(one + "\n");
    lines.push_back("a" + one + "b " + one + " 1" + one + one + "\n");
  }
  return lines;
}

std::vector<std::string> lines_of_text(const std::string& name) {
  if (name == "probes") return spellings()["probes"].get<std::vector<std::string>>();
  return name == "single-bytes" ? single_byte_lines() : lines_of(name);
}

// The case's changes to its vocabulary; in the model they are merged, and so are its tokens.
Json tokenizer_json(const Json& spelling) {
  Json json = spellings()["vocabularies"][spelling["vocabulary"].get<std::string>()];
  for (const auto& [key, value] : spelling["changes"].items()) {
    if (key != "model") {
      json[key] = value;
      continue;
    }
    for (const auto& [field, changed] : value.items()) {
      if (field == "vocab") {
        json["model"]["vocab"].update(changed);
      } else {
        json["model"][field] = changed;
      }
    }
  }
  return json;
}

// How many lines were compared.
std::size_t expect_equal(const Tokenizer& tokenizer, const Json& spelling) {
  std::size_t num_lines = 0;
  for (std::size_t i = 0; i < spelling["texts"].size(); ++i) {
    const std::string text = spelling["texts"][i];
    Sha256 ids_hash;
    Sha256 text_hash;
    for (const std::string& line : lines_of_text(text)) {
      const auto ids = tokenizer.encode(line, {.add_special_tokens = false, .parse_special = true});
      EXPECT_TRUE(ids.ok()) << ids.status().to_string();
      if (!ids.ok()) return num_lines;
      hash_ids(*ids, ids_hash);
      text_hash.update(*tokenizer.decode(*ids) + std::string(1, '\0'));
      ++num_lines;
    }
    const std::string remedy =
        "see make_spelling_goldens.py dump " + spelling["name"].get<std::string>() + " " + text;
    EXPECT_EQ(ids_hash.finish_hex().substr(0, 16), spelling["ids"][i].get<std::string>()) << remedy;
    EXPECT_EQ(text_hash.finish_hex().substr(0, 16), spelling["decoded"][i].get<std::string>())
        << remedy;
  }
  return num_lines;
}

// Another version may decode differently: the files name the versions, and the scripts require
// them.
TEST(Spellings, GoldensNameTheLibrariesThatMadeThem) {
  std::istringstream requirements(read_whole(kGoldenText + "/../requirements.txt"));
  std::set<std::string> pinned;
  for (std::string line; std::getline(requirements, line);) pinned.insert(line);
  ASSERT_TRUE(spellings()["made_with"].contains("tokenizers"));
  for (const auto& [package, version] : spellings()["made_with"].items()) {
    EXPECT_TRUE(pinned.contains(package + "==" + version.get<std::string>()))
        << package << " " << version << " made spellings.json";
  }
  std::istringstream ids(read_whole(kGoldenText + "/ids.txt"));
  std::string made_with, package, version;
  ids >> made_with >> package >> version;
  EXPECT_EQ(made_with, "made-with");
  EXPECT_EQ(package, "tokenizers");
  EXPECT_TRUE(pinned.contains(package + "==" + version)) << version << " made ids.txt";
}

TEST(Spellings, OfEveryKindGiveTheIdsAndTextsOfHuggingFace) {
  std::size_t num_lines = 0;
  for (const Json& spelling : spellings()["cases"]) {
    const Result<Tokenizer> tokenizer = Tokenizer::load_json(tokenizer_json(spelling).dump());
    EXPECT_TRUE(tokenizer.ok()) << spelling["name"] << tokenizer.status().to_string();
    if (tokenizer.ok()) num_lines += expect_equal(*tokenizer, spelling);
  }
  std::printf("%zu cases, %zu lines\n", spellings()["cases"].size(), num_lines);
}

TEST(GgufTokenizer, OfEachWayToSplitGivesTheIdsOfItsFamily) {
  const std::string prefix = "gguf-";
  int compared = 0;
  for (const Json& spelling : spellings()["cases"]) {
    const std::string name = spelling["name"];
    if (!name.starts_with(prefix)) continue;
    const Json json = tokenizer_json(spelling);
    const Result<Tokenizer> tokenizer = load_gguf(gguf_of_json(json, name.substr(prefix.size())));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
    expect_equal(*tokenizer, spelling);
    EXPECT_EQ(tokenizer->content_hash(), Tokenizer::load_json(json.dump())->content_hash()) << name;
    ++compared;
  }
  EXPECT_EQ(compared, 5);
}

TEST(GgufTokenizer, OfSentencePiecesGivesTheIdsOfTheirTokenizerJson) {
  int compared = 0;
  for (const Json& spelling : spellings()["cases"]) {
    if (spelling["name"] != "pieces") continue;
    const Result<Tokenizer> tokenizer = load_gguf(gguf_of_pieces(spellings()["pieces"]));
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
    expect_equal(*tokenizer, spelling);
    EXPECT_EQ(tokenizer->content_hash(),
              Tokenizer::load_json(tokenizer_json(spelling).dump())->content_hash());
    ++compared;
  }
  EXPECT_EQ(compared, 1);
}

}  // namespace
}  // namespace outrider
