// A target and a draft without weights: what follows a text is drawn from the text itself, and the
// draft says the same after a given share of all texts. With them a pair can have the acceptance
// that a paper prints, in no time.
//
// Thread rule: as model.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/exits/exit_heads.h"
#include "common/model/model.h"

namespace outrider {

class SyntheticModel final : public Model {
 public:
  // agreement: after which share of texts its likeliest token is the target's; 1: it is the target.
  // like: whose vocabulary, context and stop ids it has.
  SyntheticModel(const std::string& name, double agreement, const ModelInfo& like);

  const ModelInfo& info() const override { return info_; }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override;
  Status forward(std::span<const Row> rows, PassOutput& out) override;

 private:
  void write(std::uint64_t text, std::span<float> logits) const;
  std::size_t drawn_token(std::uint64_t text, std::uint64_t what) const;

  const double agreement_;
  ModelInfo info_;
};

// Early exits after every layer of a deep target, made up: with them a small target stands in for
// the paper's, which has an exit after each of its 31 to 39 layers (FSD, section 4).
//
// An exit names the target's own token in a share of the rows that grows with its depth, and in the
// others one of the target's next tokens; it is surer of what is right. Once an exit is right about
// a row, all behind it are. So nothing is measured here but what follows from these shares: whether
// rounds are drafted in time, and in which order. For temperature 0.
//
//   RankedTokensModel shown(target, 32);
//   SyntheticExits exits(figure7_curve(kFittedScale), 32, vocab_size);
//   scheduler over `shown` with `exits`

// How good exits are, over the depth of the target.
struct ExitCurve {
  std::vector<Knot> match;       // share of rows whose token is the target's, by share of depth
  std::vector<Knot> confidence;  // the exit's mean one
  // Instead of `match`: a pass's whole outcome is named or not, and from which depth on.
  struct Arrival {
    double miss_rate = 0;  // of passes whose outcome no exit names
    double mean = 0;       // share of the depth at which the others are first named, on average
  };
  std::optional<Arrival> arrival = {};

  double match_at(double depth) const;
  double confidence_at(double depth) const;
};

// FSD's figure 7 as its text tells it (it prints no numbers): 20 to 30 % of the tokens in the first
// layers, a steady rise, a sharp one behind the middle; confidence is level before match is.
// scale: what each match counts for.
ExitCurve figure7_curve(double scale = 1);

// The scale at which the misses of `outrider-bench reproduce fsd-table6` are on average those that
// table 6 prints; every other table is run with it.
inline constexpr double kFittedScale = 0.93;

// A model that shows taps, after each of `layers` layers, the likeliest tokens that the pass ends
// with, in place of hidden states. The model must outlive it.
class RankedTokensModel final : public Model {
 public:
  // Of a row that a tap sees: so many tokens, likeliest first, and a number from 0 to 1 that is the
  // row's own.
  static constexpr std::size_t kTokens = 5;
  static constexpr std::size_t kWidth = kTokens + 1;

  RankedTokensModel(Model& model, std::int32_t layers);

  const ModelInfo& info() const override { return info_; }
  Result<std::unique_ptr<KvCache>> new_cache(std::int32_t capacity) override {
    return model_.new_cache(capacity);
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
  // Of a target with so many layers: one after each but the last.
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
