// Finds the GGUF file that a model's path means, and what to say where there is no model.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/status.h"

namespace outrider {

// `path` itself if it is a file; for a directory its GGUF file, or first part; nothing for a
// directory without one, or with safetensors weights, which have priority. kInvalidArgument names
// the files if a directory holds several models. A path that does not exist gives nothing.
Result<std::optional<std::string>> find_gguf(const std::string& path);

// The names of all parts if the name `path` is one of a part, else `path` alone. At most 99,999;
// does not check that they exist.
std::vector<std::string> gguf_parts(const std::string& path);

// "SmolLM2-135M" for "models/SmolLM2-135M-00001-of-00002.gguf".
std::string gguf_name(const std::string& path);

// ". Remedy: .." for a path that holds no whole model: what makes one of it, or what to name
// instead.
std::string remedy_without_model(const std::string& path);

}  // namespace outrider
