// The tokens that a draft may propose, or exits consider: those that a teacher's labels give the
// most weight to.
//
// Thread rule: free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"

namespace outrider {

struct Shortlist {
  std::vector<TokenId> tokens = {};  // rising
  double covered = 0;                // part of the labels' weight that is theirs
};

// `size` tokens, those of `stop_ids` among them. Where the labels name fewer, the first of the
// vocabulary follow: byte-pair encodings made them of the commonest pairs. Errors: those of the
// labels' files.
Result<Shortlist> choose_shortlist(const std::string& labels, const std::vector<TokenId>& stop_ids,
                                   std::int64_t size);

}  // namespace outrider
