// A progress bar with time left, for work of known size.
//
//   train  [#########...........]  45 %  1800/4000  loss 2.31  3340 tokens/s  12:05 left
//
// On a terminal the line is redrawn in place; elsewhere a line is written at most every 10 s.
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "common/base/clock.h"

namespace outrider {

class ProgressBar final {
 public:
  // `first`: the count at which the work resumes; total > 0.
  ProgressBar(std::string label, std::int64_t first, std::int64_t total);
  ~ProgressBar();  // ends the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `note` stands after the count; may be empty.
  void show(std::int64_t done, const std::string& note);

 private:
  std::string label_;
  std::int64_t first_, total_;
  bool is_terminal_;
  bool drawn_ = false;
  bool ended_ = false;
  SystemClock clock_;
  TimePoint start_, last_;
};

// The bar's text, without control characters.
std::string progress_text(const std::string& label, std::int64_t done, std::int64_t total,
                          double seconds_left, const std::string& note);

}  // namespace outrider
