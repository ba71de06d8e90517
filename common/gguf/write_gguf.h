// Thread rule: a pure function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/gguf/gguf_metadata.h"

namespace outrider {

// A GGUF file (version 3) of these keys and no tensors, which parse_gguf() reads back.
std::string write_gguf(const GgufMetadata& metadata);

}  // namespace outrider
