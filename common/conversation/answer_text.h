// Tokens to text as the session needs it: piecewise, with stop strings.
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
    std::string text;      // may be shown now; will never be taken back
    bool stopped = false;  // a stop string is complete: the answer ended before it
  };

  // Takes the next committed token.
  virtual Update push(TokenId token) = 0;

  // What could be shown of the text if these tokens came next.
  virtual std::string preview(std::span<const TokenId> /*tokens*/) const { return {}; }

  // No more tokens: what was held back.
  virtual std::string finish() = 0;
};

}  // namespace outrider
