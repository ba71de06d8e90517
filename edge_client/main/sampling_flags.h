// The flags that say how an answer's tokens are chosen.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>

#include "edge_client/generation/generation_config.h"

namespace outrider {

void add_sampling_flags(CLI::App& command, GenerationConfig& config);

}  // namespace outrider
