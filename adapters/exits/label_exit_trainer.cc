// SPDX-License-Identifier: Apache-2.0
#include "adapters/exits/label_exit_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "adapters/distill/label_targets.h"
#include "adapters/labels/label_files.h"
#include "adapters/train/border.h"

namespace outrider {
namespace {

// Rows of one shard.
struct LabelRows {
  std::vector<at::Tensor> hidden;  // by exit: [rows, hidden] f32
  LabelTargets targets;
};

at::Tensor widened_rows(const std::vector<std::uint16_t>& values, std::int64_t width,
                        const std::vector<std::int64_t>& rows) {
  at::Tensor tensor = at::empty({std::ssize(rows), width}, at::kFloat);
  auto* out = tensor.data_ptr<float>();
  for (const std::int64_t row : rows) {
    const std::uint16_t* from = values.data() + row * width;
    out = std::transform(from, from + width, out, from_bf16);
  }
  return tensor;
}

// Shards in a shuffled order, with the rows of each shuffled; a function of seed and number.
class LabelRowReader final {
 public:
  LabelRowReader(std::string directory, LabelIndex index, std::vector<std::int32_t> columns,
                 const ExitTrainOptions& options)
      : directory_(std::move(directory)),
        index_(std::move(index)),
        columns_(std::move(columns)),
        wanted_(options.rows),
        random_(options.seed) {
    for (const std::int32_t layer : options.layers) {
      const auto at = std::lower_bound(index_.layers.begin(), index_.layers.end(), layer);
      places_.push_back(static_cast<std::size_t>(at - index_.layers.begin()));
    }
  }

  Result<LabelRows> next() {
    if (at_ >= std::ssize(order_)) OUTRIDER_RETURN_IF_ERROR(next_shard());
    const std::int64_t end = std::min(at_ + wanted_, std::ssize(order_));
    std::vector<std::int64_t> rows(order_.begin() + at_, order_.begin() + end);
    at_ = end;
    return gather(shard_, rows);
  }
  Result<LabelRows> held_out() const {
    OUTRIDER_ASSIGN_OR_RETURN(const LabelShard shard,
                              read_shard(directory_, index_, index_.shards() - 1));
    std::vector<std::int64_t> rows(static_cast<std::size_t>(
        std::min<std::int64_t>(4 * wanted_, std::ssize(shard.ids) / index_.top_k)));
    std::iota(rows.begin(), rows.end(), 0);
    return gather(shard, rows);
  }

 private:
  Status next_shard() {
    if (shards_.empty()) {
      shards_.resize(static_cast<std::size_t>(index_.shards() - 1));
      std::iota(shards_.begin(), shards_.end(), 0);
      random_.shuffle(shards_);
    }
    OUTRIDER_ASSIGN_OR_RETURN(shard_, read_shard(directory_, index_, shards_.back()));
    shards_.pop_back();
    order_.resize(shard_.ids.size() / static_cast<std::size_t>(index_.top_k));
    if (order_.empty()) return data_loss(directory_ + ": a shard without a row");
    std::iota(order_.begin(), order_.end(), 0);
    random_.shuffle(order_);
    at_ = 0;
    return {};
  }

  LabelRows gather(const LabelShard& shard, const std::vector<std::int64_t>& rows) const {
    LabelRows taken;
    for (const std::size_t place : places_) {
      taken.hidden.push_back(widened_rows(shard.hidden[place], index_.hidden_size, rows));
    }
    std::vector<std::int64_t> columns;
    std::vector<float> probabilities;
    for (const std::int64_t row : rows) {
      for (std::int64_t k = 0; k < index_.top_k; ++k) {
        const auto at = static_cast<std::size_t>(row * index_.top_k + k);
        columns.push_back(columns_[static_cast<std::size_t>(shard.ids[at])]);
        probabilities.push_back(std::exp(shard.log_probabilities[at]));
      }
    }
    taken.targets = label_targets(columns, probabilities, index_.top_k);
    return taken;
  }

  const std::string directory_;
  const LabelIndex index_;
  const std::vector<std::int32_t> columns_;
  const std::int64_t wanted_;
  std::vector<std::size_t> places_;  // indices of the exits' layers among the labels' layers
  SplitMix64 random_;
  std::vector<std::int64_t> shards_;  // the rest of this epoch
  LabelShard shard_;
  std::vector<std::int64_t> order_;
  std::int64_t at_ = 0;
};

class LabelExitLearner final : public Learner {
 public:
  LabelExitLearner(LabelRowReader reader, FrozenHead head, std::int64_t hidden,
                   const ExitTrainOptions& options)
      : reader_(std::move(reader)), head_(std::move(head)), options_(options) {
    for (const std::int32_t layer : options.layers) {
      if (options.own_head) {
        modules_.emplace_back(layer, head_);
      } else {
        modules_.emplace_back(layer, hidden, options.bottleneck, options.seed);
      }
      optimizers_.emplace_back(modules_.back().parameters(), options.optimizer);
    }
  }

  Result<std::int64_t> learn(StepMetrics& metrics) override {
    OUTRIDER_ASSIGN_OR_RETURN(const LabelRows rows, reader_.next());
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      const LabelLoss loss = loss_of(i, rows);
      loss.total.backward();
      metrics.gradient_norm = std::max(metrics.gradient_norm, optimizers_[i].step());
      metrics.loss += loss.divergence.item<double>() / static_cast<double>(modules_.size());
    }
    return rows.targets.rows();
  }

  Status measure(StepMetrics& metrics) override {
    at::NoGradGuard no_grad;
    OUTRIDER_ASSIGN_OR_RETURN(const LabelRows rows, reader_.held_out());
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      const LabelLoss loss = loss_of(i, rows);
      metrics.held_out["layer " + std::to_string(modules_[i].layer())] = {
          loss.divergence.item<double>(), loss.agreement.item<double>()};
    }
    return {};
  }

  NamedTensors state() const override {
    NamedTensors tensors;
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      for (const auto& [name, tensor] : modules_[i].parameters()) {
        tensors.emplace_back(name, tensor.detach());
      }
      for (auto& entry : optimizers_[i].state()) tensors.push_back(std::move(entry));
    }
    return tensors;
  }

  Status restore(const NamedTensors& state, std::int64_t steps) override {
    for (std::size_t i = 0; i < modules_.size(); ++i) {
      modules_[i].load(state);
      optimizers_[i].load_state(state, steps);
    }
    for (std::int64_t i = 0; i < steps; ++i) {
      OUTRIDER_RETURN_IF_ERROR(reader_.next().status());
    }
    return {};
  }

  const std::vector<ExitModule>& modules() const { return modules_; }

 private:
  LabelLoss loss_of(std::size_t exit, const LabelRows& rows) const {
    return label_loss(modules_[exit].logits(rows.hidden[exit], head_), rows.targets,
                      {.greedy = options_.greedy_weight,
                       .candidates = options_.candidate_weight,
                       .temperature = options_.temperature,
                       .candidate_temperature = options_.candidate_temperature});
  }

  LabelRowReader reader_;
  const FrozenHead head_;
  const ExitTrainOptions& options_;
  std::vector<ExitModule> modules_;
  std::vector<AdamW> optimizers_;  // one per exit: no exit's gradient scales another's
};

Status check_labels(const std::string& labels, const LabelIndex& index, const ModelFiles& target,
                    const ExitTrainOptions& options) {
  if (index.teacher != target.fingerprint) {
    return failed_precondition("--labels " + labels + " are of another target than " + target.name +
                               ". Remedy: outrider-train label --model that target");
  }
  for (const std::int32_t layer : options.layers) {
    if (std::ranges::find(index.layers, layer) != index.layers.end()) continue;
    return failed_precondition("--labels " + labels + " hold no hidden states after layer " +
                               std::to_string(layer) +
                               ". Remedy: outrider-train label --layers with it");
  }
  if (index.shards() < 2) {
    return invalid_argument("--labels " + labels + " are one shard of " +
                            std::to_string(index.shard_documents) +
                            " documents: more are needed, the last shard is held out");
  }
  if (options.loss != ExitLoss::kDivergence) {
    return invalid_argument("--labels: --loss must be kl, labels hold the target's distribution");
  }
  return {};
}

FrozenHead listed_head(const ModelFiles& target, at::ScalarType compute,
                       const std::vector<TokenId>& shortlist) {
  FrozenHead head = frozen_head(target, compute);
  if (shortlist.empty()) return head;
  const at::Tensor rows =
      at::tensor(std::vector<std::int64_t>(shortlist.begin(), shortlist.end()), at::kLong);
  head.head = head.head.index_select(0, rows);
  return head;
}

}  // namespace

Result<ExitTrainCost> label_exit_cost(const std::string& labels, const ExitTrainOptions& options,
                                      std::int64_t shortlist) {
  OUTRIDER_ASSIGN_OR_RETURN(const LabelIndex index, read_label_index(labels));
  OUTRIDER_ASSIGN_OR_RETURN(const LabelShard shard, read_shard(labels, index, 0));
  const auto exits = static_cast<double>(options.layers.size());
  const auto hidden = static_cast<double>(index.hidden_size);
  const auto tokens = static_cast<double>(shortlist > 0 ? shortlist : index.vocab_size);
  const auto rows = static_cast<double>(options.rows);
  const double matrix = tokens * hidden;
  const double adapter =
      options.own_head ? matrix : 2 * hidden * static_cast<double>(options.bottleneck);
  const double shard_bytes = static_cast<double>(shard.ids.size()) * 8 +
                             static_cast<double>(shard.hidden.size()) * hidden * 2 *
                                 static_cast<double>(shard.ids.size()) / index.top_k;
  return ExitTrainCost{
      .bytes =
          shard_bytes + 4 * (matrix + 4 * exits * adapter + rows * (exits * hidden + 4 * tokens)),
      // Trained weights are used once forwards and twice backwards, the frozen matrix once each.
      .multiply_adds = static_cast<double>(options.optimizer.total_steps) * rows * exits *
                       (3 * adapter + (options.own_head ? 0 : 2 * matrix))};
}

Result<ExitAdapters> train_exits_on_labels(const std::string& labels, const ModelFiles& target,
                                           at::ScalarType compute,
                                           const std::vector<TokenId>& shortlist,
                                           const ExitTrainOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const LabelIndex index, read_label_index(labels));
  OUTRIDER_RETURN_IF_ERROR(check_labels(labels, index, target, options));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<std::int32_t> columns,
                            logit_columns(shortlist, index.vocab_size));
  return guarded([&]() -> Result<ExitAdapters> {
    LabelExitLearner learner(LabelRowReader(labels, index, std::move(columns), options),
                             listed_head(target, compute, shortlist), index.hidden_size, options);
    OUTRIDER_RETURN_IF_ERROR(
        run_training(learner, options,
                     {.name = "exits", .title = "early exits", .checkpoint = "exits.safetensors"}));
    ExitAdapters adapters{.fingerprint = target.fingerprint,
                          .hidden_size = index.hidden_size,
                          .num_layers = target.config.num_layers,
                          .vocab_size = index.vocab_size,
                          .shortlist = shortlist,
                          .exits = {},
                          .chosen = {}};
    for (const ExitModule& module : learner.modules()) adapters.exits.push_back(module.adapter());
    return adapters;
  });
}

}  // namespace outrider
