// Parses the JSON header of a safetensors file as a stream, without a tree of JSON values: a
// malicious header costs no more memory than the tensors it names.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/engine/model/format/safetensors.h"

namespace outrider {

// The tensors with the offsets of the header, relative to the data. Refuses duplicate and unknown
// keys, more than kMaxSafetensorsTensors tensors, and metadata that is not string to string.
Result<std::vector<SafetensorsEntry>> parse_safetensors_header(std::string_view header,
                                                               const std::string& what);

}  // namespace outrider
