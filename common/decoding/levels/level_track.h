// The levels of an elastic model that share one answer, one after the other. Which of them says the
// next token follows from the tokens before: a course that was named says at which token another
// level begins, and where a time chose the level, an answer that loops goes on with the next larger
// one. The full level may loop; a named one always stays.
//
//   (push() go_on_with()?)*
//
// A switch lies behind the very token that asked for it, so the text does not depend on how many
// tokens a verdict brings; what a verdict has behind that token is not the answer's.
//
// Thread rule: values; pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/types.h"
#include "common/decoding/levels/level_choice.h"

namespace outrider {

// Notices that an answer goes round in a loop, as small levels of an elastic model come to do:
// "20 degrees right at 20 degrees right at". A text loops when its last tokens, at least kLoop of
// them and two rounds, only repeat a period of at most kPeriods tokens. So its last 8-gram has been
// there already, and nothing new has come since: lists, JSON and code whose values differ are no
// loops, however alike their entries are. Where the next level goes on in the same loop, that is
// noticed kAgain tokens later.
//
// A pure function of the tokens in their order, so it is the same in verdicts of any length, behind
// a reconnect and in a rerun. Time: kPeriods comparisons for each token.
class LoopWatch final {
 public:
  static constexpr std::size_t kLoop = 16;  // tokens, the first round's included
  static constexpr std::size_t kPeriods = 64;
  static constexpr std::size_t kAgain = 4;

  // The answer's next token. True if the text loops with it.
  bool push(TokenId token);

 private:
  std::array<TokenId, kPeriods> last_{};           // token number n at n % kPeriods
  std::array<std::uint8_t, kPeriods> repeated_{};  // tokens, with the period index + 1
  std::size_t count_ = 0;                          // of tokens
};

class LevelTrack final {
 public:
  // profile: in which the choice was made.
  LevelTrack(LevelChoice choice, std::vector<LevelProfile> profile)
      : choice_(std::move(choice)), profile_(std::move(profile)) {}

  const LevelChoice& choice() const { return choice_; }
  std::size_t level() const { return switches_.empty() ? choice_.level : switches_.back().level; }
  const std::string& name() const { return profile_[level()].name; }  // of that level
  // In order; none: the level that was chosen has answered alone.
  const std::vector<LevelSwitch>& switches() const { return switches_; }
  // Where the named course has its next switch; nothing: there is none left.
  std::optional<LevelSwitch> next_named() const;

  // The answer's next token. If it is not its last: the level to go on with; nothing: the same one.
  std::optional<std::size_t> push(TokenId token);
  // Behind the last token.
  void go_on_with(std::size_t level) {
    switches_.push_back({.from_token = tokens_, .level = level});
  }
  // From now on an answer that loops stays with its level.
  void stay() { choice_.leaves_loops = false; }

 private:
  LevelChoice choice_;
  std::vector<LevelProfile> profile_;
  std::vector<LevelSwitch> switches_;
  std::int64_t tokens_ = 0;
  LoopWatch loops_;
};

}  // namespace outrider
