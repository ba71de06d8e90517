// What an error number of the operating system means, in its words.
//
// Thread rule: pure. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <system_error>

namespace outrider {

inline std::string errno_message(int error) {
  return std::generic_category().message(error);
}

}  // namespace outrider
