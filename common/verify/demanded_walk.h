// Chooses along the nodes of a pass whose logits are computed on demand: those of the row that the
// walk stands at, together with rows below it that it will likely come to. A few rows take little
// longer than one, as the output matrix is read once for them.
//
//   (clear run? chosen*)*
//
// Thread rule: the compute thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/status.h"
#include "common/base/types.h"
#include "common/verify/pass_plan.h"
#include "common/verify/pass_runner.h"
#include "common/verify/session.h"

namespace outrider {

class DemandedWalk final {
 public:
  void clear() { chosen_.clear(); }

  // runner: has computed `plan`, the session's, and demands(). Errors: of the rows' logits.
  Status run(const PassPlan& plan, const VerifySession& session, PassRunner& runner);

  // What stands behind this row, in Chooser's numbering; nothing: no walk came to it.
  std::optional<TokenId> chosen(std::size_t row) const {
    return row < chosen_.size() ? chosen_[row] : std::nullopt;
  }

 private:
  std::vector<std::optional<TokenId>> chosen_;
};

// Rows to compute for a walk that stands at `row`, in Chooser's numbering: itself, then the
// likeliest below it that are not `there` yet. ended: of a node, as PassPlan::NodeRow says.
std::vector<std::size_t> rows_ahead(const PassPlan& plan, std::size_t row,
                                    const std::vector<bool>& there);

}  // namespace outrider
