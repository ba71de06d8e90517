// Finds where an answer begins to repeat itself. Repeated text says nothing about a model or its
// draft, so measurements and training text are cut there. Thread rule: a pure function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "common/base/types.h"

namespace outrider {

// The length of `tokens` up to the end of the first 8-gram that occurred before; tokens.size() if
// there is none.
std::size_t length_before_repetition(const std::vector<TokenId>& tokens);

}  // namespace outrider
