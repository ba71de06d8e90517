// SPDX-License-Identifier: Apache-2.0
#include "adapters/distill/label_trainer.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "adapters/data/tokenizer_copy.h"
#include "adapters/train/border.h"
#include "adapters/train/model_io.h"

namespace outrider {
namespace {

constexpr std::uint32_t kHeldOutEvery = 16;

at::Tensor number(double value) {
  return at::full({1}, value, at::kFloat);
}

double number_in(const NamedTensors& tensors, const std::string& name) {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [&](const auto& one) { return one.first == name; });
  TORCH_CHECK(found != tensors.end() && found->second.numel() == 1, "checkpoint: no ", name);
  return found->second.item<float>();
}

class LabelLearner final : public Learner {
 public:
  LabelLearner(Llama& draft, const LabelSet& labels, std::vector<std::uint32_t> train,
               std::vector<std::uint32_t> held_out, const LabelTrainOptions& options)
      : draft_(draft),
        labels_(labels),
        order_(std::move(train), options.seed),
        held_out_(std::move(held_out)),
        options_(options),
        optimizer_(draft.parameters(), options.optimizer) {}

  Result<std::int64_t> learn(StepMetrics& metrics) override {
    const LabelBatch batch = labels_.batch(order_.next(labels_, options_.tokens));
    const LabelLoss loss = draft_loss(draft_, batch, options_.greedy_weight);
    loss.total.backward();
    metrics.gradient_norm = optimizer_.step();
    metrics.loss = loss.divergence.item<double>();
    return batch.ids.numel();
  }

  Status measure(StepMetrics& metrics) override;
  bool is_done() const override {
    return options_.patience > 0 && without_gain_ >= options_.patience;
  }
  NamedTensors state() const override;
  Status restore(const NamedTensors& state, std::int64_t steps) override;
  Status save() override;

 private:
  Llama& draft_;
  const LabelSet& labels_;
  EpochOrder order_;
  const std::vector<std::uint32_t> held_out_;
  const LabelTrainOptions& options_;
  AdamW optimizer_;
  double best_ = std::numeric_limits<float>::max();
  std::int64_t without_gain_ = 0;
  NamedTensors best_state_;  // not written yet
};

Status LabelLearner::measure(StepMetrics& metrics) {
  at::NoGradGuard no_grad;
  HeldOutResult result;
  double rows = 0;
  for (std::size_t begin = 0; begin < held_out_.size();) {
    std::vector<std::uint32_t> part;
    for (std::int64_t left = options_.tokens; begin < held_out_.size(); ++begin) {
      left -= labels_.tokens_of(held_out_[begin]);
      if (left < 0 && !part.empty()) break;
      part.push_back(held_out_[begin]);
    }
    const LabelBatch batch = labels_.batch(part);
    const LabelLoss loss = draft_loss(draft_, batch, options_.greedy_weight);
    const auto count = static_cast<double>(batch.places.numel());
    result.loss += loss.divergence.item<double>() * count;
    result.exact += loss.agreement.item<double>() * count;
    rows += count;
  }
  result.loss /= std::max(1.0, rows);
  result.exact /= std::max(1.0, rows);
  metrics.held_out["held out"] = result;
  ++without_gain_;
  if (result.loss >= best_) return {};
  best_ = result.loss;
  without_gain_ = 0;
  best_state_.clear();
  for (const auto& [name, tensor] : draft_.state()) best_state_.emplace_back(name, tensor.clone());
  return {};
}

NamedTensors LabelLearner::state() const {
  NamedTensors tensors = draft_.state();
  for (auto& entry : optimizer_.state()) tensors.push_back(std::move(entry));
  tensors.emplace_back("best", number(best_));
  tensors.emplace_back("without_gain", number(static_cast<double>(without_gain_)));
  return tensors;
}

Status LabelLearner::restore(const NamedTensors& state, std::int64_t steps) {
  draft_.load_state(state);
  optimizer_.load_state(state, steps);
  best_ = number_in(state, "best");
  without_gain_ = static_cast<std::int64_t>(number_in(state, "without_gain"));
  for (std::int64_t i = 0; i < steps; ++i) order_.next(labels_, options_.tokens);
  return {};
}

Status LabelLearner::save() {
  if (best_state_.empty()) return {};
  const NamedTensors best = std::exchange(best_state_, {});
  if (options_.frozen_embedding) {
    return save_layers(options_.out, draft_.config(), best);
  }
  OUTRIDER_RETURN_IF_ERROR(save_tensors(options_.out, draft_.config(), best, options_.dtype));
  return copy_tokenizer(options_.tokenizer, options_.out);
}

}  // namespace

LabelLoss draft_loss(const Llama& draft, const LabelBatch& batch, double greedy_weight) {
  const at::Tensor rows = draft.hidden(batch.ids, batch.starts).index_select(0, batch.places);
  return label_loss(draft.logits(rows), batch.targets, {.greedy = greedy_weight});
}

std::int64_t multiply_adds_per_token(const Llama& draft) {
  const ModelConfig& config = draft.config();
  const std::int64_t layer = config.hidden_size * (2 * config.q_size() + 2 * config.kv_size()) +
                             std::int64_t{3} * config.hidden_size * config.intermediate_size;
  return config.num_layers * layer + config.head_size() * config.hidden_size;
}

std::int64_t label_training_bytes(const Llama& draft, const LabelTrainOptions& options) {
  const ModelConfig& config = draft.config();
  std::int64_t trained = 0;
  for (const auto& [name, parameter] : draft.parameters()) trained += parameter.numel();
  const std::int64_t layer =
      8 * config.hidden_size + 4 * config.q_size() + std::int64_t{6} * config.intermediate_size;
  // Weights, gradient, two moments, the best state; logits, their softmax and both gradients.
  return 4 * (num_parameters(config) + 4 * trained +
              options.tokens * (config.num_layers * layer + 4 * config.head_size()));
}

Status train_on_labels(Llama& draft, const LabelSet& labels, const LabelTrainOptions& options) {
  std::vector<std::uint32_t> train, held_out;
  std::int64_t longest = options.tokens;
  for (std::uint32_t i = 0; i < labels.size(); ++i) {
    (i % kHeldOutEvery == kHeldOutEvery - 1 ? held_out : train).push_back(i);
    longest = std::max(longest, labels.tokens_of(i));
  }
  if (held_out.empty()) {
    return invalid_argument("labels of " + std::to_string(labels.size()) +
                            " documents: at least 16 are needed, one in 16 is held out");
  }
  if (options.tokens < 8 || longest > draft.longest()) {
    return invalid_argument("--step-tokens " + std::to_string(options.tokens) +
                            ": steps and documents of up to " + std::to_string(longest) +
                            " tokens do not fit the draft's context of " +
                            std::to_string(draft.longest()));
  }
  return guarded([&] {
    LabelLearner learner(draft, labels, std::move(train), std::move(held_out), options);
    return run_training(
        learner, options,
        {.name = "distill", .title = "draft", .checkpoint = "checkpoint.safetensors"});
  });
}

}  // namespace outrider
