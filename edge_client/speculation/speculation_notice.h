// Reports to the user that speculation went off or on. The controller may change its course every
// few verdicts, to try whether drafting pays by now; only a change that holds is reported.
//
//   told.begin(true);                                    // an answer begins
//   told.on_change(false, "it does not pay", now);       // the course changes
//   if (auto line = told.due(now)) say(*line);           // after each verdict
//
// Thread rule: pure, time is an argument; one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "common/base/clock.h"

namespace outrider {

class SpeculationNotice final {
 public:
  static constexpr Duration kHolds = std::chrono::seconds(5);

  // An answer begins on this course. The caller reports the first one; a later one counts as
  // a change, with the reason of the last if it is the same.
  void begin(bool speculates, const std::string& reason, TimePoint now) {
    if (!told_) told_ = speculates;
    on_change(speculates, reason, now);
  }

  void on_change(bool speculates, std::string reason, TimePoint now) {
    if (speculates == *told_) {
      news_.reset();
    } else if (!news_) {
      news_ = News{std::move(reason), now};
    }
  }

  // The line, once.
  std::optional<std::string> due(TimePoint now) {
    if (!news_ || now - news_->since < kHolds) return std::nullopt;
    told_ = !*told_;
    const std::string reason = std::exchange(news_, std::nullopt)->reason;
    return (*told_ ? "speculation: ON again " : "speculation: OFF, because ") + reason;
  }

 private:
  struct News {
    std::string reason;
    TimePoint since;
  };

  std::optional<bool> told_;  // whether it speculates, as the user knows; nothing: not yet
  std::optional<News> news_;  // that it is the other way round
};

}  // namespace outrider
