// What carries out the answers of a grid: real programs over a link, or the simulation.
//
// Call order: for each reference reference(); for the answers begin() answer()* end(), again and
// again. Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "bench/harness/answer.h"
#include "bench/harness/grid_plan.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/model/emulated/paced_model.h"

namespace outrider {

enum class RunClock : std::uint8_t { kReal, kVirtual };

template <>
inline constexpr auto enum_names<RunClock> =
    std::to_array<EnumName<RunClock>>({{RunClock::kReal, "real"}, {RunClock::kVirtual, "virtual"}});

class AnswerExecutor {
 public:
  virtual ~AnswerExecutor() = default;

  virtual RunClock clock() const = 0;
  virtual PromptOrder order() const = 0;
  // How the link of a setting came about: "emulated", "modelled", "simulated", "the real network".
  virtual std::string link_kind(std::size_t setting) const = 0;

  // What must fail fails here and not after an hour: one short answer of each variant, not counted.
  virtual Status warm_up() = 0;
  // The tokens that the setting's target alone writes, without pace or delay.
  virtual Result<std::vector<TokenId>> reference(std::size_t prompt,
                                                 const GridSetting& setting) = 0;

  virtual Status begin(std::size_t setting) = 0;
  // INVALID_ARGUMENT: no answer of this variant can be had. Other errors are this answer's.
  virtual Result<EdgeAnswer> answer(const AnswerJob& job) = 0;
  // What the target counted of its emulated pace since begin().
  virtual PaceCounts end() = 0;
};

}  // namespace outrider
