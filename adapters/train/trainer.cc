// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/trainer.h"

#include <algorithm>
#include <utility>

#include "adapters/data/tokenizer_copy.h"
#include "adapters/train/border.h"
#include "adapters/train/evaluate.h"
#include "adapters/train/fused.h"
#include "adapters/train/model_io.h"
#include "common/base/files.h"
#include "common/engine/model/format/model_writer.h"

namespace outrider {
namespace {

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

class TextLearner final : public Learner {
 public:
  TextLearner(Llama& model, Packer& packer, const LossFunction& loss,
              const std::vector<HeldOut>& held_out, const TrainOptions& options)
      : model_(model),
        packer_(packer),
        loss_(loss),
        held_out_(held_out),
        options_(options),
        optimizer_(model.parameters(), options.optimizer) {}

  Status prepare() override {
    OUTRIDER_RETURN_IF_ERROR(
        write_config(options_.out, model_.config(), std::string(config_name(options_.dtype))));
    return copy_tokenizer(options_.tokenizer, options_.out);
  }
  Result<std::int64_t> learn(StepMetrics& metrics) override;
  Status measure(StepMetrics& metrics) override;
  NamedTensors state() const override;
  Status restore(const NamedTensors& state, std::int64_t steps) override;
  Status save() override {
    return save_model(options_.out, model_, options_.dtype, options_.tokenizer);
  }

 private:
  Llama& model_;
  Packer& packer_;
  const LossFunction& loss_;
  const std::vector<HeldOut>& held_out_;
  const TrainOptions& options_;
  AdamW optimizer_;
};

Result<std::int64_t> TextLearner::learn(StepMetrics& metrics) {
  const Batch batch = next_batch(packer_, options_, optimizer_.steps_done());
  const at::Tensor loss = loss_(batch);
  loss.backward();
  metrics.gradient_norm = optimizer_.step();
  metrics.loss = loss.item<double>();
  return batch.ids.numel();
}

Status TextLearner::measure(StepMetrics& metrics) {
  for (const HeldOut& set : held_out_) {
    metrics.held_out[set.name] = evaluate(model_, set.documents);
  }
  return {};
}

NamedTensors TextLearner::state() const {
  NamedTensors tensors = model_.state();
  for (auto& entry : optimizer_.state()) tensors.push_back(std::move(entry));
  return tensors;
}

Status TextLearner::restore(const NamedTensors& state, std::int64_t steps) {
  model_.load_state(state);
  optimizer_.load_state(state, steps);
  for (std::int64_t i = 0; i < steps; ++i) next_batch(packer_, options_, i);
  return {};
}

}  // namespace

at::Tensor next_token_loss(const Llama& model, const Batch& batch) {
  const at::Tensor rows = model.hidden(batch.ids, batch.starts).index_select(0, batch.places);
  return fused_cross_entropy(model.logits(rows), batch.targets);
}

at::Tensor distillation_loss(const Llama& draft, const Llama& target, const Batch& batch,
                             double greedy_weight) {
  at::Tensor wanted;
  {
    at::NoGradGuard no_grad;
    wanted = target.logits(target.hidden(batch.ids, batch.starts).index_select(0, batch.places))
                 .to(at::kFloat);
  }
  const at::Tensor logits =
      draft.logits(draft.hidden(batch.ids, batch.starts).index_select(0, batch.places));
  at::Tensor divergence =
      at::kl_div(at::log_softmax(logits.to(at::kFloat), -1), at::log_softmax(wanted, -1),
                 at::Reduction::Sum, /*log_target=*/true) /
      static_cast<double>(wanted.size(0));
  if (greedy_weight == 0) return divergence;
  return divergence + fused_cross_entropy(logits, wanted.argmax(-1)) * greedy_weight;
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
    TextLearner learner(model, packer, loss, held_out, options);
    return run_training(
        learner, options,
        {.name = "train", .title = last_name(options.out), .checkpoint = "checkpoint.safetensors"});
  });
}

}  // namespace outrider
