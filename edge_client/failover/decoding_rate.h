// Tokens per second of a target, as verdicts bring them: the last twenty or so count. Prefills and
// the time between two streams are left out.
//
//   (on_stream on_verdict*)*
//
// Thread rule: a value. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "common/base/clock.h"

namespace outrider {

class DecodingRate final {
 public:
  void on_stream() { last_.reset(); }
  void on_verdict(std::size_t tokens, TimePoint now) {
    constexpr double kKept = 0.95;
    if (last_) {
      tokens_ = kKept * tokens_ + static_cast<double>(tokens);
      seconds_ = kKept * seconds_ + to_seconds(now - *last_);
    }
    last_ = now;
  }
  // Nothing before it was measured.
  std::optional<double> per_s() const {
    if (seconds_ <= 0) return std::nullopt;
    return tokens_ / seconds_;
  }

 private:
  std::optional<TimePoint> last_;
  double tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace outrider
