// Names that nobody can guess.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace outrider {

// 128 bits from the system's source of randomness, as 32 lower-case hex digits.
std::string random_id();

}  // namespace outrider
