// Synthetic models: a target and a draft without weights, a draft weakened by noise, and exits.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/decoding/exits/exit_heads.h"
#include "common/engine/model/model.h"

namespace outrider {

// A model without weights. The next token is a function of the text, and a draft agrees with its
// target after a given share of all texts. So a pair can have the acceptance of a paper, without
// computing.
class SyntheticModel final : public Model {
 public:
  // agreement: the share of texts after which its likeliest token is the target's; 1: it is the
  // target. like: the model whose vocabulary, context and stop ids it has. draw: drafts with other
  // numbers agree after other texts.
  SyntheticModel(const std::string& name, double agreement, const ModelInfo& like,
                 std::uint64_t draw = 0);

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override;
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  void write(std::uint64_t text, std::span<float> logits) const;
  std::size_t drawn_token(std::uint64_t text, std::uint64_t what) const;

  const double agreement_;
  const std::uint64_t draw_;
  ModelInfo info_;
};

// A weaker draft made of another one: it adds noise to the logits. The noise is a function of
// position and token. So the draft still guesses what it was sure of, and may guess wrong where two
// tokens are close.
class NoisyModel final : public Model {
 public:
  // deviation: of the noise, in logits; 0: none.
  NoisyModel(std::unique_ptr<Model> model, double deviation)
      : model_(std::move(model)), deviation_(static_cast<float>(deviation)) {}

  const ModelInfo& info() const override { return model_->info(); }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_->new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  const std::unique_ptr<Model> model_;
  const float deviation_;
};

// Synthetic early exits after every layer of a deep target. With them a small target stands in for
// the paper's, which has an exit after each of its 31 to 39 layers (FSD, section 4).
//
// An exit names the target's own token in a share of the rows that grows with its depth, and
// otherwise another likely token of the target; it is more confident if it is right. If an exit is
// right about a row, all later exits are. So only the consequences of these shares are measured:
// whether rounds are drafted in time, and in which order. For temperature 0.
//
//   RankedTokensModel shown(target, 32);
//   SyntheticExits exits(figure7_curve(kFittedScale), 32, vocab_size);
//   scheduler over `shown` with `exits`

// The quality of exits over the depth of the target.
struct ExitCurve {
  std::vector<Knot> match;       // share of rows whose token is the target's, by share of depth
  std::vector<Knot> confidence;  // mean confidence of the exit
  // Instead of `match`: whether and from which depth on a pass's whole outcome is named.
  struct Arrival {
    double miss_rate = 0;  // of passes whose outcome no exit names
    double mean = 0;       // mean share of the depth at which the others are first named
  };
  std::optional<Arrival> arrival = {};

  double match_at(double depth) const;
  double confidence_at(double depth) const;
};

// FSD's figure 7 as described in its text (it prints no numbers): 20 to 30 % of the tokens in the
// first layers, a steady rise, a steep one after the middle; the confidence levels off before the
// match does. scale: factor of each match.
ExitCurve figure7_curve(double scale = 1);

// The scale at which the misses of `outrider-bench reproduce fsd-table6` equal table 6's on
// average; every other table uses it.
inline constexpr double kFittedScale = 0.93;

// A model that shows taps, after each of `layers` layers, the likeliest tokens of the finished pass
// instead of hidden states. The model must outlive it.
class RankedTokensModel final : public Model {
 public:
  // For a row that a tap sees: its likeliest tokens, in order, and a number from 0 to 1 that
  // belongs to the row.
  static constexpr std::size_t kTokens = 5;
  static constexpr std::size_t kWidth = kTokens + 1;

  RankedTokensModel(Model& model, std::int32_t layers);

  const ModelInfo& info() const override { return info_; }
  Result<std::shared_ptr<KvPages>> new_pages(std::int32_t count) override {
    return model_.new_pages(count);
  }
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  void show(LayerTap& tap, const PassOutput& out);

  Model& model_;
  ModelInfo info_;
  std::vector<float> shown_;  // [rows that want logits, kWidth]
};

class SyntheticExits final : public ExitHeads {
 public:
  // For a target with this many layers: one exit after each except the last.
  SyntheticExits(ExitCurve curve, std::int32_t layers);

  std::span<const std::int32_t> layers() const override { return layers_; }
  void compute(std::size_t exit, const HiddenRows& rows, std::span<float> logits) override;
  DraftPrior prior(std::size_t, double) const override { return {}; }
  double confidence(std::size_t exit, double temperature,
                    std::span<const RowEvidence> rows) const override;

 private:
  double depth(std::size_t exit) const;
  bool is_right(std::size_t exit, double row, double pass) const;

  const ExitCurve curve_;
  std::vector<std::int32_t> layers_;
};

}  // namespace outrider
