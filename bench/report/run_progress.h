// Progress of a run for people: the share done, the time left, and live figures.
//
// On a terminal one line that is redrawn; elsewhere a line at most every ten seconds.
//
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "bench/harness/grid.h"
#include "common/base/clock.h"

namespace outrider {

class RunProgress final : public GridListener {
 public:
  // plan and clock must outlive this object.
  RunProgress(const GridPlan& plan, Clock& clock, bool terminal);
  ~RunProgress();
  RunProgress(const RunProgress&) = delete;
  RunProgress& operator=(const RunProgress&) = delete;

  // How many answers are to come, before the first.
  void announce() const;
  void skip() { ++skipped_; }  // an earlier run has this request
  Status on_finished(const FinishedAnswer& answer) override;

  // "12 of 80, 1 failed, 0:42 left | lte, table9  mirror 41.2 tokens/s, 1.62 x ar"
  std::string line() const;

 private:
  void show();
  std::string live(const AnswerJob& job) const;

  const GridPlan& plan_;
  Clock& clock_;
  const bool terminal_;
  const std::size_t total_;
  const TimePoint began_;
  std::size_t skipped_ = 0;
  std::size_t done_ = 0;
  std::size_t failed_ = 0;
  std::optional<AnswerJob> last_;
  std::map<std::pair<std::size_t, std::size_t>, AnswerFigures> sums_;  // [setting, variant]
  std::optional<TimePoint> shown_at_;
};

}  // namespace outrider
