// Where the FSD paper contradicts itself, computed from what it prints.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outrider {

// Those that bear on a table or figure of `outrider-bench reproduce` ("fsd-table6"), a sentence
// each; empty: none is known.
std::vector<std::string> contradictions_of(std::string_view what);

}  // namespace outrider
