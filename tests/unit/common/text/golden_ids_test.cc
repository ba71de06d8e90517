// Ids equal those of Hugging Face tokenizers, line by line, on books, encyclopaedia, code, emoji,
// ten scripts and every Unicode character (tests/golden/make_text_goldens.py), and come back as
// the text they were made of.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unicode/uchar.h>

#include <bit>

#include "common/base/sha256.h"
#include "common/text/pipeline/unicode.h"
#include "common/text/pipeline/utf8.h"
#include "tests/unit/common/text/family_tokenizers.h"

namespace outrider {
namespace {

constexpr std::size_t kBlock = 500;  // lines per hash in ids.txt

// Whether Unicode 14, which PCRE2 knows, has a character for that code.
bool is_assigned(UChar32 code) {
  UVersionInfo age;
  u_charAge(code, age);
  return age[0] <= 14 && (U_GET_GC_MASK(code) & (U_GC_CN_MASK | U_GC_CO_MASK | U_GC_CS_MASK)) == 0;
}

// Every assigned character but the line end between letters, digits and spaces, 16 to a line.
std::vector<std::string> code_point_lines() {
  std::vector<std::string> lines;
  int in_line = 16;
  for (UChar32 code = 0; code < 0x110000; ++code) {
    if (!is_assigned(code) || code == '\n') continue;
    if (in_line == 16) {
      lines.emplace_back();
      in_line = 0;
    }
    std::string c;
    append_utf8(static_cast<char32_t>(code), c);
    lines.back() += "a" + c + "b " + c + " 1" + c + c + "'" + c;
    ++in_line;
  }
  for (std::string& line : lines) line += '\n';
  return lines;
}

std::vector<std::string> lines_of(const std::string& name) {
  if (name == "code-points") return code_point_lines();
  const std::string own = kGoldenText + "/" + name;
  const std::string text =
      read_whole(std::filesystem::exists(own) ? own : kSharedData + "/prompts/" + name);
  std::vector<std::string> lines(1);
  for (const char c : text) {
    lines.back() += c;
    if (c == '\n') lines.emplace_back();
  }
  lines.back() += '\n';
  return lines;
}

void hash_ids(const std::vector<TokenId>& ids, Sha256& hash) {
  static_assert(std::endian::native == std::endian::little);
  const TokenId end = -1;
  hash.update({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof(TokenId)});
  hash.update({reinterpret_cast<const char*>(&end), sizeof(end)});
}

struct Comparison {
  std::size_t num_lines = 0;
  std::size_t differing_lines = 0;  // lines of the blocks that differ
  std::string differing_blocks;
  std::size_t broken_round_trips = 0;
};

// What decoding must give. Of SentencePiece's families nothing can tell a U+2581 of the text from
// a space, nor, in the newer form, a text that starts with a space from one that does not: Hugging
// Face gives the same.
std::string after_round_trip(const std::string& family, const std::string& line) {
  if (family == "qwen2") return *to_unicode_form(line, UnicodeForm::kNfc);
  if (!family.starts_with("llama2")) return line;
  std::string out;
  for (std::size_t at = 0; at < line.size(); at += utf8_length(line[at])) {
    const std::string c = line.substr(at, utf8_length(line[at]));
    out += c == "\u2581" ? " " : c;
  }
  return family == "llama2-metaspace" && out.starts_with(' ') ? out.substr(1) : out;
}

Comparison compare(const Tokenizer& tokenizer, const std::string& family, const std::string& text,
                   std::istream& expected) {
  const std::vector<std::string> lines = lines_of(text);
  Comparison result;
  result.num_lines = lines.size();
  for (std::size_t first = 0; first < lines.size(); first += kBlock) {
    const std::size_t end = std::min(first + kBlock, lines.size());
    Sha256 hash;
    for (std::size_t i = first; i < end; ++i) {
      const std::vector<TokenId> ids = *tokenizer.encode(lines[i]);
      hash_ids(ids, hash);
      if (*tokenizer.decode(ids) != after_round_trip(family, lines[i])) ++result.broken_round_trips;
    }
    std::string golden;
    expected >> golden;
    if (hash.finish_hex().substr(0, 16) != golden) {
      result.differing_lines += end - first;
      result.differing_blocks.append(" ").append(std::to_string(first));
    }
  }
  return result;
}

class GoldenIds : public testing::TestWithParam<const char*> {};

TEST_P(GoldenIds, EqualThoseOfHuggingFaceAndTurnBackIntoTheText) {
  const std::string family = GetParam();
  const std::optional<Tokenizer> tokenizer = family_tokenizer(family);
  if (!tokenizer) GTEST_SKIP() << "needs " << kSharedData;
  std::istringstream golden(read_whole(kGoldenText + "/ids.txt"));
  int num_texts = 0;
  for (std::string line; std::getline(golden, line);) {
    std::istringstream fields(line);
    std::string of_family;
    std::string text;
    fields >> of_family >> text;
    if (of_family != family) continue;
    const Comparison result = compare(*tokenizer, family, text, fields);
    std::printf("%-17s %-28s %6zu lines, %zu differing, %zu broken round trips\n", family.c_str(),
                text.c_str(), result.num_lines, result.differing_lines, result.broken_round_trips);
    EXPECT_EQ(result.differing_lines, 0u)
        << "blocks from line" << result.differing_blocks << "; see make_text_goldens.py dump "
        << family << " " << text;
    EXPECT_EQ(result.broken_round_trips, 0u);
    ++num_texts;
  }
  EXPECT_EQ(num_texts, 8);
}

INSTANTIATE_TEST_SUITE_P(Families, GoldenIds,
                         testing::Values("gpt2", "qwen2", "llama3", "llama2", "llama2-metaspace"));

TEST(ContentHash, IsTheSameForTokenizerModelAndItsTokenizerJson) {
  const std::optional<Tokenizer> model = family_tokenizer("llama2");
  if (!model) GTEST_SKIP() << "needs " << kSharedData;
  const Result<Tokenizer> json = Tokenizer::load_json(llama2_json(/*metaspace=*/false).dump());
  EXPECT_EQ(model->content_hash(), json->content_hash());
  EXPECT_NE(model->content_hash(), family_tokenizer("llama2-metaspace")->content_hash());
}

}  // namespace
}  // namespace outrider
