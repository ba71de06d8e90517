// elastic: what the levels of a target cost and bring (docs/elastic.md), each part with its bar.
//
//   switch     the first answer of a level beside its later ones
//   law        predicted times of answers beside those that they took
//   memory     of one process that answers by each level, beside the full model alone
//   flash      a level that drafts for a streamed pack beside plain streaming
//   actions    how often each level ends its answer with the right action
//   deadline   what is there by a deadline of a streamed target, in virtual time
//
// `answers` is a process of `memory`: it answers once by each of --levels and says what memory it
// has then. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/elastic/actions.h"
#include "bench/elastic/level_answers.h"
#include "bench/harness/prompt_file.h"
#include "bench/lab/flash_bandwidth.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "emulation/process/process.h"

namespace outrider {
namespace {

constexpr double kSwitchBar = 1.01;
constexpr double kLawBar = 0.95, kLawError = 0.10;
constexpr double kShareBar = 0.08;
constexpr double kMemoryBar = 1.2, kBesideMb = 150;
constexpr double kFlashBar = 1.3;
constexpr Duration kTimeout = std::chrono::minutes(5);

struct ElasticOptions {
  std::string part = "switch";
  LevelAnswersOptions edge = {.target = "models/demo-target"};
  std::string bandwidth;
  std::vector<std::string> levels;  // empty: all
  int switches = 1000, draws = 40, rounds = 9;
  std::int64_t prompt_tokens = 64, tokens = 32;
  std::string plain;    // a pack without levels
  ActionPrompts asked;  // flash: their answers are not looked at
  DeadlineCheck deadline;
};

Result<std::unique_ptr<LevelAnswers>> load_levels(const ElasticOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<LevelAnswers> edge, LevelAnswers::load(options.edge));
  if (edge->levels().size() > 1) return edge;
  return invalid_argument("--target " + options.edge.target +
                          " has no smaller levels. Remedy: --elastic, or a pack with levels");
}

// The names that were asked for, or all.
std::vector<std::string> level_names(const LevelAnswers& edge, const ElasticOptions& options) {
  if (!options.levels.empty()) return options.levels;
  std::vector<std::string> names;
  for (const ElasticLevel& level : edge.levels()) names.push_back(level.name);
  if (names.empty()) names = {""};  // the target alone
  return names;
}

// Prompts of which none begins as an earlier one, so that nothing of them is cached.
Result<CheckOutcome> run_switch(const ElasticOptions& options) {
  const SystemClock clock;
  const TimePoint begin = clock.now();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LevelAnswers> edge, load_levels(options));
  const double load_ms = to_ms(clock.now() - begin);
  const std::vector<std::string> names = level_names(*edge, options);
  if (names.size() < 2) {
    return invalid_argument("--levels " + names[0] +
                            ": a switch needs two. Remedy: name two, or leave --levels out");
  }
  const auto ttft = [&](std::size_t level) -> Result<double> {
    OUTRIDER_ASSIGN_OR_RETURN(
        const TimedAnswer answer,
        edge->answer(edge->random_prompt(options.prompt_tokens), names[level], 1));
    return answer.took_ms;
  };
  for (std::size_t level = 0; level < names.size(); ++level) {  // warm
    OUTRIDER_RETURN_IF_ERROR(ttft(level).status());
  }
  std::mt19937 random(32);
  std::vector<double> first, later;
  std::size_t level = names.size() - 1;
  for (int i = 0; i < options.switches; ++i) {
    level = (level + 1 + random() % (names.size() - 1)) % names.size();
    OUTRIDER_ASSIGN_OR_RETURN(const double switched, ttft(level));
    OUTRIDER_ASSIGN_OR_RETURN(const double stayed, ttft(level));
    first.push_back(switched);
    later.push_back(stayed);
  }
  std::vector<double> ratios;
  for (std::size_t i = 0; i < first.size(); ++i) ratios.push_back(first[i] / later[i]);
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures["switches"] = options.switches;
  outcome.figures["first_ms"] = to_json(*median(first));
  outcome.figures["later_ms"] = to_json(*median(later));
  outcome.figures["load_ms"] = load_ms;  // what loading the level anew would take
  const Bar bars[] = {{"an answer's first token at another level, over the same level's next",
                       *median(ratios), kSwitchBar, Bar::Side::kAtMost}};
  outcome.hold(bars);
  return outcome;
}

double tpot_ms(const AnswerRecord& record) {
  return (*record.level->time_ms - *record.level->ttft_ms) /
         static_cast<double>(record.ids.size() - 1);
}

bool has_times(const AnswerRecord& record) {
  return record.level && record.level->ttft_ms && record.level->time_ms && record.ids.size() > 1;
}

Status most_end_at_once() {
  return failed_precondition("most answers end at their first token, so that none takes time");
}

// Answers whose level, prompt and length are drawn: by how much each took another time than was
// predicted of so many tokens.
Result<std::vector<double>> errors_of_law(LevelAnswers& edge, const ElasticOptions& options) {
  const std::vector<std::string> names = level_names(edge, options);
  std::mt19937 random(7);
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random()) % (most - least + 1);
  };
  std::vector<double> errors;
  for (int i = 0; std::ssize(errors) < options.draws; ++i) {
    if (i > 2 * options.draws) return most_end_at_once();
    const std::string& level = names[random() % names.size()];
    OUTRIDER_ASSIGN_OR_RETURN(
        const TimedAnswer answer,
        edge.answer(edge.random_prompt(draw(options.prompt_tokens / 4, options.prompt_tokens * 2)),
                    level, draw(options.tokens / 2, options.tokens * 3 / 2)));
    const AnswerRecord& record = answer.record;
    if (!has_times(record)) continue;
    const double predicted =
        record.level->predicted_ttft_ms +
        static_cast<double>(record.ids.size() - 1) * record.level->predicted_tpot_ms;
    errors.push_back(std::abs(predicted / *record.level->time_ms - 1));
    std::fprintf(stderr, "elastic: level %s, %zu tokens: %.1f ms predicted, %.1f ms taken\n",
                 level.c_str(), record.ids.size(), predicted, *record.level->time_ms);
  }
  return errors;
}

// The time of a token of each level as a share of the full model's. The weights are in memory, so a
// pass waits for their bytes.
Result<std::vector<Bar>> shares_of(LevelAnswers& edge, const ElasticOptions& options,
                                   CheckOutcome& outcome) {
  const std::string dtype = options.edge.dtype;
  const std::map<std::string, std::int64_t>& full = edge.levels().front().bytes;
  std::vector<std::vector<double>> tpot(edge.levels().size());
  for (int round = 0, ended_at_once = 0; round < options.rounds; ++round) {
    for (std::size_t i = 0; i < tpot.size();) {
      OUTRIDER_ASSIGN_OR_RETURN(const TimedAnswer answer,
                                edge.answer(edge.random_prompt(options.prompt_tokens),
                                            edge.levels()[i].name, options.tokens));
      if (has_times(answer.record)) {
        tpot[i++].push_back(tpot_ms(answer.record));
      } else if (++ended_at_once > options.rounds * std::ssize(tpot)) {
        return most_end_at_once();
      }
    }
  }
  std::vector<Bar> bars;
  for (std::size_t i = 1; i < tpot.size(); ++i) {
    const ElasticLevel& level = edge.levels()[i];
    const double bytes =
        static_cast<double>(level.bytes.at(dtype)) / static_cast<double>(full.at(dtype));
    const Estimate share = *ratio_of_medians(tpot[0], tpot[i]);
    outcome.figures["tpot_share"][level.name] = {{"of_time", to_json(share)}, {"of_bytes", bytes}};
    bars.push_back({"level " + level.name + ": share of a token's time", share, bytes + kShareBar,
                    Bar::Side::kAtMost});
  }
  return bars;
}

Result<CheckOutcome> run_law(const ElasticOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LevelAnswers> edge, load_levels(options));
  const bool streams = edge->flash() != nullptr && edge->flash()->plan().streamed_bytes > 0;
  if (!streams && !edge->levels().front().bytes.contains(options.edge.dtype)) {
    return invalid_argument("law: --dtype " + options.edge.dtype +
                            ": the table has the bytes of f32, bf16, int8 and int4. Remedy: name "
                            "the one in which the target computes");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<double> errors, errors_of_law(*edge, options));
  std::vector<double> kept;
  for (const double error : errors) kept.push_back(error <= kLawError ? 1 : 0);
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures["draws"] = errors.size();
  outcome.figures["error_p50"] = quantile(errors, 0.5);
  outcome.figures["error_p95"] = quantile(errors, 0.95);
  outcome.figures["error_max"] = quantile(errors, 1);
  std::vector<Bar> bars = {
      {"share of answers within 10 % of their prediction", spread_of(kept)->mean, kLawBar}};
  if (!streams) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Bar> shares, shares_of(*edge, options, outcome));
    bars.insert(bars.end(), shares.begin(), shares.end());
  }
  outcome.hold(bars);
  return outcome;
}

// In MB; 0 where the system does not say.
double memory_mb(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string name; status >> name; status.ignore(1 << 10, '\n')) {
    double kib = 0;
    if (name == key + ":" && status >> kib) return kib * 1024 / 1e6;
  }
  return 0;
}

Result<CheckOutcome> run_answers(const ElasticOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LevelAnswers> edge,
                            LevelAnswers::load(options.edge));
  for (const std::string& level : level_names(*edge, options)) {
    OUTRIDER_RETURN_IF_ERROR(
        edge->answer(edge->random_prompt(options.prompt_tokens), level, options.tokens).status());
  }
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.json_wanted = true;
  outcome.figures["rss_mb"] = memory_mb("VmRSS");
  outcome.figures["peak_mb"] = memory_mb("VmHWM");
  if (edge->flash() != nullptr) {
    const ModelConfig& config = edge->flash()->pack().config();
    OUTRIDER_ASSIGN_OR_RETURN(const std::int64_t kv,
                              cpu_kv_bytes(config, "f32", config.max_positions));
    outcome.figures["weights_mb"] = static_cast<double>(edge->flash()->plan().pinned_bytes) / 1e6;
    outcome.figures["kv_mb"] = static_cast<double>(kv) / 1e6;
  }
  return outcome;
}

// The memory of a separate process after these answers, in MB, by name.
Result<Json> memory_of(const ElasticOptions& options, const std::vector<std::string>& levels,
                       std::vector<std::string> more) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string program, sibling_program("outrider-bench"));
  std::vector<std::string> arguments = {"elastic",
                                        "answers",
                                        "--target",
                                        options.edge.target,
                                        "--dtype",
                                        options.edge.dtype,
                                        "--threads",
                                        std::to_string(options.edge.threads),
                                        "-c",
                                        std::to_string(options.edge.context),
                                        "--prompt-tokens",
                                        std::to_string(options.prompt_tokens),
                                        "--tokens",
                                        std::to_string(options.tokens)};
  if (options.edge.memory_budget > 0) {
    more.insert(more.end(), {"--memory-budget", std::to_string(options.edge.memory_budget)});
  }
  if (!options.bandwidth.empty()) {
    more.insert(more.end(), {"--flash-bandwidth", options.bandwidth});
  }
  for (const std::string& level : levels) more.insert(more.end(), {"--levels", level});
  arguments.insert(arguments.end(), more.begin(), more.end());
  OUTRIDER_ASSIGN_OR_RETURN(
      const FinishedProcess done,
      run_process({.program = program, .arguments = arguments, .core = {}}, kTimeout));
  const Json json = Json::parse(last_line(done.out), nullptr, false);
  if (done.exit_code == 0 && json.is_object()) return json;
  return unavailable("outrider-bench elastic answers: " + last_line(done.err));
}

// The memory of a level alone beside its weights, keys and values.
Result<Bar> memory_beside(const ElasticOptions& options, CheckOutcome& outcome) {
  std::vector<double> beside;
  for (int round = 0; round < options.rounds; ++round) {
    OUTRIDER_ASSIGN_OR_RETURN(const Json alone, memory_of(options, {options.edge.level},
                                                          {"--level", options.edge.level}));
    if (!alone.contains("weights_mb")) {
      return invalid_argument("--level " + options.edge.level +
                              " alone is read of a pack. Remedy: --target FILE.pack");
    }
    beside.push_back(alone["peak_mb"].get<double>() - alone["weights_mb"].get<double>() -
                     alone["kv_mb"].get<double>());
    outcome.figures["alone"] = alone;
  }
  return Bar{"MB of level " + options.edge.level + " alone beside its weights and KV",
             *median(beside), kBesideMb, Bar::Side::kAtMost};
}

// The memory of all levels as a ratio to that of the full model alone.
Result<Bar> memory_ratio(const ElasticOptions& options, CheckOutcome& outcome) {
  std::vector<std::string> table;
  if (!options.edge.elastic.empty()) table = {"--elastic", options.edge.elastic};
  ElasticOptions without = options;
  if (!options.plain.empty()) without.edge.target = options.plain;
  std::vector<double> full, all;
  for (int round = 0; round < options.rounds; ++round) {
    OUTRIDER_ASSIGN_OR_RETURN(const Json one, memory_of(without, {}, {}));
    OUTRIDER_ASSIGN_OR_RETURN(const Json every, memory_of(options, options.levels, table));
    full.push_back(one["rss_mb"].get<double>());
    all.push_back(every["rss_mb"].get<double>());
  }
  outcome.figures["full_rss_mb"] = to_json(*median(full));
  outcome.figures["all_levels_rss_mb"] = to_json(*median(all));
  return Bar{"memory of all levels over the full model's", *ratio_of_medians(full, all), kMemoryBar,
             Bar::Side::kAtMost};
}

Result<CheckOutcome> run_memory(const ElasticOptions& options) {
  CheckOutcome outcome;
  outcome.passed = true;
  OUTRIDER_ASSIGN_OR_RETURN(const Bar bar, options.edge.level.empty()
                                               ? memory_ratio(options, outcome)
                                               : memory_beside(options, outcome));
  outcome.hold(std::span(&bar, 1));
  return outcome;
}

// One way to answer from flash.
struct Contender {
  std::string name;
  std::unique_ptr<LevelAnswers> edge;
  std::vector<double> ms;  // a token, of each prompt
  std::uint64_t drafted = 0, accepted = 0, passes = 0, tokens = 0;
};

Result<std::vector<Contender>> contenders_of(const ElasticOptions& options) {
  std::vector<Contender> contenders;
  const auto add = [&](const std::string& name, const LevelAnswersOptions& edge) -> Status {
    Result<std::unique_ptr<LevelAnswers>> loaded = LevelAnswers::load(edge);
    if (!loaded.ok()) return loaded.status().with_context(name);
    if ((*loaded)->flash() == nullptr) {
      return invalid_argument(name + ": " + edge.target +
                              " is no pack. Remedy: one that outrider-edge pack made");
    }
    contenders.push_back({name, *std::move(loaded), {}});
    return {};
  };
  LevelAnswersOptions plain = options.edge;
  plain.target = options.plain;
  plain.draft.clear();
  OUTRIDER_RETURN_IF_ERROR(add("plain", plain));
  for (const std::string& level : options.levels) {
    LevelAnswersOptions drafting = options.edge;
    drafting.draft.clear();
    drafting.draft_level = level;
    OUTRIDER_RETURN_IF_ERROR(add("level " + level + " drafts", drafting));
  }
  if (options.edge.draft.empty()) return contenders;
  plain.draft = options.edge.draft;
  OUTRIDER_RETURN_IF_ERROR(add("draft model", plain));
  return contenders;
}

Result<CheckOutcome> run_flash(const ElasticOptions& options) {
  if (options.plain.empty() || options.levels.empty()) {
    return invalid_argument(
        "flash compares packs: name the one without levels with --plain, and "
        "the levels that draft with --levels");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PromptLine> prompts,
                            read_prompt_file(options.asked.file, options.asked.count));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<Contender> contenders, contenders_of(options));
  std::size_t turn = 0;  // who begins
  for (const PromptLine& line : prompts) {
    ++turn;
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      Contender& each = contenders[(turn + i) % contenders.size()];
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt,
                                each.edge->prompt_of(line.prompt));
      OUTRIDER_ASSIGN_OR_RETURN(const TimedAnswer answer,
                                each.edge->answer(prompt, "", options.tokens));
      const AnswerRecord& record = answer.record;
      each.ms.push_back(answer.took_ms / static_cast<double>(record.ids.size()));
      each.drafted += record.stats.num_draft_tokens;
      each.accepted += record.stats.num_accepted_tokens;
      each.passes += record.stats.passes;
      each.tokens += record.ids.size();
    }
  }
  CheckOutcome outcome;
  outcome.passed = true;
  if (contenders.front().edge->flash()->plan().streamed_bytes == 0) {
    outcome.mark_inconclusive("nothing is streamed: the budget holds the whole pack");
  }
  std::vector<Bar> bars;
  for (const Contender& each : contenders) {
    const MemoryPlan& plan = each.edge->flash()->plan();
    outcome.figures[each.name] = {
        {"ms_per_token", to_json(*median(each.ms))},
        {"tokens_per_pass", static_cast<double>(each.tokens) / static_cast<double>(each.passes)},
        {"drafted", each.drafted},
        {"accepted", each.accepted},
        {"pinned_mb", static_cast<double>(plan.pinned_bytes) / 1e6},
        {"streamed_mb", static_cast<double>(plan.streamed_bytes) / 1e6}};
    if (&each == &contenders.front()) continue;
    const Estimate gain = *ratio_of_medians(each.ms, contenders.front().ms);
    outcome.figures[each.name]["gain"] = to_json(gain);
    if (each.name != "draft model" && (bars.empty() || gain.value > bars[0].value.value)) {
      bars = {{each.name + ": times as fast as plain streaming", gain, kFlashBar}};
    }
  }
  outcome.hold(bars);
  return outcome;
}

// The first level is the one that others are compared with.
Result<CheckOutcome> run_actions(const ElasticOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LevelAnswers> edge, load_levels(options));
  return check_actions(*edge, level_names(*edge, options), options.asked,
                       static_cast<Position>(options.tokens));
}

Result<CheckOutcome> run_deadline(const ElasticOptions& options) {
  DeadlineCheck check = options.deadline;
  check.edge = options.edge;
  if (!options.levels.empty()) check.level = options.levels.front();
  return check_deadline(check, options.asked);
}

Result<CheckOutcome> run_elastic(ElasticOptions options) {
  if (!options.bandwidth.empty()) {
    OUTRIDER_ASSIGN_OR_RETURN(options.edge.bandwidth, parse_bandwidth(options.bandwidth));
  }
  if (options.part == "switch") return run_switch(options);
  if (options.part == "law") return run_law(options);
  if (options.part == "memory") return run_memory(options);
  if (options.part == "flash") return run_flash(options);
  if (options.part == "actions") return run_actions(options);
  if (options.part == "deadline") return run_deadline(options);
  return run_answers(options);
}

void add_target_flags(CLI::App& command, LevelAnswersOptions& edge) {
  command.add_option("--target", edge.target, "A directory, a GGUF file or a pack");
  command.add_option("--elastic", edge.elastic, "Its level table, unless it is a pack");
  command.add_option("--level", edge.level, "memory: this level alone, of a pack");
  command.add_option("--draft", edge.draft, "flash: a draft model in the same budget");
  command.add_option("--dtype", edge.dtype, "How it computes")
      ->check(CLI::IsMember({"auto", "f32", "bf16", "int8", "int4"}));
  command.add_option("--memory-budget", edge.memory_budget, "As in outrider-edge run")
      ->transform(CLI::AsSizeValue(true));
  command.add_option("--threads", edge.threads, "Compute threads")->check(CLI::Range(1, 256));
  command.add_option("-c,--ctx-size", edge.context, "Positions of the cache")
      ->check(CLI::Range(64, 1 << 20));
}

}  // namespace

void add_elastic_check(CheckList& checks) {
  auto options = std::make_shared<ElasticOptions>();
  CLI::App* command = checks.add("elastic", "The levels of a target: what they cost and bring",
                                 [options] { return run_elastic(*options); });
  command->add_option("part", options->part, "switch, law, memory, flash, actions or deadline")
      ->check(CLI::IsMember({"switch", "law", "memory", "flash", "actions", "deadline", "answers"}))
      ->required();
  add_target_flags(*command, options->edge);
  command->add_option("--flash-bandwidth", options->bandwidth, "Emulate a slower flash: 400MB/s");
  command->add_option("--levels", options->levels, "These alone; flash, deadline: those that draft")
      ->delimiter(',');
  command->add_option("--plain", options->plain, "memory, flash: the pack without levels");
  command->add_option("--prompts", options->asked.file,
                      "flash, actions, deadline: JSONL of prompts");
  command
      ->add_option("--count", options->asked.count,
                   "flash, actions, deadline: so many of them; 0: all")
      ->check(CLI::Range(0, 10000));
  command->add_option("--pass-ms", options->deadline.pass_ms,
                      "deadline: computing of a pass, by rows: ROWS:MS,ROWS:MS");
  command->add_option("--step-ms", options->deadline.step_ms, "deadline: the same of a draft step");
  command->add_option("--time-ms", options->deadline.time_ms, "deadline: after the request")
      ->check(CLI::Range(1, 3600000));
  command->add_option(
      "--pattern", options->asked.pattern,
      "actions, deadline: a regular expression, how a text ends that can be acted on");
  command->add_option("--switches", options->switches, "switch: so many")
      ->check(CLI::Range(2, 1000000));
  command->add_option("--draws", options->draws, "law: answers that are drawn")
      ->check(CLI::Range(2, 100000));
  command
      ->add_option("--rounds", options->rounds,
                   "law: answers of each level whose tokens are timed; memory: processes")
      ->check(CLI::Range(2, 10000));
  command->add_option("--prompt-tokens", options->prompt_tokens, "Of a random prompt")
      ->check(CLI::Range(4, 1 << 16));
  command->add_option("--tokens", options->tokens, "Of an answer, at most")
      ->check(CLI::Range(4, 1 << 16));
}

}  // namespace outrider
