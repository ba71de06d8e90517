// Compares the tokens that a grammar allows with plain definitions of it.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "common/engine/constraint/grammar.h"
#include "common/engine/text/pipeline/utf8.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

using Ids = std::vector<TokenId>;

std::shared_ptr<const Constraint> compiled(const ConstraintSpec& spec,
                                           const std::vector<std::string>& pieces) {
  const GrammarVocabulary vocabulary(pieces);
  const auto masks = compute_masks(spec, vocabulary);
  EXPECT_TRUE(masks.ok()) << masks.status().to_string() << "\n" << spec.text;
  if (!masks.ok()) return nullptr;
  auto constraint = compile_grammar(spec, vocabulary, *masks);
  EXPECT_TRUE(constraint.ok()) << constraint.status().to_string() << "\n" << spec.text;
  return constraint.ok() ? *std::move(constraint) : nullptr;
}

std::string text_of(const Ids& ids, const std::vector<std::string>& pieces) {
  std::string text;
  for (const TokenId id : ids) text += pieces[static_cast<std::size_t>(id)];
  return text;
}

// Holds a mask against what fits behind the text, and gives the tokens that do.
template <class Fits>
Ids expect_exactly(const AllowedTokens& allowed, const std::string& text,
                   const std::vector<std::string>& pieces, const Fits& fits) {
  Ids fitting;
  for (TokenId id = 0; id < std::ssize(pieces); ++id) {
    const std::string& piece = pieces[static_cast<std::size_t>(id)];
    const bool may = !piece.empty() && fits(text + piece);
    EXPECT_EQ(allowed.has(id), may) << text << " + " << piece;
    if (may) fitting.push_back(id);
  }
  return fitting;
}

class Masks : public testing::Test {
 protected:
  void SetUp() override {
    if (!no_grammars().empty()) GTEST_SKIP() << no_grammars();
  }
};

// All bytes as tokens of their own, and pieces that hold no whole character.
std::vector<std::string> bytes_and_fragments() {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* piece : {"\xED\xA0", "\xED\xBF\xBF", "a\xED", "\xE2\x82", "\xE0\x80\x80",
                            "\xC0\xAF", "\x9F\xBF", "\xA0\x80\"", "\xF4\x90", "\xF0\x9F\xA4"}) {
    pieces.emplace_back(piece);
  }
  return pieces;
}

// Whether more bytes can make it UTF-8.
bool begins_utf8(const std::string& text) {
  for (const char* end :
       {"", "\x80", "\x80\x80", "\x80\x80\x80", "\xA0", "\xA0\x80", "\x90\x80", "\x90\x80\x80"}) {
    if (is_utf8(text + end)) return true;
  }
  return false;
}

TEST_F(Masks, KeepATextUtf8) {
  const std::vector<std::string> pieces = bytes_and_fragments();
  const auto constraint = compiled({ConstraintKind::kRegex, "\"[^\"\\\\]{0,3}\""}, pieces);
  ASSERT_NE(constraint, nullptr);
  for (const char* begun : {"", "a", "\xED", "\xE0", "\xF0", "\xF4", "\xC3", "\xE2\x82", "\xED\x9F",
                            "\xF0\x9F", "\xF0\x9F\xA4", "\xE2\x82\xAC\xED"}) {
    const std::string text = std::string("\"") + begun;
    const auto state = constraint->begin();
    Ids ids;
    for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
    const auto along = state->allowed(ids);
    state->append(ids);
    const auto behind = state->allowed({});
    EXPECT_EQ(along->words, behind->words) << text;
    int allowed = 0;
    for (TokenId id = 0; id < std::ssize(pieces); ++id) {
      if (!behind->has(id)) continue;
      ++allowed;
      EXPECT_TRUE(begins_utf8(text + pieces[static_cast<std::size_t>(id)])) << text << " + " << id;
    }
    EXPECT_GT(allowed, 0) << text;
  }
}

// The sentences of a language, and what the definition says of a text's continuations.
struct Language {
  std::set<std::string> sentences;

  bool begins(const std::string& text) const {
    const auto at = sentences.lower_bound(text);
    return at != sentences.end() && at->starts_with(text);
  }
  std::string rules() const {
    std::string text;
    for (const std::string& one : sentences)
      text += (text.empty() ? "root ::= \"" : " | \"") + one + "\"";
    return text + "\n";
  }
};

TEST_F(Masks, AllowExactlyTheBeginningsOfSentences) {
  SeededRandom random(3);
  const auto word = [&random](std::size_t most) {
    std::string text;
    for (std::size_t left = 1 + random.below(most); left > 0; --left) {
      text += static_cast<char>('a' + random.below(3));
    }
    return text;
  };
  for (int round = 0; round < 60; ++round) {
    Language language;
    for (std::size_t left = 1 + random.below(12); left > 0; --left)
      language.sentences.insert(word(7));
    std::set<std::string> drawn;
    while (drawn.size() < 40) drawn.insert(word(4));
    std::vector<std::string> pieces(drawn.begin(), drawn.end());
    pieces.insert(pieces.begin() + static_cast<std::ptrdiff_t>(random.below(pieces.size())), "");
    const auto constraint = compiled({ConstraintKind::kGrammar, language.rules()}, pieces);
    ASSERT_NE(constraint, nullptr);
    const auto state = constraint->begin();
    Ids answer;
    while (true) {
      const auto allowed = state->allowed({});
      const std::string text = text_of(answer, pieces);
      const Ids fitting = expect_exactly(
          *allowed, text, pieces, [&](const std::string& next) { return language.begins(next); });
      ASSERT_FALSE(HasFailure());
      EXPECT_EQ(allowed->may_end, language.sentences.contains(text)) << text;
      EXPECT_FALSE(allowed->has(static_cast<TokenId>(pieces.size())));
      if (fitting.empty()) break;
      const TokenId next = fitting[random.below(fitting.size())];
      // A path allows the tokens that the same text allows.
      const auto along = state->allowed(Ids{next});
      state->append(Ids{next});
      EXPECT_EQ(along->words, state->allowed({})->words);
      answer.push_back(next);
    }
  }
}

TEST_F(Masks, NestedFormsCloseAsOftenAsTheyOpen) {
  const std::vector<std::string> pieces = {"[", "]", "[[", "]]", "[]", "]["};
  const auto constraint =
      compiled({ConstraintKind::kGrammar, "root ::= list\nlist ::= \"[\" list* \"]\"\n"}, pieces);
  ASSERT_NE(constraint, nullptr);
  // Never closed further than it was opened, and nothing behind the end.
  const auto fits = [](const std::string& text) {
    int open = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      open += text[i] == '[' ? 1 : -1;
      if (open < 0 || (open == 0 && i + 1 < text.size())) return false;
    }
    return true;
  };
  SeededRandom random(4);
  for (int round = 0; round < 20; ++round) {
    const auto state = constraint->begin();
    Ids answer;
    for (int step = 0; step < 30; ++step) {
      const auto allowed = state->allowed({});
      const std::string text = text_of(answer, pieces);
      const bool closed = std::ranges::count(text, '[') == std::ranges::count(text, ']');
      EXPECT_EQ(allowed->may_end, !text.empty() && closed) << text;
      const Ids fitting = expect_exactly(*allowed, text, pieces, fits);
      ASSERT_FALSE(HasFailure());
      if (fitting.empty()) break;
      answer.push_back(fitting[random.below(fitting.size())]);
      state->append({&answer.back(), 1});
    }
  }
}

TEST_F(Masks, APathLeavesNoTrace) {
  const std::vector<std::string> pieces = {"a", "b", "c", ""};
  const auto constraint = compiled({ConstraintKind::kRegex, "a(b|c)*a"}, pieces);
  ASSERT_NE(constraint, nullptr);
  const auto state = constraint->begin();
  state->append(Ids{0, 1});
  const std::vector<std::uint32_t> before = state->allowed({})->words;
  EXPECT_TRUE(state->allowed(Ids{2, 0})->may_end);
  EXPECT_TRUE(state->allowed(Ids{2, 0, 1})->words.empty()) << "behind the end there is nothing";
  EXPECT_TRUE(state->allowed(Ids{3})->words.empty()) << "a token that is no text";
  EXPECT_TRUE(state->allowed(Ids{9})->words.empty()) << "a token that is not there";
  EXPECT_EQ(state->allowed({})->words, before);
  state->append(Ids{0, 0});
  EXPECT_TRUE(state->allowed({})->words.empty()) << "the answer has left the form";
  EXPECT_FALSE(state->allowed({})->may_end);
}

// Text may be anything up to "<", and is then one of the calls. Whatever the pieces, a token is
// allowed exactly where the text that it makes is the beginning of such a text, and a path is as
// the same answer.
TEST_F(Masks, FreeTextEndsWhereAFrameIsTriggered) {
  SeededRandom random(5);
  const ConstraintSpec spec{
      ConstraintKind::kFramed,
      R"({"frames":[["<a",{"enum":[1,12]},">"],["<b",{"const":2},">"]],"trigger":"<","several":true})"};
  const std::set<std::string> calls = {"<a1>", "<a12>", "<b2>"};
  const auto fits = [&calls](std::string_view text, bool whole) {
    for (std::size_t at = 0; (at = text.find('<', at)) != std::string::npos;) {
      const std::string_view rest = text.substr(at);
      const auto call = std::ranges::find_if(calls, [&](const std::string& each) {
        return rest.starts_with(each) || (!whole && each.starts_with(rest));
      });
      if (call == calls.end()) return false;
      at += std::min(call->size(), rest.size());
    }
    return true;
  };
  std::size_t triggered = 0;
  for (int round = 0; round < 40; ++round) {
    std::vector<std::string> pieces = {"<", ">", "a", "b", "1", "2"};
    while (pieces.size() < 24) {
      std::string piece;
      for (std::size_t left = 1 + random.below(4); left > 0; --left)
        piece += "<>ab12"[random.below(6)];
      pieces.push_back(piece);
    }
    const auto constraint = compiled(spec, pieces);
    ASSERT_NE(constraint, nullptr);
    const auto state = constraint->begin();
    Ids answer;
    for (int step = 0; step < 30; ++step) {
      const std::string text = text_of(answer, pieces);
      const auto allowed = state->allowed({});
      EXPECT_EQ(allowed->may_end, fits(text, true)) << text;
      Ids next;
      for (TokenId token = 0; token < std::ssize(pieces); ++token) {
        const std::string longer = text + pieces[static_cast<std::size_t>(token)];
        ASSERT_EQ(allowed->has(token), fits(longer, false)) << longer;
        if (allowed->has(token)) next.push_back(token);
      }
      ASSERT_FALSE(next.empty()) << text;
      const Ids path = {next[random.below(next.size())]};
      const auto ahead = state->allowed(path);
      state->append(path);
      EXPECT_EQ(state->allowed({})->words, ahead->words);
      answer.push_back(path.front());
      triggered += fits(text, true) ? 0 : 1;
    }
  }
  EXPECT_GT(triggered, 100u) << "the walks were within calls, too";
}

TEST_F(Masks, CharactersMayBeSplitBetweenTokens) {
  const std::vector<std::string> pieces = {"\xc3", "\xa9", "\xa8", "e"};
  const auto constraint = compiled({ConstraintKind::kRegex, "\xc3\xa9+"}, pieces);
  ASSERT_NE(constraint, nullptr);
  const auto state = constraint->begin();
  EXPECT_TRUE(state->allowed({})->has(0));
  EXPECT_FALSE(state->allowed({})->has(3));
  EXPECT_TRUE(state->allowed(Ids{0})->has(1));
  EXPECT_FALSE(state->allowed(Ids{0})->has(2));
  EXPECT_TRUE(state->allowed(Ids{0, 1})->may_end);
}

// How a JSON string with a bounded number of characters may go on, by its definition. The
// characters of these tests have one byte, or two that begin with 0xC3.
struct BoundedString {
  std::size_t least, most;

  // Whether the text begins such a string; ends: and is a whole one.
  bool begins(const std::string& text, bool ends) const {
    std::size_t characters = 0;
    bool open = false, closed = false, half = false;
    for (const char byte : text) {
      if (!open || closed) {
        if (open || byte != '"') return false;
        open = true;
      } else if (half != ((byte & 0xC0) == 0x80)) {
        return false;
      } else if (half) {
        half = false;
      } else if (byte == '"') {
        if (characters < least) return false;
        closed = true;
      } else {
        if (byte == '\\' || (byte & 0xE0) == 0 || ++characters > most) return false;
        half = byte == '\xC3';
      }
    }
    return !ends || closed;
  }
};

TEST_F(Masks, AStringHasNoMoreCharactersThanItMay) {
  const std::vector<std::string> pieces = {
      "\"",     "a",    "bc",    "\"a", "b\"", "defgh\"",    "ijklmno", "\xC3\xA4",
      "\xC3",   "\xA4", "\xA4p", "\\",  "\n",  "q\xC3\xA4r", "\"\"",    std::string(19, 's'),
      "\xA4\"", ""};
  constexpr TokenId kQuote = 0, kLetter = 1;
  int met = 0;  // how often no character may follow any more
  SeededRandom random(5);
  for (const BoundedString& bounds :
       {BoundedString{0, 16}, {0, 17}, {1, 17}, {17, 17}, {20, 24}, {0, 40}, {39, 40}, {0, 200}}) {
    const std::string schema =
        "{\"type\": \"string\", \"minLength\": " + std::to_string(bounds.least) +
        ", \"maxLength\": " + std::to_string(bounds.most) + "}";
    const auto constraint = compiled({ConstraintKind::kJsonSchema, schema}, pieces);
    ASSERT_NE(constraint, nullptr);
    for (int round = 0; round < 12; ++round) {
      const auto state = constraint->begin();
      Ids answer;
      while (true) {
        const auto allowed = state->allowed({});
        const std::string text = text_of(answer, pieces);
        const Ids fitting = expect_exactly(*allowed, text, pieces, [&](const std::string& next) {
          return bounds.begins(next, false);
        });
        ASSERT_FALSE(HasFailure()) << schema;
        if (text.size() > bounds.most && allowed->has(kQuote) && !allowed->has(kLetter)) ++met;
        EXPECT_EQ(allowed->may_end, bounds.begins(text, true)) << schema << ": " << text;
        if (fitting.empty()) break;
        // Most walks go on as long as they may, so that they meet the bound.
        Ids open = fitting;
        std::erase_if(open, [&](TokenId id) {
          return !answer.empty() &&
                 pieces[static_cast<std::size_t>(id)].find('"') != std::string::npos;
        });
        const Ids& chosen = open.empty() || random.below(100) == 0 ? fitting : open;
        const TokenId next = chosen[random.below(chosen.size())];
        const auto along = state->allowed(Ids{next});
        state->append(Ids{next});
        EXPECT_EQ(along->words, state->allowed({})->words) << schema << ": " << text;
        answer.push_back(next);
      }
      EXPECT_TRUE(bounds.begins(text_of(answer, pieces), true));
    }
  }
  EXPECT_GT(met, 40);
}

// JSON has them as escapes only.
TEST_F(Masks, NoStringOfASchemaHoldsAControlCharacter) {
  std::vector<std::string> pieces;
  for (int byte = 0; byte < 256; ++byte) pieces.emplace_back(1, static_cast<char>(byte));
  for (const char* schema :
       {R"({"type": "string"})", R"({"type": "string", "maxLength": 9})",
        R"({"type": "string", "minLength": 3})", R"({"type": "string", "pattern": "^.{2,9}$"})",
        R"({"type": "string", "pattern": "^[^a]{2,9}$"})",
        R"({"type": "string", "pattern": "\\S+"})", R"({"type": "string", "format": "uri"})"}) {
    const auto constraint = compiled({ConstraintKind::kJsonSchema, schema}, pieces);
    ASSERT_NE(constraint, nullptr);
    const auto state = constraint->begin();
    for (const TokenId before : {TokenId{'"'}, TokenId{'b'}}) {
      state->append(Ids{before});
      for (TokenId byte = 0; byte < 0x20; ++byte) {
        EXPECT_FALSE(state->allowed({})->has(byte)) << schema << " allows byte " << byte;
      }
    }
  }
}

TEST_F(Masks, BytesOfAnotherFormAreRefused) {
  const GrammarVocabulary vocabulary({"a", "b", "ab", "ba", ""});
  const ConstraintSpec spec{ConstraintKind::kRegex, "(ab|ba)+a?"},
      other{ConstraintKind::kRegex, "a*"};
  const std::string masks = *compute_masks(spec, vocabulary);
  ASSERT_TRUE(compile_grammar(spec, vocabulary, masks).ok());
  const auto refused = [&](const GrammarVocabulary& by, const std::string& bytes) {
    return compile_grammar(spec, by, bytes).status().code() == StatusCode::kInternal;
  };
  EXPECT_TRUE(refused(vocabulary, *compute_masks(other, vocabulary)));
  EXPECT_TRUE(refused(vocabulary, masks + masks.substr(0, 1)));
  for (std::size_t length = 0; length < masks.size(); ++length) {
    EXPECT_TRUE(refused(vocabulary, masks.substr(0, length))) << length;
  }
  // Whatever a byte is changed to, indices stay within the vocabulary.
  for (std::size_t at = 0; at < masks.size(); ++at) {
    std::string changed = masks;
    changed[at] = static_cast<char>(changed[at] ^ 0x40);
    const auto compiled = compile_grammar(spec, vocabulary, changed);
    if (compiled.ok()) (*compiled)->begin()->allowed({});
  }
}

TEST_F(Masks, SetsOfManyTokensComeBackAsTheyWere) {
  std::vector<std::string> pieces;
  for (int number = 0; number < 5000; ++number) pieces.push_back(std::to_string(number));
  const auto constraint = compiled({ConstraintKind::kRegex, "[1-8][0-9]{0,2}"}, pieces);
  ASSERT_NE(constraint, nullptr);
  expect_exactly(*constraint->begin()->allowed({}), "", pieces, [](const std::string& text) {
    return text.size() <= 3 && text[0] >= '1' && text[0] <= '8';
  });
  const auto many = compiled({ConstraintKind::kRegex, "[1-3][0-9]*"}, pieces);
  ASSERT_NE(many, nullptr);
  expect_exactly(*many->begin()->allowed({}), "", pieces,
                 [](const std::string& text) { return text[0] >= '1' && text[0] <= '3'; });
}

}  // namespace
}  // namespace outrider
