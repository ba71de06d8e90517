// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/model.h"

namespace outrider {

Result<std::unique_ptr<KvCache>> Model::new_cache(std::int32_t capacity) {
  if (capacity <= 0) {
    return invalid_argument("KV cache of " + std::to_string(capacity) +
                            " slots. Remedy: request at least 1");
  }
  if (capacity / KvPages::kRows > KvPages::kMost / 2) {
    return resource_exhausted("a KV cache of " + std::to_string(capacity) +
                              " slots is larger than any memory. Remedy: a shorter context "
                              "(--max-model-len of outrider-server, -c of outrider-edge)");
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::shared_ptr<KvPages> pages,
                            new_pages(KvSlots::pages_for(capacity)));
  return std::make_unique<KvCache>(std::move(pages), capacity);
}

}  // namespace outrider
