// Texts of files, from which look-up drafts beside the prompt and earlier answers: manuals, logs of
// this robot's answers, code of its project.
//
// Thread rule: pure functions, except that files are read. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/status.h"
#include "common/decoding/drafting/lookup/lookup_model.h"
#include "common/engine/text/tokenizer.h"

namespace outrider {

// path: a file, or a folder whose files are read in the order of their names, folders in it left
// out. If the files hold too much together, the rest is left out, and stderr says so. NOT_FOUND:
// there is none; INVALID_ARGUMENT: it is not UTF-8 text; both name the file.
Status remember_corpus(const std::string& path, const Tokenizer& tokenizer, LookupModel& lookup);

}  // namespace outrider
