// A draft model of another vocabulary with the interface of one of the target's, so that whatever
// drafts with a model drafts with it. Tokens cross over as text:
//
//   target's tokens -> words -> draft's tokens -> the draft model -> its guesses -> target's tokens
//
// The draft reads whole words as its own tokenizer cuts them. A word begins with a space, and the
// last one is not whole: the draft's guesses behind the words before it show how it may go on.
// Only where they do not fit the word's beginning is that read as it is.
//
// Two tokens of the draft may be one of the target's. So behind each row that wants logits
// the draft goes on for as long as its text may be the beginning of a longer token of the target,
// at most kMaxAhead steps; the guess is the target's next token of that text. These steps are
// kept, and a row that follows the guess finds them done: a chain takes about one step for each of
// the draft's tokens, and one more at its end. A guess that is less likely is the target's first
// token of one token of the draft.
//
// Its KV cache holds tokens of the target; the draft's own cache follows it. A text that is longer
// than the draft's context gets no logits. It is meant for one sequence at a time: all rows of a
// pass are of one cache.
//
// Logits: log p of the target's tokens that begin the draft's kMaxGuesses likeliest ones, and for
// all others the rest of the probability in equal parts. Never changes an answer's text.
//
// Thread rule: as model.h says. Ownership: the target's tokenizer outlives it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/decoding/drafting/vocabulary/byte_vocabulary.h"
#include "common/engine/model/model.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

class TranslatedDraft final : public Model {
 public:
  static constexpr int kMaxAhead = 3;
  static constexpr std::size_t kMaxGuesses = 64;

  // context: of prompt and answer in the target's tokens; 0: as the draft's context allows. Errors:
  // check_keeps_bytes() of its tokenizer; those of new_cache().
  static Result<std::unique_ptr<TranslatedDraft>> create(std::unique_ptr<Model> draft,
                                                         Tokenizer tokenizer,
                                                         const Tokenizer& target, Position context);

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override;
  Status forward(std::span<const Row> rows, PassOutput& out) override;
  Status check_unchanged() const override { return draft_->check_unchanged(); }

 private:
  // A text as the draft reads it.
  struct Reading {
    std::vector<TokenId> drafts = {};  // of whole words
    std::string word = {};             // the beginning of the last one
  };
  // A token of the draft, and how likely it is.
  struct Candidate {
    TokenId token = 0;
    double chance = 0;
  };
  // A row of the draft beyond what is committed in its cache.
  struct Node {
    Slot slot = kRootSlot;
    std::map<TokenId, std::unique_ptr<Node>> children = {};
    std::vector<Candidate> next = {};  // the likeliest first; empty: no logits were wanted
  };
  // A node whose row has not been run.
  struct Fresh {
    Node* node;
    const Node* parent;
    TokenId token;
    bool wants_logits;
  };
  // The draft's likeliest continuation of a row.
  struct Walk {
    std::string word;  // the row's last word so far
    Node* begin;       // the row of the draft whose guesses count; null: none
    Node* at;          // the end; null: it goes no further
    bool inside;       // `word` is behind `begin`, and the guesses that begin so count
    std::string text;  // of the last word and what follows
    // By token of the draft: where its bytes end in `text`, and how likely the text up to there is.
    std::vector<std::pair<std::size_t, double>> ends = {};
  };

  TranslatedDraft(std::unique_ptr<Model> draft, Tokenizer tokenizer, const Tokenizer& target,
                  std::unique_ptr<KvCache> cache);

  static std::vector<Candidate> likeliest(std::span<const float> logits);

  void read(TokenId target, Reading& reading) const;
  void end_word(Reading& reading) const;
  TokenId target_of(TokenId draft);
  TokenId target_behind(const std::string& text, std::size_t begin) const;
  std::string_view bytes_of(TokenId draft) const;

  void follow_text(const KvCache& cache);
  void cut_text(std::size_t tokens);
  void commit_known();
  Status read_text(PassOutput& out);
  void forget_branches();

  Status run_branches(std::span<const Row> rows, PassOutput& out);
  std::vector<Walk> walks_of(std::span<const Row> rows);
  Reading uncommitted(const Row& row) const;
  Position position_behind(const Node& node) const;
  bool has_room(Position position, std::size_t rows) const;
  Node* child(Node& parent, TokenId token, bool wants_logits);
  Node* path(Node* from, std::span<const TokenId> tokens, bool wants_logits);
  Status run_fresh(PassOutput& out);
  void enter(Walk& walk);
  void go_on(Walk& walk, bool may_run);
  const Candidate* best_of(const Walk& walk) const;

  std::unordered_map<TokenId, double> chances_inside(const Walk& walk) const;
  std::unordered_map<TokenId, double> chances_of(const Walk& walk);
  void write_logits(const Walk& walk, PassOutput& out);

  const std::unique_ptr<Model> draft_;
  const Tokenizer draft_tokenizer_;
  const ByteVocabulary draft_words_, target_words_;
  ModelInfo info_;
  const std::unique_ptr<KvCache> cache_;  // the draft's

  std::vector<TokenId> text_;  // committed, in the target's tokens
  // By token of it: the number of the draft's tokens up to it, and the last word.
  std::vector<std::pair<std::size_t, std::string>> ends_;
  Reading reading_;             // of text_; the cache holds the first of its tokens
  std::unique_ptr<Node> root_;  // the last token that the cache holds committed
  std::vector<Fresh> fresh_;    // parents first
  PassOutput output_;           // of the draft
  std::vector<Row> rows_;       // of the draft; reused from pass to pass
  std::unordered_map<TokenId, TokenId> target_by_draft_;
};

}  // namespace outrider
