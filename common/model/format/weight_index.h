// model.safetensors.index.json: which shard holds which tensor.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "common/base/status.h"

namespace outrider {

// Tensor name to file name. File names are plain names ending in ".safetensors": no folder, no
// URL, so that none leads out of the model directory. `what` names the index in errors.
Result<std::map<std::string, std::string>> parse_weight_index(std::string_view text,
                                                              const std::string& what);

}  // namespace outrider
