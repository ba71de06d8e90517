// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/trainer.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "adapters/data/progress.h"
#include "adapters/train/border.h"
#include "adapters/train/evaluate.h"
#include "adapters/train/fused.h"
#include "adapters/train/model_io.h"
#include "adapters/train/run_files.h"

namespace outrider {
namespace {

volatile std::sig_atomic_t stop_wanted = 0;

Batch next_batch(Packer& packer, const TrainOptions& options, std::int64_t step) {
  const bool is_long =
      options.long_every > 0 && step % options.long_every == options.long_every - 1;
  const std::int64_t rows = is_long ? std::max<std::int64_t>(1, options.batch / 2) : options.batch;
  const std::int64_t length = is_long ? 2 * options.length : options.length;
  Batch batch{at::empty({rows, length}, at::kLong), {}, {}, at::zeros({rows * length}, at::kLong)};
  std::vector<std::int64_t> places, targets;
  auto* ids = batch.ids.data_ptr<std::int64_t>();
  for (std::int64_t row = 0; row < rows; ++row) {
    const Sequence sequence = packer.next(length);
    std::copy_n(sequence.tokens.begin(), length, ids + row * length);
    if (!is_long) {
      std::copy_n(sequence.starts.begin(), length,
                  batch.starts.data_ptr<std::int64_t>() + row * length);
    }
    for (std::int64_t i = 0; i < length; ++i) {
      if (sequence.learnt[static_cast<std::size_t>(i + 1)] == 0) continue;
      places.push_back(row * length + i);
      targets.push_back(sequence.tokens[static_cast<std::size_t>(i + 1)]);
    }
  }
  batch.places = at::tensor(places, at::kLong);
  batch.targets = at::tensor(targets, at::kLong);
  return batch;
}

// A run in progress: all that a step or a checkpoint touches.
class Run final {
 public:
  Run(Llama& model, Packer& packer, const TrainOptions& options)
      : model_(model),
        packer_(packer),
        options_(options),
        optimizer_(model.parameters(), options.optimizer) {}

  Status start();
  Status step(const LossFunction& loss, const std::vector<HeldOut>& held_out);
  Status checkpoint();

  std::int64_t steps_done() const { return optimizer_.steps_done(); }
  std::int64_t end() const { return end_; }
  const StepMetrics& latest() const { return metrics_->all().back(); }

 private:
  std::string path(const char* name) const { return options_.out + "/" + name; }
  Status resume();

  Llama& model_;
  Packer& packer_;
  const TrainOptions& options_;
  AdamW optimizer_;
  std::optional<MetricsFile> metrics_;
  SystemClock clock_;
  TimePoint started_;
  double tokens_ = 0;
  std::int64_t end_ = 0;
};

Status Run::resume() {
  OUTRIDER_ASSIGN_OR_RETURN(const NamedTensors tensors,
                            read_tensors(path("checkpoint.safetensors")));
  const auto step = std::find_if(tensors.begin(), tensors.end(),
                                 [](const auto& entry) { return entry.first == "step"; });
  if (step == tensors.end() || step->second.numel() != 1) {
    return data_loss(path("checkpoint.safetensors") + ": no step. Remedy: start the run afresh");
  }
  const auto done = static_cast<std::int64_t>(step->second.item<float>());
  model_.load_state(tensors);
  optimizer_.load_state(tensors, done);
  for (std::int64_t i = 0; i < done; ++i) next_batch(packer_, options_, i);
  return {};
}

Status Run::start() {
  std::error_code error;
  std::filesystem::create_directories(options_.out, error);
  if (error) return invalid_argument("--out " + options_.out + ": " + error.message());
  const bool has_run = std::filesystem::exists(path("checkpoint.safetensors"), error);
  if (has_run && !options_.resume) {
    return invalid_argument("--out " + options_.out +
                            " holds a run. Remedy: --resume to go on, or another directory");
  }
  if (has_run) OUTRIDER_RETURN_IF_ERROR(resume());
  OUTRIDER_ASSIGN_OR_RETURN(metrics_, MetricsFile::open(path("metrics.jsonl"), steps_done()));
  end_ = options_.optimizer.total_steps;
  if (options_.stop_after > 0) end_ = std::min(end_, steps_done() + options_.stop_after);
  started_ = clock_.now();
  return {};
}

Status Run::step(const LossFunction& loss, const std::vector<HeldOut>& held_out) {
  const Batch batch = next_batch(packer_, options_, steps_done());
  StepMetrics metrics;
  metrics.learning_rate = learning_rate_at(options_.optimizer, steps_done());
  const at::Tensor value = loss(batch);
  value.backward();
  metrics.gradient_norm = optimizer_.step();
  metrics.loss = value.item<double>();
  metrics.step = steps_done();
  tokens_ += static_cast<double>(batch.ids.numel());
  metrics.tokens_per_s = tokens_ / to_seconds(clock_.now() - started_);
  if (steps_done() % options_.evaluate_every == 0 || steps_done() == end_) {
    for (const HeldOut& set : held_out) {
      metrics.held_out[set.name] = evaluate(model_, set.documents);
    }
  }
  metrics_->append(metrics);
  return {};
}

Status Run::checkpoint() {
  NamedTensors tensors = model_.state();
  for (auto& entry : optimizer_.state()) tensors.push_back(std::move(entry));
  tensors.emplace_back("step", at::full({1}, static_cast<double>(steps_done()), at::kFloat));
  OUTRIDER_RETURN_IF_ERROR(write_tensors(path("checkpoint.safetensors"), tensors));
  OUTRIDER_RETURN_IF_ERROR(save_model(options_.out, model_, options_.dtype, options_.tokenizer));
  std::ofstream(path("loss.svg"), std::ios::binary)
      << loss_plot_svg(metrics_->all(), std::filesystem::path(options_.out).filename().string());
  return {};
}

std::string note_of(const StepMetrics& metrics) {
  char text[64];
  std::snprintf(text, sizeof text, "loss %.3f  %.0f tokens/s", metrics.loss, metrics.tokens_per_s);
  return text;
}

Status run_to_end(Run& run, const LossFunction& loss, const std::vector<HeldOut>& held_out,
                  const TrainOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(run.start());
  ProgressBar bar("train", run.steps_done(), run.end());
  while (run.steps_done() < run.end()) {
    OUTRIDER_RETURN_IF_ERROR(run.step(loss, held_out));
    bar.show(run.steps_done(), note_of(run.latest()));
    if (stop_was_asked_for()) {
      OUTRIDER_RETURN_IF_ERROR(run.checkpoint());
      return cancelled("stopped after step " + std::to_string(run.steps_done()) +
                       "; --resume goes on from there");
    }
    if (run.steps_done() % options.checkpoint_every == 0 || run.steps_done() == run.end()) {
      OUTRIDER_RETURN_IF_ERROR(run.checkpoint());
    }
  }
  return {};
}

}  // namespace

at::Tensor next_token_loss(const Llama& model, const Batch& batch) {
  const at::Tensor rows = model.hidden(batch.ids, batch.starts).index_select(0, batch.places);
  return fused_cross_entropy(model.logits(rows), batch.targets);
}

Status train(Llama& model, Packer packer, const LossFunction& loss,
             const std::vector<HeldOut>& held_out, const TrainOptions& options) {
  const std::int64_t longest = options.length * (options.long_every > 0 ? 2 : 1);
  if (options.batch < 1 || options.length < 8 || longest > model.config().max_positions) {
    return invalid_argument("--batch " + std::to_string(options.batch) + " --length " +
                            std::to_string(options.length) + ": sequences of up to " +
                            std::to_string(longest) + " tokens do not fit a context of " +
                            std::to_string(model.config().max_positions));
  }
  return guarded([&] {
    Run run(model, packer, options);
    return run_to_end(run, loss, held_out, options);
  });
}

bool stop_was_asked_for() {
  return stop_wanted != 0;
}

void stop_on_signals() {
  for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, [](int) { stop_wanted = 1; });
}

}  // namespace outrider
