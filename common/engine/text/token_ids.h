// Token ids in JSON from users and clients.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/json.h"
#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

// The ids of a JSON array. INVALID_ARGUMENT, with `where`, names the first element that cannot be
// an id.
Result<std::vector<TokenId>> token_ids_of(const Json& json, const std::string& where);

}  // namespace outrider
