// SPDX-License-Identifier: Apache-2.0
#include "bench/elastic/elastic_study.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <limits>
#include <numeric>
#include <utility>

#include "adapters/answers/generate.h"
#include "adapters/data/corpus.h"
#include "adapters/data/random.h"
#include "adapters/data/robot_text.h"
#include "adapters/elastic/level_quality.h"
#include "adapters/elastic/level_widths.h"
#include "adapters/exits/hidden_states.h"
#include "bench/harness/scratch_folder.h"
#include "common/base/clock.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/loader/loader.h"

namespace outrider {
namespace {

constexpr const char* kTarget = "models/demo-target";
constexpr const char* kDraft = "models/demo-draft";
constexpr std::uint64_t kSceneSeed = 5;  // models/README.md trains with 1, and measures with 2
constexpr std::int64_t kMaxTokens = 80;
constexpr int kSmallestPercent = 20, kStepPercent = 10;
constexpr int kTimedPasses = 15, kSwitches = 101;
constexpr int kTimedPrompt = 64;         // tokens
constexpr std::size_t kLossScenes = 40;  // a layer's loss is the mean over their answers

double surprise(std::span<const float> logits, TokenId token) {
  const double most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - most);
  return most + std::log(sum) - logits[static_cast<std::size_t>(token)];
}

std::vector<LayerOrder> random_order(const ModelConfig& config) {
  SplitMix64 random(1);
  std::vector<LayerOrder> order(static_cast<std::size_t>(config.num_layers));
  const LayerWidths full = full_widths(config);
  for (LayerOrder& layer : order) {
    layer.neurons.resize(static_cast<std::size_t>(full.neurons));
    layer.kv_groups.resize(static_cast<std::size_t>(full.kv_groups));
    std::iota(layer.neurons.begin(), layer.neurons.end(), 0);
    std::iota(layer.kv_groups.begin(), layer.kv_groups.end(), 0);
    random.shuffle(layer.neurons);
    random.shuffle(layer.kv_groups);
  }
  return order;
}

// The layers' numbers, the one first without which the loss rises least.
std::vector<std::size_t> least_first(const std::vector<double>& losses) {
  std::vector<std::size_t> order(losses.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return losses[i]; });
  return order;
}

ElasticLevel level_of(const ModelConfig& config, std::vector<LayerWidths> widths) {
  std::map<std::string, std::int64_t> bytes = level_bytes(config, widths);
  return {.name = "measured", .layers = std::move(widths), .bytes = std::move(bytes)};
}

}  // namespace

Result<ElasticStudy> ElasticStudy::load() {
  ElasticStudy self;
  OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                            load_model_files(kTarget, {}));
  self.config_ = files->config;
  self.fingerprint_ = files->fingerprint;
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(kTarget));
  self.tokenizer_ = std::make_unique<Tokenizer>(std::move(tokenizer));
  OUTRIDER_ASSIGN_OR_RETURN(ChatTemplate chat, ChatTemplate::choose(*self.tokenizer_, ""));
  self.chat_ = std::make_unique<ChatTemplate>(std::move(chat));
  OUTRIDER_ASSIGN_OR_RETURN(self.draft_, load_model({.directory = kDraft}));
  for (std::size_t i = 0; i < kScenes; ++i) {
    RobotExample example = make_robot_example(kSceneSeed, i, Split::kHeldOut);
    self.scenes_.push_back({example.prompt, example.answer, example.action});
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Loaded* loaded, self.loaded(Family::kUnits, "auto"));
  self.table_ = elastic_table_of(*loaded->full);
  return self;
}

std::vector<int> ElasticStudy::percents(Family family) {
  if (family == Family::kScratch) return {100, 0};
  std::vector<int> all;
  for (int percent = 100; percent >= kSmallestPercent; percent -= kStepPercent) {
    all.push_back(percent);
  }
  return all;
}

Result<ElasticStudy::Loaded*> ElasticStudy::loaded(Family family, const std::string& dtype) {
  const bool is_random = family == Family::kRandom;
  Loaded& loaded = loaded_[{is_random, dtype}];
  if (loaded.full != nullptr) return &loaded;
  LoadOptions options{.directory = kTarget, .dtype = dtype, .elastic = {}};
  options.elastic = std::string(kTarget) + "/" + kElasticFile;
  if (!is_random) {
    OUTRIDER_ASSIGN_OR_RETURN(loaded.full, load_model(options));
    return &loaded;
  }
  ElasticTable table{.model = fingerprint_,
                     .anchors = {},
                     .order = random_order(config_),
                     .levels = {table_->full()}};
  const ScratchFolder folder;
  options.elastic = folder.path() + "/" + kElasticFile;
  if (!(std::ofstream(options.elastic) << elastic_table_text(table)).flush()) {
    return unavailable(options.elastic + " could not be written");
  }
  OUTRIDER_ASSIGN_OR_RETURN(loaded.full, load_model(options));
  return &loaded;
}

Result<std::vector<double>> ElasticStudy::layer_losses(Family family) {
  std::vector<double>& losses = layer_losses_[family];
  if (!losses.empty()) return losses;
  OUTRIDER_ASSIGN_OR_RETURN(const Loaded* loaded, this->loaded(Family::kUnits, "auto"));
  std::vector<ElasticLevel> levels = {level_of(config_, table_->full().layers)};
  for (std::size_t i = 0; i < table_->full().layers.size(); ++i) {
    std::vector<LayerWidths> widths = table_->full().layers;
    widths[i].kv_groups = 0;
    if (family == Family::kLayers) widths[i].neurons = 0;
    levels.push_back(level_of(config_, std::move(widths)));
  }
  const TurnFormat format{*tokenizer_, *chat_};
  std::vector<Document> documents;
  for (std::size_t i = 0; i < kLossScenes; ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(Document document,
                              make_document(format, scenes_[i].prompt, scenes_[i].answer, true));
    documents.push_back(std::move(document));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<LevelQuality> found,
                            measure_levels(*loaded->full, levels, documents, [](std::int64_t) {}));
  for (std::size_t i = 1; i < found.size(); ++i) {
    losses.push_back(found[i].loss - found[0].loss);
  }
  return losses;
}

Result<std::vector<LayerWidths>> ElasticStudy::widths(Family family, int percent) {
  std::vector<LayerWidths> widths = table_->full().layers;
  const double share = percent / 100.0;
  WidthsInput input{.config = config_, .importance = {}, .layer_loss = {}, .anchors = {}};
  switch (family) {
    case Family::kUnits: {
      const Result<const ElasticLevel*> level = find_level(*table_, std::to_string(percent));
      if (level.ok()) return (*level)->layers;
      input.anchors = table_->anchors;  // below the table: evenly within its smallest level
      return narrow(input, Sharing::kEven, share, table_->levels.back().layers);
    }
    case Family::kAlike:
    case Family::kRandom:
      return narrow(input, Sharing::kEven, share, std::move(widths));
    case Family::kLayers: {
      OUTRIDER_ASSIGN_OR_RETURN(input.layer_loss, layer_losses(family));
      // Whole layers alone: as many as leave at most the share.
      const auto stay = static_cast<std::size_t>(share * static_cast<double>(widths.size()));
      const std::vector<std::size_t> order = least_first(input.layer_loss);
      for (std::size_t i = 0; i + stay < widths.size(); ++i) widths[order[i]] = {0, 0};
      return widths;
    }
    case Family::kAttention: {
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> losses, layer_losses(family));
      const auto full = static_cast<double>(level_bytes(config_, widths).at("f32"));
      for (const std::size_t layer : least_first(losses)) {
        if (static_cast<double>(level_bytes(config_, widths).at("f32")) <= share * full) break;
        widths[layer].kv_groups = 0;
      }
      return widths;
    }
    case Family::kScratch:
      break;
  }
  return widths;
}

Result<double> ElasticStudy::size(Family family, int percent) {
  const auto full = static_cast<double>(table_->full().bytes.at("f32"));
  if (family == Family::kScratch) {
    if (percent == 100) return 1.0;
    OUTRIDER_ASSIGN_OR_RETURN(const std::shared_ptr<const ModelFiles> files,
                              load_model_files(kDraft, {}));
    const std::vector<LayerWidths> layers(static_cast<std::size_t>(files->config.num_layers),
                                          full_widths(files->config));
    return static_cast<double>(level_bytes(files->config, layers).at("f32")) / full;
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<LayerWidths> layers, widths(family, percent));
  return static_cast<double>(level_bytes(config_, layers).at("f32")) / full;
}

Result<Model*> ElasticStudy::model(Family family, int percent, const std::string& dtype) {
  if (family == Family::kScratch && percent != 100) return draft_.get();
  OUTRIDER_ASSIGN_OR_RETURN(Loaded* const loaded, this->loaded(family, dtype));
  std::shared_ptr<Model>& level = loaded->levels[{family, percent}];
  if (level == nullptr) {
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<LayerWidths> layers, widths(family, percent));
    OUTRIDER_ASSIGN_OR_RETURN(level,
                              make_level(*loaded->full, level_of(config_, std::move(layers))));
  }
  return level.get();
}

Result<std::string> ElasticStudy::shortened(const std::string& prompt,
                                            const ElasticChoice& choice) {
  if (choice.prompt_share >= 1) return prompt;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> ids, tokenizer_->encode(prompt));
  std::vector<double> worth;
  if (choice.shortening == Shortening::kRandom) {
    SplitMix64 random(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) worth.push_back(random.uniform());
  } else {
    OUTRIDER_ASSIGN_OR_RETURN(HiddenReader reader, HiddenReader::make(*draft_, {}));
    HiddenBatch batch = reader.empty_batch();
    OUTRIDER_RETURN_IF_ERROR(
        reader.read({.tokens = ids, .learnt = std::vector<std::uint8_t>(ids.size(), 1)}, batch));
    worth.push_back(std::numeric_limits<double>::infinity());  // nothing stands before the first
    const std::size_t vocab = batch.logits.size() / batch.rows();
    for (std::size_t row = 0; row < batch.rows(); ++row) {
      worth.push_back(
          surprise(std::span(batch.logits).subspan(row * vocab, vocab), batch.next[row]));
    }
  }
  const auto stay =
      static_cast<std::size_t>(std::lround(choice.prompt_share * static_cast<double>(ids.size())));
  std::vector<std::size_t> order(ids.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater(), [&](std::size_t i) { return worth[i]; });
  order.resize(std::min(order.size(), std::max<std::size_t>(1, stay)));
  std::ranges::sort(order);
  std::vector<TokenId> kept;
  for (const std::size_t i : order) kept.push_back(ids[i]);
  return tokenizer_->decode(kept);
}

Result<SceneScores> ElasticStudy::scores(const ElasticChoice& choice) {
  if (const auto found = scores_.find(choice); found != scores_.end()) return found->second;
  OUTRIDER_ASSIGN_OR_RETURN(Model* const model,
                            this->model(choice.family, choice.percent, choice.dtype));
  std::vector<std::vector<TokenId>> prompts;
  for (const Scene& scene : scenes_) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string prompt, shortened(scene.prompt, choice));
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                              chat_->encode_chat(*tokenizer_, {{ChatRole::kUser, prompt}}));
    prompts.push_back(std::move(ids));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const TokenId stop, chat_->end_of_turn(*tokenizer_));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::vector<std::vector<TokenId>> answers,
      generate(*model, prompts, {.max_tokens = kMaxTokens, .stop = stop}, [](std::int64_t) {}));
  SceneScores scores;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string text, tokenizer_->decode(answers[i]));
    scores.push_back(action_in(text) == scenes_[i].action ? 1 : 0);
  }
  std::fprintf(stderr, "%s %d %%, prompt %.2f: %.0f of %zu right    \r", name_of(choice.family),
               choice.percent, choice.prompt_share,
               std::accumulate(scores.begin(), scores.end(), 0.0), scores.size());
  return scores_[choice] = std::move(scores);
}

namespace {

// A text of one model, one token after the other.
class GrowingText final {
 public:
  static Result<GrowingText> begin(Model& model, int tokens, int more) {
    GrowingText self(model);
    OUTRIDER_ASSIGN_OR_RETURN(self.cache_, model.new_cache(tokens + more));
    return self;
  }

  // The milliseconds of a pass over so many more tokens.
  Result<double> read(int tokens) {
    std::vector<Row> rows;
    for (int i = 0; i < tokens; ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(last_, cache_->slots().append(last_));
      rows.push_back({cache_.get(), last_, kFirstToken + next_++ % kTokens, i + 1 == tokens});
    }
    const SystemClock clock;
    const TimePoint begin = clock.now();
    OUTRIDER_RETURN_IF_ERROR(model_->forward(rows, out_));
    return to_ms(clock.now() - begin);
  }

 private:
  static constexpr TokenId kFirstToken = 5, kTokens = 997;  // any text

  explicit GrowingText(Model& model) : model_(&model) {}

  Model* model_;
  std::unique_ptr<KvCache> cache_ = nullptr;
  Slot last_ = kRootSlot;
  TokenId next_ = 0;
  PassOutput out_ = {};
};

}  // namespace

Result<Estimate> ElasticStudy::pass_ms(int percent, int tokens, bool next_token) {
  OUTRIDER_ASSIGN_OR_RETURN(Model* const model, this->model(Family::kUnits, percent, "auto"));
  std::vector<double> times;
  for (int pass = 0; pass < kTimedPasses; ++pass) {
    OUTRIDER_ASSIGN_OR_RETURN(GrowingText text, GrowingText::begin(*model, tokens, 1));
    OUTRIDER_ASSIGN_OR_RETURN(double took, text.read(tokens));
    if (next_token) {
      OUTRIDER_ASSIGN_OR_RETURN(took, text.read(1));
    }
    times.push_back(took);
  }
  return *median(times);
}

Result<Estimate> ElasticStudy::switch_ms() {
  OUTRIDER_ASSIGN_OR_RETURN(Model* const full, model(Family::kUnits, 100, "auto"));
  OUTRIDER_ASSIGN_OR_RETURN(Model* const level, model(Family::kUnits, 60, "auto"));
  OUTRIDER_ASSIGN_OR_RETURN(GrowingText before, GrowingText::begin(*full, kTimedPrompt, kSwitches));
  OUTRIDER_ASSIGN_OR_RETURN(GrowingText text,
                            GrowingText::begin(*level, kTimedPrompt, 2 * kSwitches));
  OUTRIDER_RETURN_IF_ERROR(before.read(kTimedPrompt).status());
  OUTRIDER_RETURN_IF_ERROR(text.read(kTimedPrompt).status());
  std::vector<double> added;
  for (int i = 0; i < kSwitches; ++i) {
    OUTRIDER_RETURN_IF_ERROR(before.read(1).status());
    OUTRIDER_ASSIGN_OR_RETURN(const double switched, text.read(1));
    OUTRIDER_ASSIGN_OR_RETURN(const double stayed, text.read(1));
    added.push_back(switched - stayed);
  }
  return *median(added);
}

Estimate ElasticStudy::movement_ms(std::size_t size) {
  const std::vector<float> from(size * size, 1.0F);
  const SystemClock clock;
  std::vector<double> times;
  for (int i = 0; i < kTimedPasses; ++i) {
    const TimePoint begin = clock.now();
    std::vector<float> to;
    to.reserve(size * size / 2);
    for (std::size_t at = 0; at + kElasticGroup <= from.size(); at += 2 * kElasticGroup) {
      to.insert(to.end(), from.begin() + static_cast<std::ptrdiff_t>(at),
                from.begin() + static_cast<std::ptrdiff_t>(at + kElasticGroup));
    }
    times.push_back(to_ms(clock.now() - begin));
  }
  return *median(times);
}

}  // namespace outrider
