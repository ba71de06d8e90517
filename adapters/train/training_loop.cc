// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/training_loop.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "adapters/data/progress.h"
#include "adapters/plot/line_plot.h"
#include "adapters/train/model_io.h"
#include "common/base/clock.h"
#include "common/base/output_file.h"
#include "common/engine/model/format/safetensors_writer.h"

namespace outrider {
namespace {

volatile std::sig_atomic_t stop_wanted = 0;

// A run in progress.
class TrainingRun final {
 public:
  TrainingRun(Learner& learner, const RunOptions& options, const RunNames& names)
      : learner_(learner), options_(options), names_(names) {}

  Status start();
  Status to_end();

 private:
  std::string path(const std::string& file) const { return options_.out + "/" + file; }
  Status check_outputs() const;
  Status resume();
  Status step();
  Status write_checkpoint();
  bool due(std::int64_t every) const { return steps_ % every == 0 || steps_ == end_; }
  std::string note() const;

  Learner& learner_;
  const RunOptions& options_;
  const RunNames& names_;
  std::optional<MetricsFile> metrics_;
  SystemClock clock_;
  TimePoint started_;
  std::int64_t steps_ = 0;  // completed
  std::int64_t end_ = 0;
  std::int64_t tokens_ = 0;  // in this process
};

Status TrainingRun::resume() {
  OUTRIDER_ASSIGN_OR_RETURN(const NamedTensors tensors, read_tensors(path(names_.checkpoint)));
  const auto step = std::find_if(tensors.begin(), tensors.end(),
                                 [](const auto& entry) { return entry.first == "step"; });
  if (step == tensors.end() || step->second.numel() != 1) {
    return data_loss(path(names_.checkpoint) + ": no step. Remedy: start a new run");
  }
  steps_ = static_cast<std::int64_t>(step->second.item<float>());
  return learner_.restore(tensors, steps_);
}

// Whether what the run will write may be written: not only after hours.
Status TrainingRun::check_outputs() const {
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(path(names_.checkpoint), kCheckpointFile));
  OUTRIDER_RETURN_IF_ERROR(OutputFile::check(path("model.safetensors"), kSafetensorsFile));
  return OutputFile::check(path("loss.svg"), kPlotFile);
}

Status TrainingRun::start() {
  std::error_code error;
  std::filesystem::create_directories(options_.out, error);
  if (error) return invalid_argument("--out " + options_.out + ": " + error.message());
  const bool has_run = std::filesystem::exists(path(names_.checkpoint), error);
  if (has_run && !options_.resume) {
    return invalid_argument("--out " + options_.out +
                            " holds a run. Remedy: --resume, or another directory");
  }
  OUTRIDER_RETURN_IF_ERROR(check_outputs());
  OUTRIDER_RETURN_IF_ERROR(learner_.prepare());
  if (has_run) OUTRIDER_RETURN_IF_ERROR(resume());
  OUTRIDER_ASSIGN_OR_RETURN(metrics_, MetricsFile::open(path("metrics.jsonl"), steps_));
  end_ = options_.optimizer.total_steps;
  if (options_.stop_after > 0) end_ = std::min(end_, steps_ + options_.stop_after);
  started_ = clock_.now();
  return {};
}

Status TrainingRun::step() {
  StepMetrics metrics;
  metrics.learning_rate = learning_rate_at(options_.optimizer, steps_);
  OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t tokens, learner_.learn(metrics));
  metrics.step = ++steps_;
  tokens_ += tokens;
  metrics.tokens_per_s = static_cast<double>(tokens_) / to_seconds(clock_.now() - started_);
  if (due(options_.evaluate_every)) OUTRIDER_RETURN_IF_ERROR(learner_.measure(metrics));
  return metrics_->append(metrics);
}

Status TrainingRun::write_checkpoint() {
  NamedTensors tensors = learner_.state();
  tensors.emplace_back("step", at::full({1}, static_cast<double>(steps_), at::kFloat));
  OUTRIDER_RETURN_IF_ERROR(write_tensors(path(names_.checkpoint), tensors));
  OUTRIDER_RETURN_IF_ERROR(
      write_output(path("loss.svg"), kPlotFile, loss_plot_svg(metrics_->all(), names_.title)));
  return learner_.save();
}

std::string TrainingRun::note() const {
  const StepMetrics& latest = metrics_->all().back();
  char text[64];
  std::snprintf(text, sizeof text, "loss %.3f  %.0f tokens/s", latest.loss, latest.tokens_per_s);
  return text;
}

Status TrainingRun::to_end() {
  ProgressBar bar(names_.name, steps_, std::max<std::int64_t>(1, end_));
  while (steps_ < end_) {
    OUTRIDER_RETURN_IF_ERROR(step());
    bar.show(steps_, note());
    const bool stopped = stop_wanted != 0;
    const bool done = learner_.is_done();
    if (stopped || done || due(options_.checkpoint_every)) {
      OUTRIDER_RETURN_IF_ERROR(write_checkpoint());
    }
    if (done) return {};
    if (stopped) {
      return cancelled("stopped after step " + std::to_string(steps_) +
                       "; --resume continues there");
    }
  }
  return {};
}

}  // namespace

Status run_training(Learner& learner, const RunOptions& options, const RunNames& names) {
  TrainingRun run(learner, options, names);
  OUTRIDER_RETURN_IF_ERROR(run.start());
  return run.to_end();
}

void stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop_wanted = 1; });
}

}  // namespace outrider
