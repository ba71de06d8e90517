// A form that an answer must have, as a grammar: which tokens may come next is a pure function of
// the grammar, the tokenizer and the answer so far. So a constrained choice stays one of logits,
// settings, seed, position and text (docs/constraints.md).
//
// This is the interface. What compiles a form, and steps through it, is common/engine/constraint.
//
// Thread rule: values, and interfaces whose rules stand beside them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/base/types.h"

namespace outrider {

enum class ConstraintKind : std::uint8_t {
  kNone,
  kJsonObject,  // any JSON object
  kJsonSchema,  // `text` is the schema
  kRegex,       // the whole answer matches `text`
  kGrammar,     // `text` has rules in GBNF, of which `root` is the answer's
  kFramed,      // `text` is JSON with frames (checked_frames()), of which the answer has some
};

struct ConstraintSpec {
  static constexpr std::size_t kMaxBytes = std::size_t{64} << 10;

  ConstraintKind kind = ConstraintKind::kNone;
  std::string text = {};

  friend bool operator==(const ConstraintSpec&, const ConstraintSpec&) = default;
};

// The tokens of which one may come next.
struct AllowedTokens {
  std::vector<std::uint32_t> words = {};  // token t: bit t % 32 of words[t / 32]; beyond: none
  bool may_end = false;                   // a stop token may come as well

  bool has(TokenId token) const {
    const auto place = static_cast<std::size_t>(token);
    return place / 32 < words.size() && (words[place / 32] >> (place % 32) & 1) != 0;
  }
};

// How far one answer has come.
//
// Thread rule: append() by one thread, while none calls the others; those by several at a time.
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;

  // The answer goes on. After tokens that the form does not have, nothing is allowed any more.
  virtual void append(std::span<const TokenId> tokens) = 0;

  // The tokens that may follow the answer and then `path`, which does not change. None where the
  // path leaves the form.
  virtual std::shared_ptr<const AllowedTokens> allowed(std::span<const TokenId> path) = 0;

  // The text that must follow the answer and then `path`, in the tokenizer's own tokens. None where
  // more than one text may, or the answer may end. Others of its tokens may spell the same text,
  // and the last one may be the beginning of a longer one, so it is a guess.
  virtual std::vector<TokenId> forced(std::span<const TokenId> path) = 0;
};

// A compiled form, for one tokenizer. Thread rule: immutable; share it.
class Constraint {
 public:
  virtual ~Constraint() = default;
  // The state of an answer that has no token yet.
  virtual std::unique_ptr<ConstraintState> begin() const = 0;
  virtual std::size_t size_in_bytes() const = 0;
};

// A form that an answer was asked for. It travels as its text, and who verifies compiles it again.
struct AnswerConstraint {
  ConstraintSpec spec = {};
  std::shared_ptr<const Constraint> compiled = {};  // null: not compiled here yet

  bool asks() const { return spec.kind != ConstraintKind::kNone; }

  friend bool operator==(const AnswerConstraint& a, const AnswerConstraint& b) {
    return a.spec == b.spec;
  }
};

}  // namespace outrider
