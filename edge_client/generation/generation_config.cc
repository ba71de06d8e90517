// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/generation_config.h"

#include "common/base/address.h"
#include "common/model/cpu/model_pack.h"

namespace outrider {

DraftSource draft_source_of(const GenerationConfig& config) {
  return config.draft_source.value_or(config.model.empty() ? DraftSource::kLookup
                                                           : DraftSource::kModel);
}

bool wants_draft(const GenerationConfig& config) {
  const std::optional<StrategyChoice>& strategy = config.answer.speculation.strategy;
  return draft_source_of(config) != DraftSource::kNone && config.draft_at != DraftSide::kServer &&
         (!strategy || *strategy != Strategy::kAr);
}

bool drafts_by_model(const GenerationConfig& config) {
  return wants_draft(config) && uses_model(draft_source_of(config));
}

bool drafts_by_lookup(const GenerationConfig& config) {
  return wants_draft(config) && uses_lookup(draft_source_of(config));
}

Mode mode_of(const GenerationConfig& config) {
  if (config.mode) return *config.mode;
  if (local_target_of(config).empty()) return Mode::kOnline;
  return config.server.empty() ? Mode::kOffline : Mode::kAuto;
}

std::string server_of(const GenerationConfig& config) {
  return config.server.empty() ? kDefaultServer : config.server;
}

std::string local_target_of(const GenerationConfig& config) {
  return config.target.empty() ? config.offline_target : config.target;
}

DefaultTrees default_trees(const GenerationConfig& config) {
  const bool streams = mode_of(config) != Mode::kOnline && drafts_by_model(config) &&
                       ModelPack::is_pack(local_target_of(config));
  if (!streams || config.answer.speculation.strategy) return {};
  if (mode_of(config) == Mode::kOffline) return {.always = TreeKind::kOutrider};
  return {.always = TreeKind::kChain, .offline = TreeKind::kOutrider};
}

SpeculationOptions offline_speculation(const AnswerConfig& config) {
  SpeculationOptions offline = config.speculation;
  if (!offline.strategy) offline.tree.kind = config.offline_tree.value_or(offline.tree.kind);
  return offline;
}

namespace {

Status check_levels(const GenerationConfig& config) {
  const LevelWish& wish = config.answer.wish;
  if (config.elastic.empty()) {
    if (wish.level.empty() && !wish.slo.asks()) return {};
    return invalid_argument(std::string(wish.slo.asks() ? "--slo" : "--level") +
                            " chooses a level of an elastic target, and there is no --elastic. "
                            "Remedy: --target DIR --elastic DIR/elastic.json");
  }
  const std::string target = local_target_of(config);
  const std::string what = "--elastic " + config.elastic;
  if (mode_of(config) != Mode::kOffline) {
    return invalid_argument(what +
                            " reorders this device's target, and a server's has other bits. "
                            "Remedy: --target without --server, or no --elastic");
  }
  if (ModelPack::is_pack(target)) {
    return unimplemented(what + " for the pack " + target +
                         ": a pack has no levels. Remedy: the directory that it was made of");
  }
  if (config.prune_below > 0) {
    return invalid_argument(what +
                            " has no early exits, by which --prune works. Remedy: leave one "
                            "of them out");
  }
  return check_slo(wish.slo);
}

Status check_local_target(const GenerationConfig& config) {
  const std::string target = local_target_of(config);
  if (!config.target.empty() && !config.offline_target.empty()) {
    return invalid_argument(
        "--target and --offline-target name two targets for this device; one of them is enough");
  }
  if (mode_of(config) != Mode::kOnline && target.empty()) {
    return invalid_argument(std::string("--mode ") + name_of(mode_of(config)) +
                            " needs a target on this device: name it with --target");
  }
  if (config.metered_limit > 0 && mode_of(config) != Mode::kAuto) {
    return invalid_argument(
        std::string("--metered-limit leaves the link to this device's target, and --mode ") +
        name_of(mode_of(config)) +
        " has no choice. Remedy: --server and --target together, or --mode auto");
  }
  if (target.empty() && config.prune_below > 0) {
    return invalid_argument(
        "--prune is of this device's target, and there is none. Remedy: name it with --target, or "
        "start the server with --prune");
  }
  if (!config.predictor.empty() && config.prune_below == 0) {
    return invalid_argument("--predictor prunes, and --prune is 0. Remedy: --prune 0.01");
  }
  OUTRIDER_RETURN_IF_ERROR(check_levels(config));
  const bool streams = config.flash.memory_budget > 0 || config.flash.bandwidth > 0;
  if (target.empty() || !streams || ModelPack::is_pack(target)) return {};
  const char* const what = config.flash.memory_budget > 0 ? "--memory-budget" : "an emulated flash";
  return invalid_argument(std::string(what) + " needs a pack, and " + target +
                          " is none. Remedy: outrider-edge pack --model " + target +
                          " --out FILE.pack, and --target FILE.pack");
}

Status check_draft_source(const GenerationConfig& config) {
  const DraftSource source = draft_source_of(config);
  const SpeculationOptions& speculated = config.answer.speculation;
  if (source == DraftSource::kNone && speculated.strategy &&
      *speculated.strategy != Strategy::kAr) {
    return invalid_argument(std::string("--strategy ") + name_of(speculated.chosen()) +
                            " drafts, and --draft-source is none. Remedy: leave one of them out");
  }
  const bool drafts_here = (speculated.strategy && *speculated.strategy != Strategy::kAr) ||
                           !config.lookup_corpus.empty() || mode_of(config) == Mode::kOffline;
  if (config.draft_at == DraftSide::kServer && drafts_here) {
    return invalid_argument(
        "--draft-at server leaves drafting to the server, and --strategy, --lookup-corpus or "
        "--mode offline ask this device for it. Remedy: --draft-at auto or edge");
  }
  if (drafts_by_model(config) && config.model.empty()) {
    return invalid_argument(std::string("--draft-source ") + name_of(source) +
                            " needs a draft model: name its directory with --model. Remedy without "
                            "one: --draft-source lookup");
  }
  if (!config.lookup_corpus.empty() && !drafts_by_lookup(config)) {
    return invalid_argument(std::string("--lookup-corpus is what look-up drafts from, and "
                                        "--draft-source is ") +
                            name_of(source) + ". Remedy: --draft-source lookup or both");
  }
  return {};
}

}  // namespace

Status validate(const GenerationConfig& config) {
  OUTRIDER_RETURN_IF_ERROR(validate(config.answer.text.choice.sampling));
  const SpeculationOptions& speculated = config.answer.speculation;
  OUTRIDER_RETURN_IF_ERROR(check_draft_source(config));
  if (speculated.tree.kind != TreeKind::kChain && speculated.chosen() != Strategy::kSd) {
    return invalid_argument(std::string("--tree ") + name_of(speculated.tree.kind) +
                            " is a round of --strategy sd, not of " + name_of(speculated.chosen()) +
                            ". Remedy: --strategy sd, or " + "--tree chain");
  }
  OUTRIDER_RETURN_IF_ERROR(check_local_target(config));
  return parse_address(server_of(config)).status();
}

Result<std::string> tokenizer_directory(const GenerationConfig& config) {
  if (!config.tokenizer.empty()) return config.tokenizer;
  if (!config.model.empty()) return config.model;
  if (const std::string target = local_target_of(config); !target.empty()) return target;
  return invalid_argument(
      "which tokenizer? name its directory with --tokenizer, or a draft with --model");
}

}  // namespace outrider
