// A model that is mapped from a file which somebody may cut short: each pass begins with a look at
// the file's length, as touching a mapped page beyond it would end the program.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/model/model.h"

namespace outrider {

// Passes give DATA_LOSS once the file is shorter than it is now. Errors: NOT_FOUND.
Result<std::unique_ptr<Model>> make_whole_file_model(std::unique_ptr<Model> model,
                                                     const std::string& path);

}  // namespace outrider
