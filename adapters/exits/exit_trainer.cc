// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/exit_trainer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

#include "adapters/data/progress.h"
#include "adapters/train/border.h"
#include "adapters/train/model_io.h"
#include "adapters/train/run_files.h"

namespace outrider {
namespace {

constexpr const char* kCheckpoint = "exits.safetensors";
// Held-out documents of each set that are measured while training.
constexpr std::size_t kMeasured = 24;

at::Tensor tensor_of(const std::vector<float>& values, std::size_t rows) {
  return at::from_blob(
      const_cast<float*>(values.data()),
      {static_cast<std::int64_t>(rows), static_cast<std::int64_t>(values.size() / rows)},
      at::kFloat);
}

ExitTargets targets_of(const HiddenBatch& batch) {
  return {tensor_of(batch.logits, batch.rows()),
          at::tensor(std::vector<std::int64_t>(batch.next.begin(), batch.next.end()), at::kLong)};
}

// All that a step or a checkpoint touches.
class ExitRun final {
 public:
  ExitRun(HiddenReader reader, FrozenHead head, DocumentOrder order,
          const std::vector<HeldOut>& held_out, std::int64_t hidden,
          const ExitTrainOptions& options)
      : reader_(std::move(reader)),
        head_(std::move(head)),
        order_(std::move(order)),
        held_out_(held_out),
        options_(options) {
    for (const std::int32_t layer : options.layers) {
      modules_.emplace_back(layer, hidden, options.bottleneck, options.seed);
      optimizers_.emplace_back(modules_.back().parameters(), options.optimizer);
    }
  }

  Status start();
  Status step();
  Status checkpoint();

  std::int64_t steps_done() const { return optimizers_.front().steps_done(); }
  std::int64_t end() const { return end_; }
  const StepMetrics& latest() const { return metrics_->all().back(); }
  const std::vector<ExitModule>& modules() const { return modules_; }

 private:
  std::string path(const char* name) const { return options_.out + "/" + name; }
  Status resume();
  template <typename Use>
  Status next_documents(const Use& use);
  Status measure(StepMetrics& metrics);

  HiddenReader reader_;
  const FrozenHead head_;
  DocumentOrder order_;
  const std::vector<HeldOut>& held_out_;
  const ExitTrainOptions& options_;
  std::vector<ExitModule> modules_;
  std::vector<AdamW> optimizers_;  // one each: no exit's gradient scales another's
  std::optional<MetricsFile> metrics_;
  SystemClock clock_;
  TimePoint started_;
  double rows_ = 0;
  std::int64_t end_ = 0;
};

Status ExitRun::resume() {
  OUTRIDER_ASSIGN_OR_RETURN(const NamedTensors tensors, read_tensors(path(kCheckpoint)));
  const auto step = std::find_if(tensors.begin(), tensors.end(),
                                 [](const auto& entry) { return entry.first == "step"; });
  if (step == tensors.end() || step->second.numel() != 1) {
    return data_loss(path(kCheckpoint) + ": no step. Remedy: start the run afresh");
  }
  const auto done = static_cast<std::int64_t>(step->second.item<float>());
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    modules_[i].load(tensors);
    optimizers_[i].load_state(tensors, done);
  }
  for (std::int64_t i = 0; i < done; ++i) {
    OUTRIDER_RETURN_IF_ERROR(next_documents([](const Document&) { return Status(); }));
  }
  return {};
}

Status ExitRun::start() {
  std::error_code error;
  std::filesystem::create_directories(options_.out, error);
  if (error) return invalid_argument("--out " + options_.out + ": " + error.message());
  const bool has_run = std::filesystem::exists(path(kCheckpoint), error);
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

// The documents of a step: as many as give it its rows.
template <typename Use>
Status ExitRun::next_documents(const Use& use) {
  for (std::size_t rows = 0; rows < static_cast<std::size_t>(options_.rows);) {
    const Document& document = order_.next();
    rows += std::max<std::size_t>(1, learnt_rows(document));
    OUTRIDER_RETURN_IF_ERROR(use(document));
  }
  return {};
}

Status ExitRun::step() {
  HiddenBatch batch = reader_.empty_batch();
  OUTRIDER_RETURN_IF_ERROR(
      next_documents([&](const Document& document) { return reader_.read(document, batch); }));
  if (batch.rows() == 0) return data_loss("the documents hold no token to learn");
  const ExitTargets targets = targets_of(batch);
  StepMetrics metrics;
  metrics.learning_rate = learning_rate_at(options_.optimizer, steps_done());
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const at::Tensor hidden = tensor_of(batch.hidden[i], batch.rows());
    const at::Tensor loss = exit_loss(modules_[i].logits(hidden, head_), targets, options_.loss,
                                      options_.greedy_weight);
    loss.backward();
    metrics.gradient_norm = std::max(metrics.gradient_norm, optimizers_[i].step());
    metrics.loss += loss.item<double>() / static_cast<double>(modules_.size());
  }
  metrics.step = steps_done();
  rows_ += static_cast<double>(batch.rows());
  metrics.tokens_per_s = rows_ / to_seconds(clock_.now() - started_);
  if (steps_done() % options_.evaluate_every == 0 || steps_done() == end_) {
    OUTRIDER_RETURN_IF_ERROR(measure(metrics));
  }
  metrics_->append(metrics);
  return {};
}

// Per exit and held-out set: the loss, and how often exit and target choose the same greedily.
Status ExitRun::measure(StepMetrics& metrics) {
  at::NoGradGuard no_grad;
  for (const HeldOut& set : held_out_) {
    HiddenBatch batch = reader_.empty_batch();
    for (std::size_t i = 0; i < std::min(kMeasured, set.documents.size()); ++i) {
      OUTRIDER_RETURN_IF_ERROR(reader_.read(set.documents[i], batch));
    }
    if (batch.rows() == 0) continue;
    const ExitTargets targets = targets_of(batch);
    const at::Tensor choice = targets.logits.argmax(-1);
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      const at::Tensor logits =
          modules_[i].logits(tensor_of(batch.hidden[i], batch.rows()), head_).to(at::kFloat);
      const at::Tensor loss = exit_loss(logits, targets, options_.loss, options_.greedy_weight);
      const at::Tensor same = logits.argmax(-1).eq(choice).to(at::kFloat).mean();
      metrics.held_out["layer " + std::to_string(modules_[i].layer()) + ", " + set.name] = {
          loss.item<double>(), same.item<double>()};
    }
  }
  return {};
}

Status ExitRun::checkpoint() {
  NamedTensors tensors;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    for (const auto& [name, tensor] : modules_[i].parameters()) {
      tensors.emplace_back(name, tensor.detach());
    }
    for (auto& entry : optimizers_[i].state()) tensors.push_back(std::move(entry));
  }
  tensors.emplace_back("step", at::full({1}, static_cast<double>(steps_done()), at::kFloat));
  OUTRIDER_RETURN_IF_ERROR(write_tensors(path(kCheckpoint), tensors));
  std::ofstream(path("loss.svg"), std::ios::binary)
      << loss_plot_svg(metrics_->all(), "early exits");
  return {};
}

std::string note_of(const StepMetrics& metrics) {
  char text[64];
  std::snprintf(text, sizeof text, "loss %.3f  %.0f rows/s", metrics.loss, metrics.tokens_per_s);
  return text;
}

Status run_to_end(ExitRun& run, const ExitTrainOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(run.start());
  ProgressBar bar("exits", run.steps_done(), std::max<std::int64_t>(1, run.end()));
  while (run.steps_done() < run.end()) {
    OUTRIDER_RETURN_IF_ERROR(run.step());
    bar.show(run.steps_done(), note_of(run.latest()));
    const bool stopped = stop_was_asked_for();
    if (stopped || run.steps_done() % options.checkpoint_every == 0 ||
        run.steps_done() == run.end()) {
      OUTRIDER_RETURN_IF_ERROR(run.checkpoint());
    }
    if (stopped) {
      return cancelled("stopped after step " + std::to_string(run.steps_done()) +
                       "; --resume goes on from there");
    }
  }
  return {};
}

}  // namespace

Result<ExitAdapters> train_exits(Model& target, const ModelFiles& files, at::ScalarType compute,
                                 std::vector<Source> sources, const std::vector<HeldOut>& held_out,
                                 const ExitTrainOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(HiddenReader reader, HiddenReader::make(target, options.layers));
  return guarded([&]() -> Result<ExitAdapters> {
    const ModelInfo& info = target.info();
    ExitRun run(std::move(reader), frozen_head(files, compute),
                DocumentOrder(std::move(sources), options.seed), held_out, info.hidden_size,
                options);
    OUTRIDER_RETURN_IF_ERROR(run_to_end(run, options));
    ExitAdapters adapters{.fingerprint = info.fingerprint,
                          .hidden_size = info.hidden_size,
                          .num_layers = info.num_layers,
                          .vocab_size = info.vocab_size,
                          .shortlist = {},
                          .exits = {},
                          .chosen = {}};
    for (const ExitModule& module : run.modules()) adapters.exits.push_back(module.adapter());
    return adapters;
  });
}

}  // namespace outrider
