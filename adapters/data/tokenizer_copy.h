// Thread rule: free function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// Copies tokenizer.json, tokenizer_config.json, and what else of a tokenizer's files there is, from
// one directory to another. Nothing happens if they are the same. Errors: kNotFound if there is
// no tokenizer, kResourceExhausted if the files cannot be written.
Status copy_tokenizer(const std::string& from, const std::string& to);

}  // namespace outrider
