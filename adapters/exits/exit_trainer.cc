// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/exit_trainer.h"

#include <algorithm>
#include <utility>

#include "adapters/train/border.h"

namespace outrider {
namespace {

// The number of held-out documents of each set that are measured during training.
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

class ExitLearner final : public Learner {
 public:
  ExitLearner(HiddenReader reader, FrozenHead head, DocumentOrder order,
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

  Result<std::int64_t> learn(StepMetrics& metrics) override;
  Status measure(StepMetrics& metrics) override;
  NamedTensors state() const override;
  Status restore(const NamedTensors& state, std::int64_t steps) override;

  const std::vector<ExitModule>& modules() const { return modules_; }

 private:
  template <typename Use>
  Status next_documents(const Use& use);

  HiddenReader reader_;
  const FrozenHead head_;
  DocumentOrder order_;
  const std::vector<HeldOut>& held_out_;
  const ExitTrainOptions& options_;
  std::vector<ExitModule> modules_;
  std::vector<AdamW> optimizers_;  // one per exit: no exit's gradient scales another's
};

// The documents of a step: enough to reach its number of rows.
template <typename Use>
Status ExitLearner::next_documents(const Use& use) {
  for (std::size_t rows = 0; rows < static_cast<std::size_t>(options_.rows);) {
    const Document& document = order_.next();
    rows += std::max<std::size_t>(1, learnt_rows(document));
    OUTRIDER_RETURN_IF_ERROR(use(document));
  }
  return {};
}

Result<std::int64_t> ExitLearner::learn(StepMetrics& metrics) {
  HiddenBatch batch = reader_.empty_batch();
  OUTRIDER_RETURN_IF_ERROR(
      next_documents([&](const Document& document) { return reader_.read(document, batch); }));
  if (batch.rows() == 0) return data_loss("the documents hold no token to learn");
  const ExitTargets targets = targets_of(batch);
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    const at::Tensor hidden = tensor_of(batch.hidden[i], batch.rows());
    const at::Tensor loss = exit_loss(modules_[i].logits(hidden, head_), targets, options_.loss,
                                      options_.greedy_weight);
    loss.backward();
    metrics.gradient_norm = std::max(metrics.gradient_norm, optimizers_[i].step());
    metrics.loss += loss.item<double>() / static_cast<double>(modules_.size());
  }
  return static_cast<std::int64_t>(batch.rows());
}

// Per exit and held-out set: the loss, and how often exit and target agree greedily.
Status ExitLearner::measure(StepMetrics& metrics) {
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

NamedTensors ExitLearner::state() const {
  NamedTensors tensors;
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    for (const auto& [name, tensor] : modules_[i].parameters()) {
      tensors.emplace_back(name, tensor.detach());
    }
    for (auto& entry : optimizers_[i].state()) tensors.push_back(std::move(entry));
  }
  return tensors;
}

Status ExitLearner::restore(const NamedTensors& state, std::int64_t steps) {
  for (std::size_t i = 0; i < modules_.size(); ++i) {
    modules_[i].load(state);
    optimizers_[i].load_state(state, steps);
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    OUTRIDER_RETURN_IF_ERROR(next_documents([](const Document&) { return Status(); }));
  }
  return {};
}

}  // namespace

Result<ExitAdapters> train_exits(Model& target, const ModelFiles& files, at::ScalarType compute,
                                 std::vector<Source> sources, const std::vector<HeldOut>& held_out,
                                 const ExitTrainOptions& options) {
  OUTRIDER_RETURN_IF_ERROR(check_plain_head(files.config));
  OUTRIDER_ASSIGN_OR_RETURN(HiddenReader reader, HiddenReader::make(target, options.layers));
  return guarded([&]() -> Result<ExitAdapters> {
    const ModelInfo& info = target.info();
    ExitLearner learner(std::move(reader), frozen_head(files, compute),
                        DocumentOrder(std::move(sources), options.seed), held_out, info.hidden_size,
                        options);
    OUTRIDER_RETURN_IF_ERROR(
        run_training(learner, options,
                     {.name = "exits", .title = "early exits", .checkpoint = "exits.safetensors"}));
    ExitAdapters adapters{.fingerprint = info.fingerprint,
                          .hidden_size = info.hidden_size,
                          .num_layers = info.num_layers,
                          .vocab_size = info.vocab_size,
                          .shortlist = {},
                          .exits = {},
                          .chosen = {}};
    for (const ExitModule& module : learner.modules()) adapters.exits.push_back(module.adapter());
    return adapters;
  });
}

}  // namespace outrider
