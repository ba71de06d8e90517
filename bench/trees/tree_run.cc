// SPDX-License-Identifier: Apache-2.0
#include "bench/trees/tree_run.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <utility>

#include "bench/edges/bench_edge.h"
#include "bench/harness/answer_energy.h"
#include "bench/harness/scratch_folder.h"
#include "bench/harness/virtual_executor.h"
#include "bench/lab/shards.h"
#include "common/decoding/exits/find_exits.h"
#include "edge_client/generation/local_draft.h"
#include "edge_client/metrics/session_observer.h"
#include "sim/synthetic_pair.h"

namespace outrider {
namespace {

// A second draft for trees that merge two: the first one, with this noise on its logits.
constexpr double kSecondBlur = 1;

// Follows an answer round by round.
class RoundLog final : public SessionObserver {
 public:
  void on_start(std::size_t, TimePoint now) override { began_ = now; }
  void on_round_sent(TimePoint now) override { sent_ = now; }
  void on_draft_step(const DraftStepDone&, TimePoint now) override {
    if (!sent_) return;
    ++round_.steps_beside;
    round_.beside_ms = to_ms(now - *sent_);
  }
  void on_verdict(const VerdictRecord& record, TimePoint now) override {
    round_.at_ms = to_ms(now - began_);
    round_.pass_ms = to_ms(record.verdict.timings.computed);
    round_.depth = record.round.depth();
    round_.accepted = record.round.accepted;
    rounds_.push_back(round_);
    round_ = {};
    sent_.reset();
  }

  std::vector<RoundTrace> take() { return std::move(rounds_); }

 private:
  TimePoint began_{};
  std::optional<TimePoint> sent_;  // the round that is verified
  RoundTrace round_;
  std::vector<RoundTrace> rounds_;
};

// The model's logits behind each of the text's tokens from `first` on: out.row(i).
Status read_text(Model& model, std::span<const TokenId> text, std::size_t first, PassOutput& out) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<KvCache> cache,
                            model.new_cache(static_cast<std::int32_t>(text.size()) + 1));
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (std::size_t i = 0; i < text.size(); ++i) {
    OUTRIDER_ASSIGN_OR_RETURN(slot, cache->slots().append(slot));
    rows.push_back({cache.get(), slot, text[i], i >= first});
  }
  return model.forward(rows, out);
}

TokenId likeliest(std::span<const float> logits) {
  return static_cast<TokenId>(std::ranges::max_element(logits) - logits.begin());
}

}  // namespace

Result<std::unique_ptr<Model>> FlashAnswers::load_draft(const FlashModels& models) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> draft,
                            load_bench_model(models.draft, "auto", models.threads));
  if (models.draft_blur > 0) {
    draft = std::make_unique<NoisyModel>(std::move(draft), models.draft_blur);
  }
  return draft;
}

Result<std::unique_ptr<FlashAnswers>> FlashAnswers::load(const FlashModels& models) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> target,
                            load_bench_model(models.target, models.dtype, models.threads));
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(models.target));
  if (models.agreement) {
    const auto made = [&](const char* name, double agreement, std::uint64_t draw) {
      return std::make_unique<SyntheticModel>(name, agreement, target->info(), draw);
    };
    return std::unique_ptr<FlashAnswers>(
        new FlashAnswers(models, {.target = made("synthetic target", 1, 0),
                                  .draft = made("synthetic draft", *models.agreement, 0),
                                  .second = made("synthetic second draft", *models.agreement, 1),
                                  .exits = nullptr,
                                  .tokenizer = std::move(tokenizer)}));
  }
  OUTRIDER_ASSIGN_OR_RETURN(FoundExits exits,
                            find_exits({.model = models.target, .prunes = true}, target->info()));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> draft, load_draft(models));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> again, load_draft(models));
  return std::unique_ptr<FlashAnswers>(new FlashAnswers(
      models, {.target = std::move(target),
               .draft = std::move(draft),
               .second = std::make_unique<NoisyModel>(std::move(again), kSecondBlur),
               .exits = std::move(exits.heads),
               .tokenizer = std::move(tokenizer)}));
}

FlashAnswers::FlashAnswers(FlashModels models, Parts parts)
    : models_(std::move(models)),
      target_(std::move(parts.target)),
      draft_(std::move(parts.draft)),
      second_(std::move(parts.second)),
      merged_(draft_, second_),
      lenient_(target_, kBldRollback),
      exits_(std::move(parts.exits)),
      tokenizer_(std::move(parts.tokenizer)) {}

void FlashAnswers::next_prompt() {
  target_.forget();
  draft_.forget();
  second_.forget();
  if (shards_ != nullptr) shards_->forget();
}

// A layer matters as much as the target's own text surprises it with that layer at the fewest bits.
// The first prompt is the text.
Result<std::unique_ptr<Model>> FlashAnswers::make_shards(const BenchPrompt& prompt) const {
  if (models_.agreement) return invalid_argument("a pair without weights has no shards");
  const auto layers = static_cast<std::size_t>(target_.info().num_layers);
  const ScratchFolder folder;
  const auto with_bits = [&](const std::vector<int>& bits) -> Result<std::unique_ptr<Model>> {
    OUTRIDER_RETURN_IF_ERROR(write_shards(models_.target, bits, folder.path()));
    return load_bench_model(folder.path(), models_.dtype, models_.threads);
  };
  std::vector<double> importance;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    std::vector<int> bits(layers, 0);
    bits[layer] = kShardBits[0];
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model, with_bits(bits));
    PassOutput out;
    OUTRIDER_RETURN_IF_ERROR(read_text(*model, prompt.ids, 0, out));
    double surprise = 0;
    for (std::size_t i = 0; i + 1 < prompt.ids.size(); ++i) {
      surprise += surprise_of(out.row(i), static_cast<std::size_t>(prompt.ids[i + 1]));
    }
    importance.push_back(surprise);
  }
  return with_bits(plan_shards(importance, kStiBits));
}

// The model that decides what the text is.
Result<Model*> FlashAnswers::target_of(const TreeRival& rival, const BenchPrompt& prompt) {
  switch (rival.loss) {
    case Loss::kNone:
      break;
    case Loss::kDraftAlone:
      return &draft_;
    case Loss::kLenient:
      return &lenient_;
    case Loss::kShards:
      if (shards_ == nullptr) {
        OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> made, make_shards(prompt));
        shards_ = std::make_unique<MemoizedModel>(std::move(made));
      }
      return shards_.get();
  }
  return &target_;
}

Result<std::size_t> FlashAnswers::correct_tokens(const BenchPrompt& prompt,
                                                 const std::vector<TokenId>& answer) {
  if (answer.empty()) return std::size_t{0};
  std::vector<TokenId> text = prompt.ids;
  text.insert(text.end(), answer.begin(), answer.end() - 1);
  PassOutput out;
  OUTRIDER_RETURN_IF_ERROR(read_text(draft_, text, prompt.ids.size() - 1, out));
  std::size_t correct = 0;
  for (std::size_t i = 0; i < answer.size(); ++i) correct += likeliest(out.row(i)) == answer[i];
  return correct;
}

SimEdgeSetup FlashAnswers::setup_of(const TreeRival& rival, const BenchPrompt& prompt,
                                    const Setting& setting,
                                    std::shared_ptr<AnswerMemory> memory) const {
  SimEdgeSetup setup;
  setup.prompt = prompt.ids;
  auto& decoding = setup.decoding;
  SpeculationOptions& speculated = decoding.speculation.first;
  speculated.strategy = rival.strategy;
  speculated.gamma = rival.gamma;
  speculated.tree = {.kind = rival.tree,
                     .size = static_cast<std::size_t>(setting.tree_size),
                     .batch = rival.batch,
                     .exits = rival.exits};
  speculated.provisional = rival.provisional;
  decoding.speculation.memory = std::move(memory);
  decoding.tokenizer_hash = tokenizer_.content_hash();
  decoding.speculation.token_bound = tokenizer_.vocab_size();
  decoding.choice.sampling = setting.sampling;
  decoding.choice.seed = setting.seed;
  decoding.speculation.end_position = static_cast<Position>(prompt.ids.size()) + setting.max_tokens;
  setup.drafter = drafter_options(
      draft_.info(), {.max_positions = target_.info().max_positions, .workers = kDraftWorkers});
  return setup;
}

Result<FlashAnswer> FlashAnswers::answer(const TreeRival& rival, const BenchPrompt& prompt,
                                         const Setting& setting,
                                         std::shared_ptr<AnswerMemory> memory) {
  OUTRIDER_ASSIGN_OR_RETURN(Model* const target, target_of(rival, prompt));
  NamedFlashPace pace = rival.pace.value_or(setting.pace);
  pace.device.resident = setting.pace.device.resident;
  pace.device.buffers = setting.pace.device.buffers;
  pace.device.overlapped = rival.overlapped;
  pace.device.read_ms /= rival.read_rate;
  if (rival.strategy != Strategy::kAr) pace.device.read_ms *= pace.read_beside_draft;
  pace.device.compute = pace.device.compute.scaled(1 / rival.compute_rate);
  const PaceCurve step = flash_step_curve(pace);
  // A draft that writes alone is in memory.
  if (rival.loss == Loss::kDraftAlone) {
    pace.device.read_ms = 0;
    pace.device.compute = step;
  }
  FlashDevice device(pace.device);
  SchedulerOptions scheduling;
  scheduling.tokenizer_hash = tokenizer_.content_hash();
  scheduling.max_rows = 65;
  if (rival.exits || rival.prune_below > 0) scheduling.exits = exits_.get();
  scheduling.prune_below = rival.prune_below;
  scheduling.prune_rule = rival.prune_rule;
  scheduling.prune_temperature = rival.prune_temperature;
  Model& draft = rival.merges_drafts ? static_cast<Model&>(merged_) : draft_;
  const VirtualDevices devices{.target = *target,
                               .scheduling = scheduling,
                               .pass = {},
                               .draft = draft,
                               .step = step,
                               .link = {.same_process = true},
                               .flash = &device};
  RoundLog log;
  SimEdgeSetup setup = setup_of(rival, prompt, setting, std::move(memory));
  setup.decoding.observer = &log;
  OUTRIDER_ASSIGN_OR_RETURN(VirtualAnswer answer,
                            answer_in_virtual_time(devices, std::move(setup)));
  const PruneCounts pruned = answer.pruned;
  const Activity activity = std::move(answer.activity);
  OUTRIDER_ASSIGN_OR_RETURN(
      EdgeAnswer edge,
      edge_answer_of(record_of(std::move(answer), rival.strategy, rival.name, draft_.info().name)));
  if (setting.energy && pace.device.read_ms > 0) {
    const double read = pace.bytes * to_ms(activity.flash_reading) / pace.device.read_ms;
    EnergyModel model = *setting.energy;
    model.target_pass_bytes = pace.bytes;
    const auto passes = static_cast<double>(edge.record.stats.passes);
    add_energy(energy_from_flash(model, activity, passes, read), edge);
  }
  return FlashAnswer{std::move(edge), pruned, log.take()};
}

const std::vector<AnswerFigures>* TreeResults::of(const std::string& rival) const {
  const auto found = answers.find(rival);
  return found == answers.end() ? nullptr : &found->second;
}

Result<TreeResults> run_trees(FlashAnswers& flash, const TreeRunOptions& options,
                              const std::vector<TreeRival>& rivals, const std::string& path,
                              RivalMemories& memories) {
  OUTRIDER_CHECK(!rivals.empty() && rivals.front().loss == Loss::kNone);
  TreeResults results{.text = std::filesystem::path(path).stem().string()};
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts,
                            read_prompts(path, flash.tokenizer(), options.num_prompts));
  FlashAnswers::Setting setting;
  OUTRIDER_ASSIGN_OR_RETURN(setting.pace, find_flash_pace(options.pace));
  if (options.step_ms) setting.pace.step_ms = *options.step_ms;
  setting.pace.device.resident = options.resident;
  setting.pace.device.buffers = options.buffers;
  setting.sampling.temperature = static_cast<float>(options.temperature);
  setting.seed = options.seed;
  setting.max_tokens = options.max_tokens;
  setting.tree_size = options.tree_size;
  setting.energy = options.energy;
  for (const BenchPrompt& prompt : prompts) {
    std::vector<TokenId> expected;
    for (const TreeRival& rival : rivals) {
      std::shared_ptr<AnswerMemory>& memory = memories[rival.name];
      if (memory == nullptr) memory = std::make_shared<AnswerMemory>();
      OUTRIDER_ASSIGN_OR_RETURN(const FlashAnswer answer,
                                flash.answer(rival, prompt, setting, memory));
      const EdgeAnswer& edge = answer.edge;
      const std::vector<TokenId>& ids = edge.record.ids;
      if (expected.empty()) {
        expected = ids;
        OUTRIDER_ASSIGN_OR_RETURN(const std::size_t correct, flash.correct_tokens(prompt, ids));
        results.tokens += ids.size();
        results.correct += correct;
      }
      if (rival.loss == Loss::kNone && ids != expected) ++results.mismatches;
      results.likeness[rival.name].push_back(rouge_l(ids, expected));
      std::ranges::copy(answer.rounds, std::back_inserter(results.rounds[rival.name]));
      results.answers[rival.name].push_back(edge.figures);
      results.pruned[rival.name] += answer.pruned;
    }
    flash.next_prompt();
    std::fprintf(stderr, "\r%s: %zu of %zu prompts ", results.text.c_str(),
                 results.answers[rivals.front().name].size(), prompts.size());
  }
  std::fprintf(stderr, "\n");
  return results;
}

std::optional<double> tokens_per_pass(const AnswerFigures& figures) {
  if (figures.passes <= 0) return std::nullopt;
  return figures.tokens / figures.passes;
}

std::optional<double> nodes_per_round(const AnswerFigures& figures) {
  if (figures.passes <= 0) return std::nullopt;
  return figures.drafted / figures.passes;
}

std::optional<Estimate> mean(const std::vector<AnswerFigures>& answers, TreeFigure figure) {
  return bootstrap(answers.size(), [&](std::span<const std::size_t> drawn) {
    return figure(sum_at(answers, drawn));
  });
}

double share_saved(const PruneCounts& pruned) {
  if (pruned.rows == 0) return 0;
  return static_cast<double>(pruned.rows_ended) / static_cast<double>(pruned.rows);
}

}  // namespace outrider
