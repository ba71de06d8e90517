// The only file whose compilation contains a folder of this machine. All others can come from the
// compiler's cache for a checkout in any folder. SPDX-License-Identifier: Apache-2.0
#include "tests/support/paths.h"

namespace outrider {

std::string source_dir() {
  return OUTRIDER_SOURCE_DIR;
}

std::string bin_dir() {
  return OUTRIDER_BIN_DIR;
}

}  // namespace outrider
