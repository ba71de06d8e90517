// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/trace_file.h"

#include <fstream>

namespace outrider {

Status TraceFile::write() const {
  if (path_.empty()) return {};
  std::ofstream file(path_, std::ios::binary);
  file << timeline_.chrome_trace();
  file.close();
  if (file) return {};
  return invalid_argument("--trace " + path_ + ": cannot be written");
}

}  // namespace outrider
