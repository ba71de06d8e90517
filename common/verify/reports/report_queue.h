// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "common/base/enum_names.h"

namespace outrider {

// In which order exit reports go (exit_reporter.h).
enum class ReportQueue : std::uint8_t {
  kPriority,  // the surest guess first (FSD, algorithm 2)
  kFifo,
};

template <>
inline constexpr auto enum_names<ReportQueue> = std::to_array<EnumName<ReportQueue>>(
    {{ReportQueue::kPriority, "priority"}, {ReportQueue::kFifo, "fifo"}});

}  // namespace outrider
