// The text of --pace-pass-ms and --pace-step-ms: an accepted one is finite, and survives writing
// and reading. SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/emulated/pace.h"

#include <cstddef>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using outrider::PaceCurve;
  constexpr double kMaxMs = 3.7e6;  // an hour, and some for rounding
  const auto curve = PaceCurve::parse({reinterpret_cast<const char*>(data), size});
  if (!curve.ok()) return 0;
  for (const std::int64_t rows : {0, 1, 5, 33, 1 << 30}) {
    OUTRIDER_CHECK(curve->ms(rows) >= 0 && curve->ms(rows) <= kMaxMs);
  }
  const auto again = PaceCurve::parse(curve->to_string());
  OUTRIDER_CHECK(again.ok() && again->to_string() == curve->to_string());
  return 0;
}
