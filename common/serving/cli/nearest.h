// The known word that a misspelt one most likely meant.
//
// Thread rule: pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outrider {

// The known word with the fewest edits (insertion, deletion, replacement, swap of neighbours) from
// `word`, or "" if even that one differs in more than a third of its letters.
std::string nearest_match(std::string_view word, const std::vector<std::string>& known);

}  // namespace outrider
