// Flags of the link to a server.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/App.hpp>

#include "common/base/status.h"
#include "edge_client/main/options.h"

namespace outrider {

void add_link_flags(CLI::App& command, AnswerOptions& options);

// INVALID_ARGUMENT unless TLS is whole, and on where the link leaves this machine or --insecure is
// said.
Status check_link(const GenerationConfig& config, const AnswerOptions& options);

}  // namespace outrider
