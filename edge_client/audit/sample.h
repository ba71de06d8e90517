// Which answers of a file are audited where a share is enough, and what that leaves to a forger.
//
// Thread rule: pure functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace outrider {

// By index: whether the answer is drawn. share: 0 to 1; at least one of them is, and of 1 all. The
// same for the same seed. A forger must not know the seed before the file is closed.
std::vector<bool> draw_answers(std::size_t answers, double share, std::uint64_t seed);

// The chance that none of so many forged answers is among so many that were drawn of all.
double escape_chance(std::size_t answers, std::size_t drawn, std::size_t forged);

// One sentence with that chance for one forged answer, and for more.
std::string escape_text(std::size_t answers, std::size_t drawn);

}  // namespace outrider
