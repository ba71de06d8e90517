// SPDX-License-Identifier: Apache-2.0
#include "bench/elastic/actions.h"

#include <cstdio>
#include <memory>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

#include "bench/edges/bench_edge.h"
#include "bench/harness/prompt_file.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/loader/loader.h"
#include "common/serving/conversation/streamed_text.h"
#include "edge_client/generation/local_draft.h"
#include "edge_client/speculation/strategies.h"
#include "sim/memoized_model.h"
#include "sim/virtual_run.h"

namespace outrider {
namespace {

// Finds the action that a text ends with.
class ActionPattern final {
 public:
  static Result<ActionPattern> of(const ActionPrompts& asked) {
    try {
      return ActionPattern(asked.pattern);
    } catch (const std::regex_error& error) {
      return refused(asked.pattern, error);
    }
  }

  // Nothing if there is no action. INVALID_ARGUMENT: the pattern takes too long on this text.
  Result<std::optional<std::string>> in(const std::string& text) const {
    try {
      std::smatch found;
      if (!std::regex_search(text, found, regex_)) return std::optional<std::string>();
      return std::optional(found.str());
    } catch (const std::regex_error& error) {
      return refused(pattern_, error);
    }
  }

 private:
  explicit ActionPattern(const std::string& pattern) : pattern_(pattern), regex_(pattern) {}
  static Status refused(const std::string& pattern, const std::regex_error& error) {
    return invalid_argument("--pattern " + pattern + ": " + error.what());
  }

  std::string pattern_;
  std::regex regex_;
};

constexpr double kParses = 0.95;
// A deadline that most answers keep anyway says nothing.
constexpr double kLongerThanDue = 2.5;

class DeadlineAnswers final {
 public:
  static Result<std::unique_ptr<DeadlineAnswers>> load(const DeadlineCheck& check) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> target,
                              load_model({.directory = check.edge.target,
                                          .dtype = check.edge.dtype,
                                          .threads = check.edge.threads,
                                          .elastic = check.edge.elastic}));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> level, make_level(*target, check.level));
    OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(check.edge.target));
    OUTRIDER_ASSIGN_OR_RETURN(FlashPace pace, pace_of(check, *target));
    OUTRIDER_ASSIGN_OR_RETURN(PaceCurve step, PaceCurve::parse(check.step_ms));
    return std::unique_ptr<DeadlineAnswers>(
        new DeadlineAnswers(check, std::move(pace), std::move(step), std::move(target),
                            std::move(level), std::move(tokenizer)));
  }

  const Tokenizer& tokenizer() const { return tokenizer_; }
  double read_ms() const { return pace_.read_ms; }

  void next_prompt() {
    target_.forget();
    level_.forget();
  }

  // At temperature 0. drafts: else it is plain decoding, and nothing is due.
  Result<VirtualAnswer> answer(const BenchPrompt& prompt, bool drafts, StreamedText& text) {
    FlashDevice device(pace_);
    SchedulerOptions scheduling;
    scheduling.tokenizer_hash = tokenizer_.content_hash();
    SimEdgeSetup setup;
    setup.prompt = prompt.ids;
    SpeculatorOptions& speculation = setup.decoding.speculation;
    if (drafts) {  // as an edge drafts for a streamed pack
      speculation.first = {.tree = {.kind = TreeKind::kOutrider}};
      speculation.memory = learnt_;
      setup.due = from_ms(check_.time_ms);
    }
    speculation.token_bound = tokenizer_.vocab_size();
    speculation.end_position = static_cast<Position>(prompt.ids.size()) + check_.max_tokens;
    setup.decoding.tokenizer_hash = tokenizer_.content_hash();
    setup.decoding.choice.sampling.temperature = 0;
    setup.drafter = drafter_options(
        level_.info(), {.max_positions = target_.info().max_positions, .workers = kDraftWorkers});
    return answer_in_virtual_time({.target = target_,
                                   .scheduling = scheduling,
                                   .pass = {},
                                   .draft = level_,
                                   .step = step_,
                                   .link = {.same_process = true},
                                   .flash = &device},
                                  std::move(setup), &text);
  }

 private:
  DeadlineAnswers(const DeadlineCheck& check, FlashPace pace, PaceCurve step,
                  std::unique_ptr<Model> target, std::unique_ptr<Model> level, Tokenizer tokenizer)
      : check_(check),
        pace_(std::move(pace)),
        step_(std::move(step)),
        target_(std::move(target)),
        level_(std::move(level)),
        tokenizer_(std::move(tokenizer)),
        learnt_(std::make_shared<AnswerMemory>()) {}

  static Result<FlashPace> pace_of(const DeadlineCheck& check, const Model& target) {
    const ElasticTable& table = *elastic_table_of(target);
    OUTRIDER_ASSIGN_OR_RETURN(const ElasticLevel* level, find_level(table, check.level));
    OUTRIDER_ASSIGN_OR_RETURN(PaceCurve compute, PaceCurve::parse(check.pass_ms));
    const std::string& dtype = target.info().dtype;
    const auto lacks =
        static_cast<double>(table.levels.front().bytes.at(dtype) - level->bytes.at(dtype));
    return FlashPace{.layers = target.info().num_layers,
                     .read_ms = 1e3 * lacks / check.edge.bandwidth,
                     .compute = std::move(compute)};
  }

  const DeadlineCheck check_;
  const FlashPace pace_;
  const PaceCurve step_;
  MemoizedModel target_, level_;  // the level's weights are the target's
  const Tokenizer tokenizer_;
  const std::shared_ptr<AnswerMemory> learnt_;  // of the device, in earlier answers
};

struct Tally {
  std::vector<double> parses, is_final, took_ms, plain_ms;
  int other_texts = 0;
};

double took_ms(const VirtualAnswer& answer) {
  return answer.stats.ttft_ms.value_or(0) + answer.stats.decode_ms.value_or(0);
}

Status ask(DeadlineAnswers& answers, const BenchPrompt& prompt, const ActionPattern& pattern,
           Tally& tally) {
  answers.next_prompt();
  StreamedText plain_text(answers.tokenizer(), {}), text(answers.tokenizer(), {});
  OUTRIDER_ASSIGN_OR_RETURN(const VirtualAnswer plain, answers.answer(prompt, false, plain_text));
  OUTRIDER_ASSIGN_OR_RETURN(const VirtualAnswer drafted, answers.answer(prompt, true, text));
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<std::string> final, pattern.in(text.text()));
  std::optional<std::string> given = final;
  if (drafted.given) {
    OUTRIDER_ASSIGN_OR_RETURN(given, pattern.in(drafted.given->text));
  }
  tally.parses.push_back(given ? 1 : 0);
  tally.is_final.push_back(given && given == final ? 1 : 0);
  tally.took_ms.push_back(took_ms(drafted));
  tally.plain_ms.push_back(took_ms(plain));
  tally.other_texts += drafted.ids == plain.ids ? 0 : 1;
  return {};
}

}  // namespace

Result<CheckOutcome> check_actions(LevelAnswers& edge, const std::vector<std::string>& levels,
                                   const ActionPrompts& asked, Position max_tokens) {
  OUTRIDER_ASSIGN_OR_RETURN(const ActionPattern pattern, ActionPattern::of(asked));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PromptLine> lines,
                            read_prompt_file(asked.file, asked.count));
  struct Answered {
    std::string text;
    std::optional<std::string> action;
  };
  std::vector<Answered> full;
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures["answers"] = lines.size();
  for (const std::string& level : levels) {
    int right = 0, as_full = 0, same_text = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      OUTRIDER_ASSIGN_OR_RETURN(const std::optional<std::string> wanted,
                                pattern.in(lines[i].answer));
      if (!wanted) {
        return invalid_argument(
            lines[i].name +
            ": its \"answer\" does not end as --pattern says. Remedy: --prompts "
            "of outrider-train data-robot, or another --pattern");
      }
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> prompt, edge.prompt_of(lines[i].prompt));
      OUTRIDER_ASSIGN_OR_RETURN(const TimedAnswer answer, edge.answer(prompt, level, max_tokens));
      const std::string& text = answer.record.text;
      OUTRIDER_ASSIGN_OR_RETURN(std::optional<std::string> action, pattern.in(text));
      if (full.size() == i) full.push_back({text, action});
      right += action == wanted ? 1 : 0;
      as_full += action == full[i].action ? 1 : 0;
      same_text += text == full[i].text ? 1 : 0;
      std::fprintf(stderr, "\rlevel %s: %zu of %zu ", level.c_str(), i + 1, lines.size());
    }
    outcome.figures["levels"][level] = {
        {"right", right}, {"action_of_full", as_full}, {"text_of_full", same_text}};
  }
  std::fprintf(stderr, "\n");
  return outcome;
}

Result<CheckOutcome> check_deadline(const DeadlineCheck& check, const ActionPrompts& asked) {
  if (check.edge.bandwidth <= 0 || check.edge.elastic.empty()) {
    return invalid_argument(
        "deadline streams a target from an emulated flash. Remedy: --flash-bandwidth and "
        "--elastic");
  }
  OUTRIDER_ASSIGN_OR_RETURN(const ActionPattern pattern, ActionPattern::of(asked));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<DeadlineAnswers> answers,
                            DeadlineAnswers::load(check));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts,
                            read_prompts(asked.file, answers->tokenizer(), asked.count));
  Tally tally;
  for (const BenchPrompt& prompt : prompts) {
    OUTRIDER_RETURN_IF_ERROR(ask(*answers, prompt, pattern, tally).with_context(prompt.name));
    std::fprintf(stderr, "\r%zu of %zu prompts ", tally.parses.size(), prompts.size());
  }
  std::fprintf(stderr, "\n");
  const Estimate took = *median(tally.took_ms);
  CheckOutcome outcome;
  outcome.passed = tally.other_texts == 0;
  outcome.figures = {{"emulated", "flash and computing, in virtual time"},
                     {"answers", prompts.size()},
                     {"other_texts", tally.other_texts},
                     {"read_ms", answers->read_ms()},
                     {"answer_ms", to_json(took)},
                     {"plain_ms", to_json(*median(tally.plain_ms))},
                     {"given_is_final", to_json(spread_of(tally.is_final)->mean)}};
  if (took.value < kLongerThanDue * check.time_ms) {
    outcome.mark_inconclusive("a median answer takes less than 2.5 times the deadline");
  }
  const Bar bars[] = {
      {"texts given by the deadline that can be acted on", spread_of(tally.parses)->mean, kParses}};
  outcome.hold(bars);
  return outcome;
}

}  // namespace outrider
