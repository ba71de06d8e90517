// The page at "/": a conversation with the edge, in one file without anything from elsewhere.
//
// Thread rule: any thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace outrider {

std::string_view chat_page();

}  // namespace outrider
