// The session's interface for turning tokens into text, piece by piece, with stop strings.
//
// Thread rule: owned by the session. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "common/base/types.h"

namespace outrider {

class AnswerText {
 public:
  virtual ~AnswerText() = default;

  struct Update {
    std::string text;      // may be shown now; is never withdrawn
    bool stopped = false;  // a stop string is complete: the answer ends before it
  };

  // Takes the next committed token.
  virtual Update push(TokenId token) = 0;

  // The result that push() would return if these tokens came next, together; ends: with finish()
  // after them.
  virtual Update preview(std::span<const TokenId> /*tokens*/, bool /*ends*/) const { return {}; }

  // Ends the answer; returns the text that was held back.
  virtual std::string finish() = 0;
};

}  // namespace outrider
