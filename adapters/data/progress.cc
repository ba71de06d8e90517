// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace outrider {

std::string progress_text(const std::string& label, std::int64_t done, std::int64_t total,
                          double seconds_left, const std::string& note) {
  constexpr std::int64_t kWidth = 20;
  const std::int64_t filled = done * kWidth / total;
  std::string bar(static_cast<std::size_t>(filled), '#');
  bar.resize(kWidth, '.');
  const auto left = static_cast<long long>(std::max(0.0, seconds_left));
  char time[32];
  std::snprintf(time, sizeof time, "%lld:%02lld left", left / 60, left % 60);
  return label + "  [" + bar + "]  " + std::to_string(done * 100 / total) + " %  " +
         std::to_string(done) + "/" + std::to_string(total) + (note.empty() ? "" : "  " + note) +
         "  " + time;
}

ProgressBar::ProgressBar(std::string label, std::int64_t first, std::int64_t total)
    : label_(std::move(label)),
      first_(first),
      total_(total),
      is_terminal_(isatty(STDERR_FILENO) != 0),
      start_(clock_.now()),
      last_(start_ - std::chrono::hours(1)) {}

ProgressBar::~ProgressBar() {
  if (is_terminal_ && drawn_) std::fputc('\n', stderr);
}

void ProgressBar::show(std::int64_t done, const std::string& note) {
  const TimePoint now = clock_.now();
  const Duration pause =
      is_terminal_ ? Duration(std::chrono::milliseconds(200)) : Duration(std::chrono::seconds(10));
  if (now - last_ < pause && (done < total_ || ended_)) return;
  ended_ = done >= total_;
  last_ = now;
  drawn_ = true;
  const double per_item =
      to_seconds(now - start_) / static_cast<double>(std::max<std::int64_t>(1, done - first_));
  const std::string text =
      progress_text(label_, done, total_, per_item * static_cast<double>(total_ - done), note);
  std::fprintf(stderr, is_terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
  std::fflush(stderr);
}

}  // namespace outrider
