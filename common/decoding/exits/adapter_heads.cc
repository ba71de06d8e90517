// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/adapter_heads.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>

#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/kernels/aligned_buffer.h"
#include "common/engine/model/cpu/kernels/kernels.h"
#include "common/engine/model/cpu/kernels/layer_heads.h"
#include "common/engine/model/cpu/kernels/panel_writer.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/format/architecture.h"

namespace outrider {
namespace {

constexpr std::int64_t kOutputGrain = 16;

std::size_t size(std::int64_t count) {
  return static_cast<std::size_t>(count);
}

WeightMatrix bf16_matrix(const std::vector<std::uint16_t>& values, std::int64_t outputs,
                         std::int64_t inputs) {
  return {.type = WeightType::kBf16, .data = values.data(), .outputs = outputs, .inputs = inputs};
}

// Scales in f32: the matrix is small and may have any range.
WeightMatrix int8_matrix(std::int64_t outputs, std::int64_t inputs) {
  return {.type = WeightType::kQuantized,
          .format = {.bits = 8, .scales = ScaleType::kF32},
          .data = nullptr,
          .outputs = outputs,
          .inputs = inputs};
}

template <typename T>
std::uint64_t size_in_bytes(const std::vector<T>& values) {
  return values.size() * sizeof(T);
}

// Rows of a matrix as int8.
class Int8Rows final {
 public:
  Int8Rows(const Kernels& kernels, const TensorView& source, std::span<const TokenId> rows) {
    matrix_ = int8_matrix(std::ssize(rows), source.shape[1]);
    panels_.grow(size(bytes_of(matrix_)));
    matrix_.data = panels_.data();
    const PanelWriter writer(matrix_.format, matrix_.inputs, panels_.data());
    std::vector<float> row(size((matrix_.inputs + kQuantGroup - 1) / kQuantGroup * kQuantGroup));
    for (std::int64_t n = 0; n < matrix_.outputs; ++n) {
      widen(source, rows[size(n)] * matrix_.inputs, {row.data(), size(matrix_.inputs)});
      for (std::int64_t at = 0; at < matrix_.inputs; at += kQuantGroup) {
        WeightGroup group;
        kernels.quantize_weights(row.data() + at, matrix_.format, &group);
        writer.store(n, at / kQuantGroup, group);
      }
    }
  }

  const WeightMatrix& matrix() const { return matrix_; }

 private:
  AlignedBuffer<std::byte> panels_;
  WeightMatrix matrix_;
};

class AdapterHeads final : public ExitHeads {
 public:
  // reporting: as many of the adapters' exits report, the first ones.
  AdapterHeads(ExitAdapters adapters, std::size_t reporting, const Kernels& kernels,
               const ModelFiles& target)
      : adapters_(std::move(adapters)),
        kernels_(kernels),
        hidden_(adapters_.hidden_size),
        stride_(pad_to_lanes(hidden_)),
        quantized_bytes_(quantized_row_bytes(hidden_)),
        epsilon_(static_cast<float>(target.config.rms_norm_eps)),
        tokens_(all_tokens()),
        heads_(all_heads(kernels, target)),
        final_norm_(size(hidden_)) {
    widen(target.weights.at(weight_name(ModelPart::kFinalNorm)), 0, final_norm_);
    for (std::size_t i = 0; i < adapters_.exits.size(); ++i) {
      if (i < reporting) layers_.push_back(adapters_.exits[i].layer);
    }
  }

  std::span<const std::int32_t> layers() const override { return layers_; }
  std::optional<std::int32_t> pruning_layer() const override {
    if (adapters_.exits.size() == layers_.size()) return std::nullopt;
    return adapters_.exits.back().layer;
  }

  Status offer_to(Model& model) override {
    if (layers_.empty()) return {};
    LayerHeads heads{.epsilon = epsilon_, .final_norm = final_norm_};
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const ExitAdapter& exit = adapters_.exits[i];
      LayerHead& head = heads.heads.emplace_back();
      head.layer = exit.layer;
      head.output = heads_[i]->matrix();
      if (exit.bottleneck == 0) continue;
      head.norm = exit.norm;
      head.down = bf16_matrix(exit.down, exit.bottleneck, hidden_);
      head.up = bf16_matrix(exit.up, hidden_, exit.bottleneck);
    }
    return model.take_heads(heads);
  }

  void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) override {
    OUTRIDER_CHECK(logits.size() == rows.count * size(adapters_.vocab_size));
    const auto count = static_cast<std::int64_t>(rows.count);
    if (rows.head_logits != nullptr) {
      OUTRIDER_CHECK(rows.num_head_logits == tokens_.size());
      return spread(count, rows.head_logits, logits);
    }
    prepare(exit, rows);
    const WeightMatrix& head = heads_[exit]->matrix();
    const MatmulInput x{count, stride_, adapted_.data(), quantized_.data()};
    if (adapters_.shortlist.empty()) {
      multiply(head, x, {logits.data(), adapters_.vocab_size}, rows.threads);
      return;
    }
    const auto listed = static_cast<std::int64_t>(tokens_.size());
    shortlisted_.grow(size(count * listed));
    multiply(head, x, {shortlisted_.data(), listed}, rows.threads);
    spread(count, shortlisted_.data(), logits);
  }

  // Only the wanted tokens' rows of the output matrix are read.
  void compute_some(std::size_t exit, const HiddenRows& rows, const TokensOfRows& wanted,
                    std::span<float> logits) override {
    prepare(exit, rows);
    const WeightMatrix& head = heads_[exit]->matrix();
    shortlisted_.grow(tokens_.size());
    auto out = logits.begin();
    for (std::size_t r = 0; r < rows.count; ++r) {
      const MatmulInput x{1, stride_, adapted_.data() + size(stride_) * r,
                          quantized_.data() + size(quantized_bytes_) * r};
      for (const TokenId token : wanted.rows[r]) {
        const auto found = std::ranges::lower_bound(tokens_, token);
        *out = -std::numeric_limits<float>::infinity();
        if (found != tokens_.end() && *found == token) {
          const std::int64_t n = found - tokens_.begin();
          kernels_.matmul(head, x, {n, n + 1}, {shortlisted_.data(), std::ssize(tokens_)});
          *out = shortlisted_.data()[n];
        }
        ++out;
      }
    }
  }

  DraftPrior prior(std::size_t exit, double temperature) const override {
    return calibration(exit, temperature).prior;
  }
  double confidence(std::size_t exit, double temperature,
                    std::span<const RowEvidence> rows) const override {
    return outrider::confidence(calibration(exit, temperature), rows);
  }

 private:
  static const TensorView& head_of(const ModelFiles& target) {
    return target.weights.at(weight_name(output_part(target.config)));
  }

  const Calibration& calibration(std::size_t exit, double temperature) const {
    static const Calibration kNone;
    const Calibration* fitted = find_calibration(adapters_.exits.at(exit).calibration, temperature);
    return fitted != nullptr ? *fitted : kNone;
  }

  std::vector<TokenId> all_tokens() const {
    return adapters_.shortlist.empty() ? first_tokens(adapters_.vocab_size) : adapters_.shortlist;
  }
  static std::vector<TokenId> first_tokens(std::int64_t count) {
    std::vector<TokenId> tokens(size(count));
    std::iota(tokens.begin(), tokens.end(), 0);
    return tokens;
  }

  // The output matrix of each exit: the target's rows of the considered tokens, shared by all
  // exits, or the exit's own.
  std::vector<std::shared_ptr<const Int8Rows>> all_heads(const Kernels& kernels,
                                                         const ModelFiles& target) const {
    std::vector<std::shared_ptr<const Int8Rows>> heads;
    std::shared_ptr<const Int8Rows> shared;
    for (const ExitAdapter& exit : adapters_.exits) {
      if (!exit.head.empty()) {
        heads.push_back(std::make_shared<const Int8Rows>(kernels, own_head(exit),
                                                         first_tokens(std::ssize(tokens_))));
        continue;
      }
      if (!shared) shared = std::make_shared<const Int8Rows>(kernels, head_of(target), tokens_);
      heads.push_back(shared);
    }
    return heads;
  }

  TensorView own_head(const ExitAdapter& exit) const {
    return {.dtype = DType::kBF16,
            .shape = {std::ssize(tokens_), hidden_},
            .data = reinterpret_cast<const std::byte*>(exit.head.data()),
            .num_bytes = exit.head.size() * sizeof(exit.head[0])};
  }

  // Computes the input of an exit's output matrix: adapted_ and quantized_.
  void prepare(std::size_t exit, const HiddenRows& rows) {
    OUTRIDER_CHECK(rows.width == size(hidden_));
    adapt(adapters_.exits.at(exit), rows);
    for (std::int64_t r = 0; r < static_cast<std::int64_t>(rows.count); ++r) {
      float* row = adapted_.data() + r * stride_;
      kernels_.rms_norm(row, final_norm_.data(), hidden_, epsilon_, row);
      kernels_.quantize_row(row, hidden_, quantized_.data() + r * quantized_bytes_);
    }
  }

  // adapted_ = h + up(silu(down(rms_norm(h) * norm))), or h where there is no adapter
  void adapt(const ExitAdapter& adapter, const HiddenRows& rows) {
    const auto count = static_cast<std::int64_t>(rows.count);
    const std::int64_t inner = adapter.bottleneck, inner_stride = pad_to_lanes(inner);
    normed_.grow(size(count * stride_));
    adapted_.grow(size(count * stride_));
    quantized_.grow(size(count * quantized_bytes_));
    inner_.grow(size(count * inner_stride));
    ones_.assign(size(inner_stride), 1.0f);
    for (std::int64_t r = 0; r < count; ++r) {
      const float* row = rows.row(size(r)).data();
      std::copy_n(row, hidden_, adapted_.data() + r * stride_);
      if (inner == 0) continue;
      kernels_.rms_norm(row, adapter.norm.data(), hidden_, epsilon_, normed_.data() + r * stride_);
      // The exit before may have had another width: the padding must be zero again.
      std::fill_n(inner_.data() + r * inner_stride, inner_stride, 0.0f);
    }
    if (inner == 0) return;
    multiply(bf16_matrix(adapter.down, inner, hidden_), {count, stride_, normed_.data(), nullptr},
             {inner_.data(), inner_stride}, rows.threads);
    for (std::int64_t r = 0; r < count; ++r) {
      kernels_.silu_multiply(inner_.data() + r * inner_stride, ones_.data(), inner_stride);
    }
    multiply(bf16_matrix(adapter.up, hidden_, inner), {count, inner_stride, inner_.data(), nullptr},
             {adapted_.data(), stride_, nullptr, true}, rows.threads);
  }

  void multiply(const WeightMatrix& weights, const MatmulInput& x, const MatmulOutput& y,
                ThreadPool* threads) const {
    if (threads == nullptr) return kernels_.matmul(weights, x, {0, weights.outputs}, y);
    threads->parallel_for(weights.outputs, kOutputGrain, [&](std::int64_t begin, std::int64_t end) {
      kernels_.matmul(weights, x, {begin, end}, y);
    });
  }

  // listed: [count, tokens_].
  void spread(std::int64_t count, const float* listed, std::span<float> logits) const {
    if (adapters_.shortlist.empty()) {
      std::copy_n(listed, logits.size(), logits.begin());
      return;
    }
    std::fill(logits.begin(), logits.end(), -std::numeric_limits<float>::infinity());
    for (std::int64_t r = 0; r < count; ++r) {
      float* row = logits.data() + r * adapters_.vocab_size;
      for (const TokenId token : tokens_) row[token] = *listed++;
    }
  }

  // Constant after construction.
  const ExitAdapters adapters_;
  const Kernels& kernels_;
  const std::int64_t hidden_, stride_;
  const std::int64_t quantized_bytes_;  // of a row of hidden states, see QuantizedGroup
  const float epsilon_;
  const std::vector<TokenId> tokens_;
  const std::vector<std::shared_ptr<const Int8Rows>> heads_;
  std::vector<float> final_norm_;
  std::vector<std::int32_t> layers_;

  // Buffers of the current call.
  AlignedBuffer<float> normed_, adapted_;  // [rows, stride]
  AlignedBuffer<float> inner_;             // [rows, pad_to_lanes(bottleneck)]
  AlignedBuffer<std::byte> quantized_;     // [rows, quantized_bytes]
  AlignedBuffer<float> shortlisted_;       // [rows, tokens_]
  std::vector<float> ones_;
};

}  // namespace

std::uint64_t adapter_heads_bytes(const ExitAdapters& adapters) {
  const auto matrix = static_cast<std::uint64_t>(
      bytes_of(int8_matrix(considered_tokens(adapters), adapters.hidden_size)));
  std::uint64_t bytes = reads_target_s_head(adapters) ? matrix : 0;
  for (const ExitAdapter& exit : adapters.exits) {
    bytes += size_in_bytes(exit.head) + size_in_bytes(exit.norm) + size_in_bytes(exit.down) +
             size_in_bytes(exit.up);
    if (!exit.head.empty()) bytes += matrix;
  }
  return bytes;
}

Result<std::unique_ptr<ExitHeads>> make_adapter_heads(ExitAdapters adapters,
                                                      const ModelFiles& target,
                                                      std::optional<ExitAdapter> pruning) {
  OUTRIDER_RETURN_IF_ERROR(check_plain_head(target.config));
  OUTRIDER_ASSIGN_OR_RETURN(const VectorTarget kernels, find_vector_target("auto"));
  const std::size_t reporting = adapters.exits.size();
  if (pruning) adapters.exits.push_back(*std::move(pruning));
  return std::unique_ptr<ExitHeads>(
      std::make_unique<AdapterHeads>(std::move(adapters), reporting, kernels_for(kernels), target));
}

}  // namespace outrider
