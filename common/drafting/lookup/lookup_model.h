// A draft without a model: guesses what followed where the text, or an earlier one, has been as it
// is now (match_finder.h). It has the interface of a model, so whatever drafts with a model drafts
// with it; its step takes microseconds. Where nothing matches, a row has no logits.
//
// How sure it is: how often such a match was right so far, by its length and by whether others
// disagree. It learns that from the texts themselves, as they come.
//
// It keeps each row's token in its KV cell. What becomes text goes into the finder; a text that is
// cut short stays there as an earlier one. So it is meant for one sequence at a time.
//
// Logits: log p of the tokens that followed, and for all others the rest of the probability in
// equal parts. Thread rule: as model.h says. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "common/drafting/lookup/match_finder.h"
#include "common/model/model.h"

namespace outrider {

struct LookupOptions {
  std::int32_t vocab_size = 0;       // of the target's tokenizer
  Position max_positions = 1 << 18;  // of one text
  std::size_t max_tokens = 1 << 20;  // of all texts that are remembered; 12 bytes each
};

class LookupModel final : public Model {
 public:
  explicit LookupModel(const LookupOptions& options);

  // Texts to find matches in, before the first pass.
  void remember(std::span<const TokenId> text);

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override;
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  // What a match is: by its length, and whether another of about that length disagrees.
  struct Kind {
    std::size_t length = 0;
    bool contested = false;
  };
  // How often its kind was right.
  struct Record {
    double cases = 0;
    double right = 0;
  };
  // 1, 2, 3, 4, 5 to 6, 7 to 10, 11 to 18, more
  static constexpr std::size_t kLengths = 8;
  struct Guessed {
    TokenId token = 0;
    double chance = 0;
  };

  void take_text(const KvCache& cache);
  void take(TokenId token);
  // Of the first of the matches.
  static Kind kind_of(std::span<const MatchFinder::Match> matches);
  Record& record(Kind kind) { return records_[kind.length][kind.contested ? 1 : 0]; }
  std::vector<Guessed> guesses(std::span<const MatchFinder::Match> matches);
  void write_logits(std::span<const Guessed> guesses, PassOutput& out) const;

  ModelInfo info_;
  MatchFinder finder_;
  std::vector<TokenId> text_;  // that the finder has of the sequence at hand
  std::array<std::array<Record, 2>, kLengths> records_;  // [length][others disagree]
};

}  // namespace outrider
