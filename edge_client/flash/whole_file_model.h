// A model whose embedding is mapped from a file which somebody may cut short, and from a disk that
// may fail: touching a mapped page that cannot be read would end the program. So each pass begins
// with a look at the file's length, and reads its tokens' rows, which leaves them in the system's
// page cache.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "common/base/status.h"
#include "common/engine/model/model.h"

namespace outrider {

// Where the rows of the embedding lie, one behind the other.
struct EmbeddingRows {
  std::uint64_t offset = 0;  // of the first one, in the file
  std::size_t bytes = 0;     // of one
};

// Passes give DATA_LOSS once the file is shorter than it is now, or where a row cannot be read.
// Errors: NOT_FOUND.
Result<std::unique_ptr<Model>> make_whole_file_model(std::unique_ptr<Model> model,
                                                     const std::string& path,
                                                     const EmbeddingRows& rows);

}  // namespace outrider
