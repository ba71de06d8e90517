// Guesses what follows a text from places where it, or an earlier one, has been as it is now
// (match_finder.h), and how sure that is: how often such a match was right so far, by its length
// and by whether others disagree. It learns that from the texts themselves, as they come.
//
//   begin (guesses | take)*        another begin() is another text; the one before is remembered
//
// A text that it shares with others, `shared`, is searched too where it is handed in.
//
// A query takes microseconds; a token of memory takes 12 bytes.
// Thread rule: none of its own. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"
#include "common/decoding/drafting/lookup/match_finder.h"
#include "common/engine/sampling/guess.h"

namespace outrider {

class LookUp final {
 public:
  // max_tokens: of all texts that are remembered; when there are more, the older half is forgotten.
  // shortest: a match of fewer tokens is none, 1 or 2. With 2 there is no table by token.
  explicit LookUp(std::size_t max_tokens, std::size_t shortest = 1)
      : finder_(max_tokens, shortest) {}

  // An earlier text to find matches in.
  void remember(std::span<const TokenId> text);
  // The text at hand is this one. From its last tokens it learns what matches are worth, so that a
  // long prompt takes no time that anybody notices.
  void begin(std::span<const TokenId> text);
  // It goes on with this token: what would have been guessed shows what such guesses are worth.
  void take(TokenId token, const MatchFinder* shared = nullptr);
  // It is its first tokens only. What followed them is remembered as an earlier text.
  void cut(std::size_t length);
  std::span<const TokenId> text() const { return text_; }

  // The tokens that may follow a text that ends so, the surest first, at most `most`. Their
  // confidences sum up to less than 1.
  std::vector<Guess> guesses(std::span<const TokenId> tail, std::size_t most,
                             const MatchFinder* shared = nullptr) const;

 private:
  // The kind of a match: its length, and whether another of about that length disagrees.
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

  std::vector<MatchFinder::Match> find(std::span<const TokenId> tail, std::size_t most,
                                       const MatchFinder* shared) const;
  // The kind of the first match.
  static Kind kind_of(std::span<const MatchFinder::Match> matches);
  const Record& record(Kind kind) const { return records_[kind.length][kind.contested ? 1 : 0]; }

  MatchFinder finder_;
  std::vector<TokenId> text_;                            // that the finder has of the text at hand
  std::array<std::array<Record, 2>, kLengths> records_;  // [length][others disagree]
};

}  // namespace outrider
