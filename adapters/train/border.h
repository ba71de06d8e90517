// Turns libtorch's exceptions into a Status: none of them leaves the library.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

#include "common/base/status.h"

namespace outrider {

// body() returns a Status or a Result.
template <typename Body>
auto guarded(const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const std::exception& error) {
    // libtorch appends a stack trace after the first line.
    const std::string text = error.what();
    return internal_error(text.substr(0, text.find('\n')));
  }
}

}  // namespace outrider
