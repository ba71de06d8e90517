// SPDX-License-Identifier: Apache-2.0
#include "bench/trees/flash_answers.h"

#include <utility>

#include "bench/device/blurred_model.h"
#include "bench/edges/bench_edge.h"
#include "bench/harness/virtual_answer.h"
#include "common/exits/find_exits.h"
#include "edge_client/generation/local_draft.h"

namespace outrider {

Result<std::unique_ptr<FlashAnswers>> FlashAnswers::load(const FlashModels& models) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> target,
                            load_bench_model(models.target, models.dtype, models.threads));
  OUTRIDER_ASSIGN_OR_RETURN(FoundExits exits, find_exits({.model = models.target}, target->info()));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> draft,
                            load_bench_model(models.draft, "auto", models.threads));
  if (models.draft_blur > 0) {
    draft = std::make_unique<BlurredModel>(std::move(draft), models.draft_blur);
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
  decoding.strategy = rival.strategy;
  decoding.gamma = rival.gamma;
  if (rival.fan_out) decoding.fan_out = *rival.fan_out;
  decoding.tree.kind = rival.tree;
  decoding.tree.size = setting.tree_size;
  decoding.tree.exits = rival.exits;
  decoding.provisional = rival.provisional;
  decoding.tree_memory = std::move(memory);
  decoding.tokenizer_hash = tokenizer_.content_hash();
  decoding.token_bound = tokenizer_.vocab_size();
  decoding.sampling = setting.sampling;
  decoding.seed = setting.seed;
  decoding.end_position = static_cast<Position>(prompt.ids.size()) + setting.max_tokens;
  setup.drafter = drafter_options(draft_.info(), {.context = target_.info().max_positions});
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
  VirtualDevices devices{.target = target_,
                         .scheduling = {},
                         .pass = {},
                         .draft = draft_,
                         .step = flash_step_curve(setting.pace.step_ms),
                         .link = {}};
  if (setting.network) {
    const Duration one_way = from_ms(setting.network->one_way_ms);
    devices.pass = pass_curve(*setting.network);
    devices.step = step_curve(*setting.network);
    devices.link = {.up = {one_way, one_way}, .down = {one_way, one_way}};
  } else {
    devices.flash = &device;
    if (rival.exits || rival.prune_below > 0) scheduling.exits = exits_.get();
    scheduling.prune_below = rival.prune_below;
  }
  devices.scheduling = scheduling;
  OUTRIDER_ASSIGN_OR_RETURN(
      VirtualAnswer answer,
      answer_in_virtual_time(devices, setup_of(rival, prompt, setting, std::move(memory))));
  const PruneCounts pruned = answer.pruned;
  OUTRIDER_ASSIGN_OR_RETURN(
      EdgeAnswer edge,
      edge_answer_of(record_of(std::move(answer), rival.strategy, rival.name, draft_.info().name)));
  return FlashAnswer{std::move(edge), pruned};
}

}  // namespace outrider
