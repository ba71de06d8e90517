// Drafts of another vocabulary than the target's. SPDX-License-Identifier: Apache-2.0
#include "common/decoding/drafting/vocabulary/translated_draft.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/decoding/drafting/draft_engine.h"
#include "common/engine/model/cell_values.h"
#include "common/engine/text/pipeline/decoder.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Merges = std::vector<std::pair<std::string, std::string>>;

// A byte-level tokenizer of small letters, the space ("Ġ"), "é" in two bytes, and these merges.
std::string tokenizer_json(const Merges& merges, const std::string& normalizer = "null") {
  std::vector<std::string> words;
  for (char letter = 'a'; letter <= 'z'; ++letter) words.emplace_back(1, letter);
  for (const char* other : {"G", "O", ".", "Ġ", "Ċ", "Ã", "©", "ï", "¬", "ĥ", "¼", "ĳ"}) {
    words.emplace_back(other);
  }
  std::string list;
  for (const auto& [left, right] : merges) {
    words.push_back(left + right);
    list += (list.empty() ? "\"" : ", \"") + left + " " + right + "\"";
  }
  std::string vocabulary;
  for (std::size_t id = 0; id < words.size(); ++id) {
    vocabulary += (id == 0 ? "\"" : ", \"") + words[id] + "\": " + std::to_string(id);
  }
  const std::string end = std::to_string(words.size());
  return R"({"version": "1.0", "normalizer": )" + normalizer + R"(, "added_tokens": [{"id": )" +
         end +
         R"(, "content": "<end>", "single_word": false, "lstrip": false, "rstrip": false, )"
         R"("normalized": false, "special": true}], "pre_tokenizer": {"type": "ByteLevel", )"
         R"("add_prefix_space": false, "trim_offsets": true, "use_regex": true}, )"
         R"("post_processor": null, "decoder": {"type": "ByteLevel", "add_prefix_space": true, )"
         R"("trim_offsets": true, "use_regex": true}, "model": {"type": "BPE", "vocab": {)" +
         vocabulary + R"(}, "merges": [)" + list + "]}}";
}

Tokenizer tokenizer_of(const Merges& merges) {
  Result<Tokenizer> tokenizer = Tokenizer::load_json(tokenizer_json(merges));
  if (!tokenizer.ok()) ADD_FAILURE() << tokenizer.status().message();
  return *std::move(tokenizer);
}

const Merges kLong = {{"r", "o"},   {"ro", "b"},    {"rob", "o"}, {"robo", "t"}, {"t", "h"},
                      {"th", "e"},  {"Ġ", "the"},   {"Ġ", "g"},   {"Ġg", "o"},   {"Ġgo", "es"},
                      {"e", "s"},   {"Ġ", "robot"}, {"Ã", "©"},   {"l", "e"},    {"f", "t"},
                      {"le", "ft"}, {"Ġ", "left"}};
const Merges kShort = {{"r", "o"}, {"b", "o"}, {"bo", "t"}, {"Ġ", "t"}, {"h", "e"},
                       {"g", "o"}, {"f", "t"}, {"Ġ", "l"},  {"e", "ft"}};
const std::string kScript = "the robot goes left the robot caf\xC3\xA9 goes the left robot";

// Goes on along a text, letter by letter as its own tokenizer cuts words; behind anything else it
// says "z".
class ScriptedDraft final : public Model {
 public:
  explicit ScriptedDraft(const Merges& merges, Position most = 400)
      : tokenizer_(tokenizer_of(merges)), words_(tokenizer_) {
    info_.name = "scripted";
    info_.vocab_size = tokenizer_.vocab_size() + 3;  // padded
    info_.max_positions = most;
  }
  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return std::shared_ptr<KvPages>(std::make_shared<CellValues<std::string>>(this, count));
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override {
    ++passes_;
    const auto width = static_cast<std::size_t>(info_.vocab_size);
    out.vocab_size = info_.vocab_size;
    out.logits.clear();
    for (const Row& row : rows) {
      auto& pages = static_cast<CellValues<std::string>&>(row.cache->pages());
      std::string& text = pages.of(row);
      text = pages.before(row, "") + std::string(tokenizer_.decoder().bytes(row.token));
      if (!row.wants_logits) continue;
      out.logits.resize(out.logits.size() + width, others_);
      out.logits[out.logits.size() - width + static_cast<std::size_t>(next(text))] = 9;
    }
    return {};
  }
  int passes() const { return passes_; }
  void damage() { others_ = std::nanf(""); }

 private:
  TokenId next(const std::string& text) const {
    if (!kScript.starts_with(text)) return *words_.find("z");
    if (text == kScript) return *tokenizer_.find("<end>");
    const std::size_t word = kScript.find(' ', text.size() + 1);
    return words_.tokens_of(kScript.substr(text.size(), word - text.size())).front();
  }

  const Tokenizer tokenizer_;
  const ByteVocabulary words_;
  ModelInfo info_;
  int passes_ = 0;
  float others_ = 0;  // the logits of all tokens but the next
};

DraftStep reading(std::span<const TokenId> text) {
  DraftStep step;
  step.catch_up = {text.begin(), text.end()};
  step.guess_after_catch_up = true;
  return step;
}

// One answer's drafting, as an edge does it.
struct Drafting {
  explicit Drafting(const Merges& draft, const Merges& targets, Position most = 400)
      : target(tokenizer_of(targets)) {
    auto scripted = std::make_unique<ScriptedDraft>(draft, most);
    inner = scripted.get();
    Result<std::unique_ptr<TranslatedDraft>> made =
        TranslatedDraft::create(std::move(scripted), tokenizer_of(draft), target, 0);
    EXPECT_TRUE(made.ok()) << made.status().message();
    model = *std::move(made);
    engine = *DraftEngine::create(*model, clock, 600);
  }
  // The best guess behind the step's last row, or -1.
  TokenId run(const DraftStep& step) {
    const Result<DraftStepDone> done = engine->run(step);
    EXPECT_TRUE(done.ok()) << done.status().message();
    const std::vector<Guess>& guesses = done->guesses.back();
    last = done->slots.empty() ? kRootSlot : done->slots.back();
    return guesses.empty() ? -1 : guesses.front().token;
  }
  TokenId grow(Slot parent, TokenId token) {
    DraftStep step;
    step.grow.push_back({.parent = parent, .token = token});
    return run(step);
  }

  ManualClock clock;
  Tokenizer target;
  ScriptedDraft* inner = nullptr;
  std::unique_ptr<TranslatedDraft> model;
  std::unique_ptr<DraftEngine> engine;
  Slot last = kRootSlot;
};

class TranslatedDraftTest : public testing::TestWithParam<bool> {
 protected:
  const Merges& draft() const { return GetParam() ? kLong : kShort; }
  const Merges& target() const { return GetParam() ? kShort : kLong; }
};

TEST_P(TranslatedDraftTest, DraftsTheTargetsTokensOfTheDraftsText) {
  Drafting drafting(draft(), target());
  const std::vector<TokenId> script = *drafting.target.encode(kScript);
  TokenId guess = drafting.run(reading(std::span(script).first(1)));
  for (std::size_t i = 1; i < script.size(); ++i) {
    ASSERT_EQ(guess, script[i]) << "token " << i;
    guess = drafting.grow(drafting.last, guess);
  }
  EXPECT_EQ(guess, drafting.target.find("<end>")) << "the ends of both have one role";
}

TEST_P(TranslatedDraftTest, AChainTakesAStepForEachOfTheDraftsTokensAndOneAhead) {
  Drafting drafting(draft(), target());
  const std::vector<TokenId> script = *drafting.target.encode(kScript);
  TokenId guess = drafting.run(reading(std::span(script).first(1)));
  for (std::size_t i = 1; i < script.size(); ++i) guess = drafting.grow(drafting.last, guess);
  const Tokenizer own = tokenizer_of(draft());
  EXPECT_LE(drafting.inner->passes(), std::ssize(*own.encode(kScript)) + 4);
}

TEST_P(TranslatedDraftTest, GuessesDependOnTheTextAloneWhateverWasCutAndBranched) {
  Drafting drafting(draft(), target());
  const std::vector<TokenId> script = *drafting.target.encode(kScript);
  const auto begun_anew = [&](std::span<const TokenId> text) {
    return Drafting(draft(), target()).run(reading(text));
  };
  std::mt19937 random(7);
  std::size_t committed = 1;
  drafting.run(reading(std::span(script).first(1)));
  for (int round = 0; round < 60; ++round) {
    std::vector<TokenId> text(script.begin(),
                              script.begin() + static_cast<std::ptrdiff_t>(committed));
    Slot at = kRootSlot;
    std::vector<Slot> chain;
    while (committed + chain.size() < script.size() && random() % 4 != 0) {
      const bool strays = random() % 4 == 0;
      const TokenId token = strays ? *drafting.target.find("x") : script[committed + chain.size()];
      const TokenId guess = drafting.grow(at, token);
      auto longer = text;
      longer.push_back(token);
      ASSERT_EQ(guess, begun_anew(longer)) << "round " << round;
      if (strays) continue;
      at = drafting.last;
      chain.push_back(at);
      text = longer;
    }
    if (committed + 2 > script.size() || random() % 8 == 0) {
      committed = 1 + random() % committed;  // another answer, or a text that was cut
      DraftStep step = reading(std::span(script).subspan(committed - 1, 1));
      step.keep = static_cast<Position>(committed) - 1;
      EXPECT_EQ(drafting.run(step), begun_anew(std::span(script).first(committed)));
    } else if (!chain.empty()) {
      const std::size_t kept = 1 + random() % chain.size();
      if (committed + kept >= script.size()) continue;
      DraftStep step = reading(std::span(script).subspan(committed + kept, 1));
      step.commit = chain[kept - 1];
      committed += kept + 1;
      EXPECT_EQ(drafting.run(step), begun_anew(std::span(script).first(committed)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, TranslatedDraftTest, testing::Bool());

TEST(TranslatedDraft, WhatTheDraftHasNoTokenOfIsLeftOut) {
  Drafting drafting(kShort, {{"r", "o"}, {"Ġ", "t"}});
  const std::vector<TokenId> text = {*drafting.target.find("<end>"), *drafting.target.find("t")};
  EXPECT_GE(drafting.run(reading(text)), 0);
}

TEST(TranslatedDraft, LogitsThatAreNoNumbersAreNoGuesses) {
  Drafting drafting(kShort, kLong);
  drafting.inner->damage();
  const std::vector<TokenId> script = *drafting.target.encode(kScript);
  EXPECT_EQ(drafting.run(reading(std::span(script).first(1))), script[1]);
}

TEST(TranslatedDraft, BehindTheDraftsContextThereAreNoGuesses) {
  Drafting drafting(kShort, kLong, 5);
  const std::vector<TokenId> script = *drafting.target.encode(kScript);
  EXPECT_GE(drafting.run(reading(std::span(script).first(1))), 0);
  EXPECT_EQ(drafting.run(reading(std::span(script).subspan(1, 3))), -1);
}

TEST(ByteVocabulary, FindsTokensByTheirBytes) {
  const Tokenizer tokenizer = tokenizer_of(kLong);
  const ByteVocabulary words(tokenizer);
  EXPECT_EQ(words.find(" robot"), tokenizer.find("Ġrobot"));
  EXPECT_EQ(words.find("robots"), std::nullopt);
  EXPECT_EQ(words.find("<end>"), std::nullopt) << "special tokens are no text";
  EXPECT_TRUE(words.has_longer("rob"));
  EXPECT_FALSE(words.has_longer(" robot"));
  EXPECT_THAT(words.tokens_of("\xC3"), ElementsAre(*tokenizer.find("Ã"))) << "half a character";
  EXPECT_THAT(words.tokens_of("\xC3\xA9t"),
              ElementsAre(*tokenizer.find("Ã©"), *tokenizer.find("t")));
  EXPECT_THAT(words.tokens_of("A"), IsEmpty());
}

TEST(ByteVocabulary, ATokenizerThatChangesTextIsRefusedByName) {
  const Status kept = check_keeps_bytes(tokenizer_of(kLong), "plain");
  EXPECT_TRUE(kept.ok()) << kept.message();
  const auto folding = Tokenizer::load_json(tokenizer_json(kLong, R"({"type": "Lowercase"})"));
  ASSERT_TRUE(folding.ok()) << folding.status().message();
  const Status refused = check_keeps_bytes(*folding, "folding");
  EXPECT_EQ(refused.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("the tokenizer of folding changes text"));
}

TEST(ByteVocabulary, IdsAreTheSameWhereOnlyAddedTokensDiffer) {
  EXPECT_TRUE(have_same_ids(tokenizer_of(kLong), tokenizer_of(kLong)));
  EXPECT_FALSE(have_same_ids(tokenizer_of(kLong), tokenizer_of(kShort)));
}

}  // namespace
}  // namespace outrider
