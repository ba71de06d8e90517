// The sources of drafts, on a device or beside a target.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "common/base/enum_names.h"

namespace outrider {

enum class DraftSource : std::uint8_t {
  kModel,   // a draft model
  kLookup,  // earlier places where the text was as it is now (look_up.h)
  kBoth,    // in one tree
  kNone,    // nothing is drafted
};

template <>
inline constexpr auto enum_names<DraftSource> =
    std::to_array<EnumName<DraftSource>>({{DraftSource::kModel, "model"},
                                          {DraftSource::kLookup, "lookup"},
                                          {DraftSource::kBoth, "both"},
                                          {DraftSource::kNone, "none"}});

constexpr bool uses_model(DraftSource source) {
  return source == DraftSource::kModel || source == DraftSource::kBoth;
}
constexpr bool uses_lookup(DraftSource source) {
  return source == DraftSource::kLookup || source == DraftSource::kBoth;
}

}  // namespace outrider
