// SPDX-License-Identifier: Apache-2.0
#include "common/base/random_id.h"

#include <cstdio>
#include <random>

namespace outrider {

std::string random_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", static_cast<unsigned>(random()));
    id += part;
  }
  return id;
}

}  // namespace outrider
