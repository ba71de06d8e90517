// SPDX-License-Identifier: Apache-2.0
#include "bench/trees/tree_run.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <utility>

#include "bench/edges/bench_edge.h"
#include "bench/harness/virtual_executor.h"
#include "bench/lab/shaped_trees.h"
#include "common/decoding/exits/find_exits.h"
#include "edge_client/generation/local_draft.h"
#include "sim/synthetic_pair.h"

namespace outrider {
namespace {

// EdgeLLM, figure 9: each further row of a draft step costs this share of the first.
constexpr double kDraftRow = 0.9;
constexpr int kDraftRows = 10;
constexpr int kPassRows = 512;

// Straight lines from 1 to 16 to 32 rows, and on.
PaceCurve pass_curve(double one, double sixteen, double thirty_two) {
  const double slope = (thirty_two - sixteen) / 16;
  return *PaceCurve::create({{1, one},
                             {16, sixteen},
                             {32, thirty_two},
                             {kPassRows, thirty_two + slope * (kPassRows - 32)}});
}

std::vector<NamedFlashPace> make_paces() {
  // Output matrix: 128,256 x 4,096 of 8.03 G weights; 151,936 x 4,096 of 8.19 G.
  return {{"lever-llama31-8b",
           {.layers = 32,
            .read_ms = 990.6,
            .head_share = 0.065,
            .compute = pass_curve(93.2, 828, 1255)},
           20},
          {"lever-qwen3-8b",
           {.layers = 36,
            .read_ms = 953.4,
            .head_share = 0.076,
            .compute = pass_curve(96.6, 817, 1229)},
           20}};
}

}  // namespace

Result<NamedFlashPace> find_flash_pace(const std::string& name) {
  std::string names;
  for (NamedFlashPace& pace : make_paces()) {
    if (pace.name == name) return std::move(pace);
    names += (names.empty() ? "" : ", ") + pace.name;
  }
  return invalid_argument("--pace " + name + ": expected one of " + names);
}

PaceCurve flash_step_curve(double step_ms) {
  const double last = step_ms * (1 + kDraftRow * (kDraftRows - 1));
  return *PaceCurve::create({{1, step_ms}, {kDraftRows, last}});
}

namespace {

// Threshold of a branch's probability: keeps 95 % of the accepted tokens (docs/pruning.md).
constexpr double kPruneBelow = 0.01;

// The read rate of a mapped file larger than memory, relative to a streamed pack: measured with a
// mapped file and a pack of it (docs/flash-streaming.md).
constexpr double kMappedRate = 0.4;

}  // namespace

std::vector<TreeRival> tree_rivals() {
  std::vector<TreeRival> rivals = {
      {.name = "flash-ar", .strategy = Strategy::kAr},
      {.name = "flash-ar-serial", .strategy = Strategy::kAr, .overlapped = false},
      {.name = "flash-ar-mmap",
       .strategy = Strategy::kAr,
       .overlapped = false,
       .read_rate = kMappedRate},
      {.name = "chain-8-serial", .gamma = 8, .overlapped = false},
      {.name = "chain-8-mmap", .gamma = 8, .overlapped = false, .read_rate = kMappedRate}};
  for (int gamma = 2; gamma <= 8; ++gamma) {
    const std::string name = "chain-" + std::to_string(gamma);
    rivals.push_back({.name = name, .gamma = gamma});
    rivals.push_back({.name = name + "-provisional", .gamma = gamma, .provisional = true});
  }
  for (const auto& [kind, name] : enum_names<TreeKind>) {
    if (kind != TreeKind::kChain) rivals.push_back({.name = name, .tree = kind});
  }
  for (const GuestTree& tree : shaped_trees()) {
    rivals.push_back({.name = tree.name, .tree = TreeChoice(tree)});
  }
  rivals.push_back({.name = "edgellm-waiting", .tree = TreeKind::kEdgellm, .provisional = false});
  rivals.push_back({.name = "outrider-waiting", .tree = TreeKind::kOutrider, .provisional = false});
  rivals.push_back({.name = "outrider-with-exits", .tree = TreeKind::kOutrider, .exits = true});
  std::vector<TreeChoice> pruned = {TreeKind::kLever, TreeKind::kOutrider};
  for (const GuestTree& tree : shaped_trees()) pruned.emplace_back(tree);
  for (const TreeChoice& tree : pruned) {
    rivals.push_back(
        {.name = std::string(name_of(tree)) + "-pruned", .tree = tree, .prune_below = kPruneBelow});
  }
  return rivals;
}

Result<std::vector<TreeRival>> find_tree_rivals(const std::vector<std::string>& names) {
  const std::vector<TreeRival> all = tree_rivals();
  if (names.empty()) return all;
  std::vector<TreeRival> found;
  for (const std::string& name : names) {
    const auto rival = std::ranges::find(all, name, &TreeRival::name);
    if (rival == all.end()) {
      std::string known;
      for (const TreeRival& one : all) known += (known.empty() ? "" : ", ") + one.name;
      return invalid_argument("--policies: no '" + name + "' among " + known);
    }
    found.push_back(*rival);
  }
  return found;
}

Result<std::unique_ptr<FlashAnswers>> FlashAnswers::load(const FlashModels& models) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> target,
                            load_bench_model(models.target, models.dtype, models.threads));
  OUTRIDER_ASSIGN_OR_RETURN(FoundExits exits,
                            find_exits({.model = models.target, .prunes = true}, target->info()));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> draft,
                            load_bench_model(models.draft, "auto", models.threads));
  if (models.draft_blur > 0) {
    draft = std::make_unique<NoisyModel>(std::move(draft), models.draft_blur);
  }
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(models.target));
  return std::unique_ptr<FlashAnswers>(new FlashAnswers(
      std::move(target), std::move(draft), std::move(exits.heads), std::move(tokenizer)));
}

FlashAnswers::FlashAnswers(std::unique_ptr<Model> target, std::unique_ptr<Model> draft,
                           std::unique_ptr<ExitHeads> exits, Tokenizer tokenizer)
    : target_(std::move(target)),
      draft_(std::move(draft)),
      exits_(std::move(exits)),
      tokenizer_(std::move(tokenizer)) {}

void FlashAnswers::next_prompt() {
  target_.forget();
  draft_.forget();
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
  speculated.tree.kind = rival.tree;
  speculated.tree.size = setting.tree_size;
  speculated.tree.exits = rival.exits;
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
  FlashPace pace = setting.pace.device;
  pace.overlapped = rival.overlapped;
  pace.read_ms /= rival.read_rate;
  FlashDevice device(pace);
  SchedulerOptions scheduling;
  scheduling.tokenizer_hash = tokenizer_.content_hash();
  scheduling.max_rows = 65;
  if (rival.exits || rival.prune_below > 0) scheduling.exits = exits_.get();
  scheduling.prune_below = rival.prune_below;
  const VirtualDevices devices{.target = target_,
                               .scheduling = scheduling,
                               .pass = {},
                               .draft = draft_,
                               .step = flash_step_curve(setting.pace.step_ms),
                               .link = {.same_process = true},
                               .flash = &device};
  OUTRIDER_ASSIGN_OR_RETURN(
      VirtualAnswer answer,
      answer_in_virtual_time(devices, setup_of(rival, prompt, setting, std::move(memory))));
  const PruneCounts pruned = answer.pruned;
  OUTRIDER_ASSIGN_OR_RETURN(
      EdgeAnswer edge,
      edge_answer_of(record_of(std::move(answer), rival.strategy, rival.name, draft_.info().name)));
  return FlashAnswer{std::move(edge), pruned};
}

const std::vector<AnswerFigures>* TreeResults::of(const std::string& rival) const {
  const auto found = answers.find(rival);
  return found == answers.end() ? nullptr : &found->second;
}

Result<TreeResults> run_trees(FlashAnswers& flash, const TreeRunOptions& options,
                              const std::vector<TreeRival>& rivals, const std::string& path,
                              RivalMemories& memories) {
  TreeResults results{.text = std::filesystem::path(path).stem().string()};
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts,
                            read_prompts(path, flash.tokenizer(), options.num_prompts));
  FlashAnswers::Setting setting;
  OUTRIDER_ASSIGN_OR_RETURN(setting.pace, find_flash_pace(options.pace));
  setting.pace.step_ms = options.step_ms;
  setting.pace.device.resident = options.resident;
  setting.pace.device.buffers = options.buffers;
  setting.sampling.temperature = static_cast<float>(options.temperature);
  setting.seed = options.seed;
  setting.max_tokens = options.max_tokens;
  setting.tree_size = options.tree_size;
  for (const BenchPrompt& prompt : prompts) {
    std::vector<TokenId> expected;
    for (const TreeRival& rival : rivals) {
      std::shared_ptr<AnswerMemory>& memory = memories[rival.name];
      if (memory == nullptr) memory = std::make_shared<AnswerMemory>();
      OUTRIDER_ASSIGN_OR_RETURN(const FlashAnswer answer,
                                flash.answer(rival, prompt, setting, memory));
      const EdgeAnswer& edge = answer.edge;
      if (expected.empty()) expected = edge.record.ids;
      results.mismatches += edge.record.ids == expected ? 0 : 1;
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
