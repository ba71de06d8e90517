// choose() and rank() against plain_choice.h on drawn rows: vocabularies, shapes, filters,
// temperatures, seeds and positions all drawn.
//
// Thread rule: pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace outrider {

struct ComparedRows {
  std::int64_t rows = 0;
  std::int64_t wrong = 0;
  std::string first_wrong = {};  // its settings, in words
};

// Rows numbered [first, first + rows). Of a hundred rows 90 have at most 3,072 tokens, 8 at most
// 32,000, one 49,152 or 128,256 and one 151,936.
ComparedRows compare_choices(std::int64_t first, std::int64_t rows);

}  // namespace outrider
