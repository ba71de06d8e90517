// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pass_logits.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace outrider {
namespace {

// Most rows multiplied together; bounds the scratch memory.
constexpr std::size_t kMaxLogitRows = 256;

}  // namespace

PassLogits::PassLogits(const ModelConfig& config, const Kernels& kernels, PassRows& rows,
                       PassProducts& products)
    : config_(config),
      kernels_(kernels),
      rows_(rows),
      products_(products),
      normed_(config_.hidden_size) {}

Status PassLogits::write(const PassModel& model, float* logits) {
  OUTRIDER_RETURN_IF_ERROR(acquire(model));
  const std::span<const std::int64_t> wanted = wanted_;
  for (std::size_t begin = 0; begin < wanted.size(); begin += kMaxLogitRows) {
    const std::size_t count = std::min(wanted.size() - begin, kMaxLogitRows);
    multiply(wanted.subspan(begin, count), logits);
    logits += static_cast<std::int64_t>(count) * config_.vocab_size;
  }
  end();
  return {};
}

Status PassLogits::offer(const PassModel& model, PassOutput& out) {
  OUTRIDER_RETURN_IF_ERROR(acquire(model));
  if (head_ != nullptr) out.row_logits = this;
  return {};
}

// Sets wanted_ and, if a row wants logits, acquires the output matrix; else ends the layers' pass.
Status PassLogits::acquire(const PassModel& model) {
  weights_ = &model.weights;
  layers_ = &model.layers;
  const std::span<const Row> rows = rows_.rows();
  wanted_.clear();
  for (std::size_t r = 0; r < rows.size(); ++r) {
    if (rows[r].wants_logits) wanted_.push_back(static_cast<std::int64_t>(r));
  }
  Status status;
  if (!wanted_.empty()) {
    const Result<const LinearWeights*> head = layers_->acquire_head();
    if (head.ok()) head_ = *head;
    status = head.status();
  }
  if (head_ == nullptr) layers_->end_pass();
  return status;
}

Status PassLogits::compute(std::span<const std::size_t> rows, PassOutput& out) {
  OUTRIDER_CHECK(head_ != nullptr && rows.size() <= kMaxLogitRows);
  const auto vocab = static_cast<std::size_t>(config_.vocab_size);
  const auto place = [&](std::size_t row) {
    return out.places.empty() ? row : static_cast<std::size_t>(out.places.at(row));
  };
  asked_.clear();
  for (const std::size_t row : rows) asked_.push_back(wanted_.at(place(row)));
  computed_.resize(rows.size() * vocab);
  multiply(asked_, computed_.data());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::copy_n(computed_.data() + i * vocab, vocab, out.logits.data() + place(rows[i]) * vocab);
  }
  return out.is_abandoned() ? cancelled("the pass was abandoned") : Status();
}

void PassLogits::end() {
  if (std::exchange(head_, nullptr) != nullptr) layers_->end_pass();
}

// logits: [rows, vocab].
void PassLogits::multiply(std::span<const std::int64_t> rows, float* logits) {
  const auto count = static_cast<std::int64_t>(rows.size());
  normed_.grow(count, products_.is_quantized());
  for (std::int64_t i = 0; i < count; ++i) {
    apply_norm(kernels_, {weights_->final_norm, weights_->final_norm_bias},
               static_cast<float>(config_.rms_norm_eps),
               rows_.residual(rows[static_cast<std::size_t>(i)]), normed_.row(i));
    products_.quantize(normed_, i);
  }
  const bool is_shortlist = !config_.head_tokens.empty();
  if (is_shortlist) listed_.resize(static_cast<std::size_t>(count * config_.head_size()));
  float* computed = is_shortlist ? listed_.data() : logits;
  const PassProducts::Product product[] = {{head_, {computed, config_.head_size()}}};
  products_.multiply(product, PassProducts::input(normed_, count));
  if (config_.logit_divisor != 1.0 || config_.logit_cap > 0.0) scale(count, computed);
  if (is_shortlist) spread(count, logits);
}

// Divides and caps.
void PassLogits::scale(std::int64_t rows, float* logits) {
  const auto divisor = static_cast<float>(config_.logit_divisor);
  const auto cap = static_cast<float>(config_.logit_cap);
  products_.loops().run(rows, 1, [&](std::int64_t begin, std::int64_t end) {
    float* first = logits + begin * config_.head_size();
    const std::int64_t count = (end - begin) * config_.head_size();
    if (divisor != 1.0f)
      std::transform(first, first + count, first, [divisor](float x) { return x / divisor; });
    if (cap > 0.0f) kernels_.soft_cap(first, count, cap);
  });
}

// Moves the logits of a shortlist to their tokens' places.
void PassLogits::spread(std::int64_t rows, float* logits) {
  const float* from = listed_.data();
  std::fill_n(logits, rows * config_.vocab_size, -std::numeric_limits<float>::infinity());
  for (std::int64_t r = 0; r < rows; ++r, logits += config_.vocab_size) {
    for (const TokenId token : config_.head_tokens) logits[token] = *from++;
  }
}

}  // namespace outrider
