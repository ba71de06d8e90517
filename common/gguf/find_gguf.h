// Which file a model's path means, where that may be a GGUF file.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// `path` itself if it is a file; the GGUF file, or first part, that a directory holds; nothing for
// a directory without one or with safetensors weights, which go first. kInvalidArgument names the
// files if a directory holds several models. A path that is not there gives nothing.
Result<std::optional<std::string>> find_gguf(const std::string& path);

// The names of all parts if `path` is one of them by its name, else `path` alone. At most 99,999,
// and no part is looked for.
std::vector<std::string> gguf_parts(const std::string& path);

// "SmolLM2-135M" for "models/SmolLM2-135M-00001-of-00002.gguf".
std::string gguf_name(const std::string& path);

}  // namespace outrider
