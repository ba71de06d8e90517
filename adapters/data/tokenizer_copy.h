// Thread rule: free function. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"

namespace outrider {

// Writes the tokenizer of a directory or of a GGUF file, with its chat templates, into a directory.
// A GGUF file's tokenizer becomes a tokenizer.gguf. Files of another tokenizer there are removed.
// Does nothing if `from` is `to`. Errors: kNotFound if there is no tokenizer, kResourceExhausted if
// the files cannot be written.
Status copy_tokenizer(const std::string& from, const std::string& to);

}  // namespace outrider
