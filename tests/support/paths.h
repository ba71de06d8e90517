// Where the project's files and programs are, for tests. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace outrider {

// The root of the source tree.
std::string source_dir();
// The folder of this build's programs.
std::string bin_dir();

}  // namespace outrider
