// The sub-models that ElastiLM and its baselines make of the demo target, and which robot scenes
// each of them answers with the right action: its prompts and models of elastic size, for
// `outrider-bench reproduce`.
//
//   ElasticStudy study = *ElasticStudy::load();
//   SceneScores scores = *study.scores({Family::kUnits, 60, 0.5});   // level 60, half of the
//   prompt
//
// Thread rule: one thread. Units: a size is the bytes of a pass as a share of the full model's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/stats/statistics.h"
#include "common/base/enum_names.h"
#include "common/base/status.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/model.h"
#include "common/engine/text/tokenizer.h"
#include "common/serving/conversation/chat_template.h"

namespace outrider {

// The kinds of smaller models, by what they leave out.
enum class Family : std::uint8_t {
  kUnits,      // ours: unimportant units, anchors stay (docs/elastic.md)
  kAlike,      // the same units, as many in each layer: LLMPruner's kind, without its training
  kRandom,     // random units, as many in each layer
  kLayers,     // whole layers, by how much the loss rises without them: ShortGPT, LE
  kAttention,  // the attention of layers, by the same measure: AttnDrop
  kScratch,    // PFS: a smaller model that was trained from scratch, which is the demo draft
};

template <>
inline constexpr auto enum_names<Family> =
    std::to_array<EnumName<Family>>({{Family::kUnits, "units"},
                                     {Family::kAlike, "units, alike"},
                                     {Family::kRandom, "random units"},
                                     {Family::kLayers, "whole layers"},
                                     {Family::kAttention, "attention"},
                                     {Family::kScratch, "from scratch"}});

// How the tokens of a shorter prompt are chosen.
enum class Shortening : std::uint8_t {
  kSurprising,  // those stay that the draft expects least: Selective Context's, LLMLingua's kind
  kRandom,
};

// How a request is answered.
struct ElasticChoice {
  Family family = Family::kUnits;
  int percent = 100;          // of the layers' weights
  double prompt_share = 1.0;  // of the tokens of the user's message
  std::string dtype = "auto";
  Shortening shortening = Shortening::kSurprising;

  auto operator<=>(const ElasticChoice&) const = default;
};

// By scene: 1 where the answer ends with the right action.
using SceneScores = std::vector<double>;

class ElasticStudy final {
 public:
  // Scenes are drawn from held-out combinations; the first half chooses, the second half judges.
  static constexpr std::size_t kScenes = 120;

  // Reads models/demo-target and models/demo-draft below the current folder.
  static Result<ElasticStudy> load();

  // Falling, in % of the layers' weights: 100 to 20; those of kScratch are 100 and 0, the draft.
  static std::vector<int> percents(Family family);
  // The share of the full model's bytes.
  Result<double> size(Family family, int percent);
  // Answers each scene once.
  Result<SceneScores> scores(const ElasticChoice& choice);
  // In nats a token: the loss on right answers, less the full model's, where one layer is left out,
  // or its attention (kLayers, kAttention).
  Result<std::vector<double>> layer_losses(Family family);
  // The milliseconds of a pass over so many tokens of a prompt, or of the next token behind them.
  Result<Estimate> pass_ms(int percent, int tokens, bool next_token);
  // The milliseconds of a token of a level behind one of another level, less one behind its own.
  Result<Estimate> switch_ms();
  // The milliseconds in which this machine copies every second group of 32 columns of an f32 matrix
  // of so many rows and columns to a contiguous place: what a model without reordered units needs.
  static Estimate movement_ms(std::size_t size);

 private:
  struct Scene {
    std::string prompt, answer, action;
  };
  // The models of an order of units in a dtype.
  struct Loaded {
    std::shared_ptr<Model> full;
    std::map<std::pair<Family, int>, std::shared_ptr<Model>> levels = {};
  };

  ElasticStudy() = default;

  Result<std::vector<LayerWidths>> widths(Family family, int percent);
  Result<Loaded*> loaded(Family family, const std::string& dtype);
  Result<Model*> model(Family family, int percent, const std::string& dtype);
  Result<std::string> shortened(const std::string& prompt, const ElasticChoice& choice);

  ModelConfig config_;
  std::string fingerprint_;
  std::shared_ptr<const ElasticTable> table_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> chat_;
  std::shared_ptr<Model> draft_;
  std::vector<Scene> scenes_;
  std::map<Family, std::vector<double>> layer_losses_;
  std::map<std::pair<bool, std::string>, Loaded> loaded_;  // whether its units are in random order
  std::map<ElasticChoice, SceneScores> scores_;
};

}  // namespace outrider
