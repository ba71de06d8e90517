// The only file whose compilation names a folder of this machine: all others come from the
// compiler's cache wherever the checkout is. SPDX-License-Identifier: Apache-2.0
#include "tests/support/paths.h"

namespace outrider {

std::string source_dir() {
  return OUTRIDER_SOURCE_DIR;
}

std::string bin_dir() {
  return OUTRIDER_BIN_DIR;
}

}  // namespace outrider
