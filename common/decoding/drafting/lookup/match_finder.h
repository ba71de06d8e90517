// Finds where a text has been as it is now: earlier places whose last tokens are those of its end,
// and what followed there (prompt look-up; Saxena 2023).
//
// Places with the same two last tokens are chained, the latest first, as compressors of the LZ77
// family find repeats. So a query takes a few microseconds however long the texts are, and a token
// takes 12 bytes. A suffix automaton would find the longest match without a bound on the walk, but
// takes twenty times the memory, and not the latest of equal ones.
//
//   MatchFinder finder(1 << 20);
//   for (TokenId token : text) finder.append(token);
//   finder.find(std::span(text).last(n), 4);          // longest match first
//   finder.end_text();                                // the next token begins another text
//
// Memory grows with the texts. Thread rule: none of its own. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "common/base/types.h"

namespace outrider {

class MatchFinder final {
 public:
  // The longest match that find() measures.
  static constexpr std::size_t kMaxLength = 32;

  // max_tokens: of all texts; when there are more, the older half is forgotten. At least 2.
  // shortest: a match of fewer tokens is none, 1 or 2. With 2 there is no table by token.
  explicit MatchFinder(std::size_t max_tokens, std::size_t shortest = 1);

  // token: not negative.
  void append(TokenId token);
  // No match spans this border.
  void end_text();

  struct Match {
    TokenId next = 0;        // what followed
    std::size_t length = 0;  // how many tokens before it are alike, 1 to kMaxLength
  };
  // The tokens that followed where a text ended as `tail` does, the longest match first, of equal
  // ones the latest; each token once, at most `most` of them. A match of a single token is given
  // only where there is no longer one. found: matches in other texts, of equal ones they come
  // first.
  std::vector<Match> find(std::span<const TokenId> tail, std::size_t most,
                          std::vector<Match> found = {}) const;

  std::size_t size() const { return tokens_.size(); }

 private:
  static constexpr std::int32_t kNowhere = -1;

  void push(TokenId token);
  void link(std::size_t place);
  void link_all(std::size_t buckets);
  std::size_t length_at(std::size_t place, std::span<const TokenId> tail) const;
  std::size_t bucket_of(TokenId before, TokenId last) const;

  const std::size_t max_tokens_;
  const bool finds_single_;
  std::vector<TokenId> tokens_;        // of all texts; kBorder between them
  std::vector<std::int32_t> latest_;   // by hash of two tokens: the latest place of the second;
                                       // at least one for each token, as far as kMaxBuckets
  std::vector<std::int32_t> earlier_;  // by place: the one before with the same hash
  std::vector<std::int32_t> single_;   // by token: the latest place
};

}  // namespace outrider
