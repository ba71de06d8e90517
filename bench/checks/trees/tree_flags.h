// The flags that all checks of trees have.
//
// Thread rule: none. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "bench/trees/tree_run.h"

namespace outrider {

// Models, prompts, sampling and the length of answers. run, prompts: outlive the command.
void add_tree_run_flags(CLI::App& command, TreeRunOptions& run, std::vector<std::string>& prompts);

}  // namespace outrider
