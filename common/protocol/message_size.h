// How much memory a message takes, so that what waits can be bounded.
//
// Thread rule: pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "common/protocol/messages.h"

namespace outrider {

std::size_t size_in_memory(const EdgeMessage& message);

}  // namespace outrider
