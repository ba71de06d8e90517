// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/generation_config.h"

#include "common/base/address.h"

namespace outrider {

DraftSource draft_source_of(const GenerationConfig& config) {
  const bool has_model = !config.model.empty() || !config.draft_level.empty();
  return config.draft_source.value_or(has_model ? DraftSource::kModel : DraftSource::kLookup);
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

// A server answers an edge by one level, which the edge names: times are not known of it.
Status check_level_of_server(const GenerationConfig& config) {
  const LevelWish& wish = config.answer.wish;
  if (wish.slo.chooses_level()) {
    return invalid_argument(
        "--slo chooses a level by the times of this device's target, and a server answers. Remedy: "
        "--level, or --target without --server");
  }
  if (wish.level.empty()) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const LevelCourse course, parse_level_course(wish.level));
  if (course.then.empty() && course.first != "auto" && config.server_api == ServerApi::kOutrider) {
    return {};
  }
  return invalid_argument(
      "--level " + printable(wish.level) +
      ": a server answers an edge by one level, and only outrider-server has levels. Remedy: "
      "the name of one, such as --level 60");
}

Status check_levels(const GenerationConfig& config) {
  const LevelWish& wish = config.answer.wish;
  OUTRIDER_RETURN_IF_ERROR(check_slo(wish.slo));
  if (wish.slo.unverified && !wants_draft(config)) {
    return invalid_argument(
        "--slo-unverified gives what the draft expects of an answer, and nothing drafts here. "
        "Remedy: --draft-level or --model");
  }
  const Mode mode = mode_of(config);
  if (mode != Mode::kOffline) OUTRIDER_RETURN_IF_ERROR(check_level_of_server(config));
  const std::string target = local_target_of(config);
  const bool is_pack = ModelPack::is_pack(target);
  if (config.elastic.empty()) {
    const bool by_time = wish.slo.chooses_level();
    if (wish.level.empty() && !by_time) return {};
    if (is_pack || mode == Mode::kOnline) return {};  // see check_pack_levels(); the server's
    return invalid_argument(std::string(by_time ? "--slo" : "--level") +
                            " chooses a level of an elastic target, and there is none. Remedy: "
                            "--target DIR --elastic DIR/elastic.json");
  }
  const std::string what = "--elastic " + config.elastic;
  if (mode == Mode::kOnline) {
    return invalid_argument(what +
                            " is a table of --target, and there is none. Remedy: --target, "
                            "or no --elastic");
  }
  if (is_pack) {
    return invalid_argument(what + " for " + target +
                            ": a pack has the levels that it was made with. Remedy: leave it out; "
                            "outrider-edge pack --elastic makes a pack with levels");
  }
  if (config.prune_below > 0) {
    return invalid_argument(what +
                            " has no early exits, by which --prune works. Remedy: leave one "
                            "of them out");
  }
  return {};
}

Status check_energy(const GenerationConfig& config) {
  if (!config.device_file.empty() || !config.answer.wish.slo.energy_j) return {};
  return invalid_argument(
      "--slo energy_j needs to know what this device takes. Remedy: --power-file FILE (the "
      "project has some in bench/cost/devices)");
}

// Where GPUs are named, something has to compute on them.
Status check_devices(const GenerationConfig& config) {
  const std::string& device = config.loading.device;
  const std::string target = local_target_of(config);
  if (!config.draft_device.empty() && config.model.empty()) {
    return invalid_argument("--draft-device " + config.draft_device +
                            ": there is no draft model to compute there. Remedy: --model DIR, or "
                            "no --draft-device");
  }
  if (device != "cpu" && target.empty() && config.model.empty()) {
    return invalid_argument("--device " + device +
                            ": there is no model here to compute there. Remedy: --target or "
                            "--model DIR, or no --device");
  }
  const std::string& draft = config.draft_device.empty() ? device : config.draft_device;
  if (config.loading.gpus.empty() || device != "cpu" || draft != "cpu") return {};
  return invalid_argument(
      "--gpus: target and draft compute on the CPU. Remedy: --device cuda, or "
      "no --gpus");
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
  OUTRIDER_RETURN_IF_ERROR(check_devices(config));
  const bool streams = config.flash.memory_budget > 0 || config.flash.bandwidth > 0;
  if (!streams || (!target.empty() && ModelPack::is_pack(target))) return {};
  const char* const what = config.flash.memory_budget > 0 ? "--memory-budget" : "an emulated flash";
  if (target.empty()) {
    return invalid_argument(std::string(what) +
                            " is of this device's target, and there is none. Remedy: name a pack "
                            "with --target, or leave it out");
  }
  return invalid_argument(std::string(what) + " needs a pack, and " + target +
                          " is none. Remedy: outrider-edge pack --model " + target +
                          " --out FILE.pack, and --target FILE.pack");
}

// A level drafts in the place of a draft model.
Status check_draft_level(const GenerationConfig& config) {
  if (config.draft_level.empty()) return {};
  const std::string what = "--draft-level " + config.draft_level;
  const bool is_pack =
      ModelPack::is_pack(local_target_of(config)) && mode_of(config) == Mode::kOffline;
  if (config.elastic.empty() && !is_pack) {
    return invalid_argument(what +
                            " is a level of an elastic target, and there is none. Remedy: --target "
                            "DIR --elastic DIR/elastic.json, without --server");
  }
  if (!config.model.empty()) {
    return invalid_argument(what + " drafts instead of a draft model, and --model names " +
                            config.model + ". Remedy: leave one of them out");
  }
  if (uses_model(draft_source_of(config))) return {};
  return invalid_argument(what + " drafts, and --draft-source is " +
                          name_of(draft_source_of(config)) +
                          ". Remedy: leave one of them out, or --draft-source both");
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
  if (drafts_by_model(config) && config.model.empty() && config.draft_level.empty()) {
    return invalid_argument(std::string("--draft-source ") + name_of(source) +
                            " needs a draft model: name its directory with --model. Remedy without "
                            "one: --draft-source lookup");
  }
  OUTRIDER_RETURN_IF_ERROR(check_draft_level(config));
  if (!config.lookup_corpus.empty() && !drafts_by_lookup(config)) {
    return invalid_argument(std::string("--lookup-corpus is what look-up drafts from, and "
                                        "--draft-source is ") +
                            name_of(source) + ". Remedy: --draft-source lookup or both");
  }
  return {};
}

// The text of another server can be drafted for, not continued: its bits are not Outrider's.
Status check_stock_server(const GenerationConfig& config) {
  const std::string what = std::string("--server-api ") + name_of(config.server_api);
  const bool is_stock = config.server_api != ServerApi::kOutrider;
  if (!is_stock && !config.server_model.empty()) {
    return invalid_argument("--server-model " + config.server_model +
                            " is a name on a server that is not Outrider's. Remedy: --server-api "
                            "vllm or llama-cpp, or leave it out");
  }
  if (!is_stock) return {};
  if (mode_of(config) == Mode::kOffline) {
    return invalid_argument(what +
                            " is of a server, and no server decides here. Remedy: "
                            "--server, or leave it out");
  }
  if (!config.target.empty()) {
    return invalid_argument(what +
                            " computes other bits than --target, which could not go on with "
                            "its text. Remedy: --offline-target, if the text may change "
                            "where this device takes over, or no target here");
  }
  const float temperature = config.answer.text.choice.sampling.temperature;
  const auto& tree = config.answer.speculation.tree.kind;
  const std::string asked =
      temperature > 0 ? "--temp above 0, whose noise only Outrider's servers share"
      : tree != TreeKind::kChain
          ? std::string("--tree ") + name_of(tree) + ", and verifies one chain in a request"
      : config.draft_at == DraftSide::kServer ? "--draft-at server"
      : config.remote.pad_frames              ? "--pad-frames"
      : config.metered_limit > 0              ? "--metered-limit, as its bytes are not counted"
                                              : "";
  if (asked.empty()) return {};
  return invalid_argument(what + " does not know " + asked +
                          ". Remedy: leave that out, or outrider-server");
}

}  // namespace

Status check_pack_levels(const GenerationConfig& config, const ModelPack& pack) {
  const LevelWish& wish = config.answer.wish;
  const bool by_time = wish.slo.chooses_level();
  if (pack.elastic() != nullptr && config.prune_below > 0) {
    return invalid_argument("--prune: " + pack.path() +
                            " has levels and no early exits, by which --prune works. Remedy: no "
                            "--prune, or a pack made without --elastic");
  }
  if (pack.elastic() != nullptr || (wish.level.empty() && config.draft_level.empty() && !by_time)) {
    return {};
  }
  return invalid_argument(
      std::string(!wish.level.empty()           ? "--level " + wish.level
                  : !config.draft_level.empty() ? "--draft-level " + config.draft_level
                                                : "--slo") +
      " chooses a level, and " + pack.path() +
      " has none. Remedy: outrider-edge pack --model DIR --elastic --out " + pack.path());
}

Status validate(const GenerationConfig& config) {
  const TextOptions& text = config.answer.text;
  OUTRIDER_RETURN_IF_ERROR(validate(text.choice.sampling));
  OUTRIDER_RETURN_IF_ERROR(validate(text.choice.settings, 0));
  if (text.max_tokens >= 0 && text.choice.settings.min_tokens > text.max_tokens) {
    return invalid_argument("--min-tokens " + std::to_string(text.choice.settings.min_tokens) +
                            " is more than --max-tokens " + std::to_string(text.max_tokens) +
                            ". Remedy: at most as many");
  }
  const SpeculationOptions& speculated = config.answer.speculation;
  OUTRIDER_RETURN_IF_ERROR(check_energy(config));
  OUTRIDER_RETURN_IF_ERROR(check_draft_source(config));
  if (speculated.tree.kind != TreeKind::kChain && speculated.chosen() != Strategy::kSd) {
    return invalid_argument(std::string("--tree ") + name_of(speculated.tree.kind) +
                            " is a round of --strategy sd, not of " + name_of(speculated.chosen()) +
                            ". Remedy: --strategy sd, or " + "--tree chain");
  }
  OUTRIDER_RETURN_IF_ERROR(check_stock_server(config));
  OUTRIDER_RETURN_IF_ERROR(check_local_target(config));
  return parse_address(server_of(config)).status();
}

Result<std::string> tokenizer_directory(const GenerationConfig& config) {
  if (!config.tokenizer.empty()) return config.tokenizer;
  if (const std::string target = local_target_of(config); !target.empty()) return target;
  if (!config.model.empty()) return config.model;
  return invalid_argument(
      "which tokenizer? name its directory with --tokenizer, or a draft with --model");
}

}  // namespace outrider
