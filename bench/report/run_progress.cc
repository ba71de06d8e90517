// SPDX-License-Identifier: Apache-2.0
#include "bench/report/run_progress.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdio>

namespace outrider {
namespace {

constexpr Duration kBetweenLines = std::chrono::seconds(10);

std::string clock_text(double seconds) {
  const auto whole = static_cast<long>(seconds + 0.5);
  if (whole >= 3600) {
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  }
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

RunProgress::RunProgress(const GridPlan& plan, Clock& clock, bool terminal)
    : plan_(plan),
      clock_(clock),
      terminal_(terminal),
      total_(jobs_of(plan, PromptOrder::kInside).size()),
      began_(clock.now()) {}

RunProgress::~RunProgress() {
  if (terminal_ && shown_at_) std::fputc('\n', stderr);
}

void RunProgress::announce() const {
  std::fprintf(stderr,
               "%zu answers of at most %d tokens are to come: %zu prompts, %d repetition(s), %zu "
               "strategies, %zu settings. The first ones show how long all take.\n",
               total_, plan_.max_tokens, plan_.prompts.size(), plan_.repetitions,
               plan_.variants.size(), plan_.settings.size());
}

Status RunProgress::on_finished(const FinishedAnswer& answer) {
  ++done_;
  last_ = answer.job;
  if (answer.failed()) {
    ++failed_;
    std::fprintf(stderr, "%s%s at %s, prompt %zu, failed: %s\n", terminal_ ? "\r\033[K" : "",
                 plan_.variants[answer.job.variant].name.c_str(),
                 plan_.settings[answer.job.setting].name.c_str(), answer.job.prompt + 1,
                 answer.error.c_str());
  } else {
    sums_[{answer.job.setting, answer.job.variant}] += answer.answer.figures;
  }
  show();
  return {};
}

void RunProgress::show() {
  const TimePoint now = clock_.now();
  const bool last = done_ + skipped_ == total_;
  if (!terminal_ && !last && shown_at_ && now - *shown_at_ < kBetweenLines) return;
  shown_at_ = now;
  std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", line().c_str());
  std::fflush(stderr);
}

std::string RunProgress::live(const AnswerJob& job) const {
  const auto find = [&](std::size_t variant) -> std::optional<double> {
    const auto found = sums_.find({job.setting, variant});
    return found == sums_.end() ? std::nullopt : found->second.tpot_ms();
  };
  const std::optional<double> own = find(job.variant);
  if (!own || *own <= 0) return "";
  std::string text = fmt::format(" | {}  {} {:.1f} tokens/s", plan_.settings[job.setting].name,
                                 plan_.variants[job.variant].name, 1e3 / *own);
  const auto plain = std::ranges::find_if(
      plan_.variants, [](const GridVariant& variant) { return variant.strategy == Strategy::kAr; });
  if (plain == plan_.variants.end()) return text;
  const auto base = find(static_cast<std::size_t>(plain - plan_.variants.begin()));
  if (base && plan_.variants[job.variant].strategy != Strategy::kAr) {
    text += fmt::format(", {:.2f} x ar", *base / *own);
  }
  return text;
}

std::string RunProgress::line() const {
  const std::size_t all = done_ + skipped_;
  std::string text = fmt::format("{} of {}", all, total_);
  if (skipped_ > 0) text += fmt::format(" ({} of an earlier run)", skipped_);
  if (failed_ > 0) text += fmt::format(", {} failed", failed_);
  if (done_ > 0 && all < total_) {
    const double each = to_seconds(clock_.now() - began_) / static_cast<double>(done_);
    text += ", " + clock_text(each * static_cast<double>(total_ - all)) + " left";
  }
  return last_ ? text + live(*last_) : text;
}

}  // namespace outrider
