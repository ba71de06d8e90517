// The controller in changing conditions: while an answer is decoded the draft forgets what it
// knows, the link grows long and short again, or the device is throttled. Against it stand settings
// that never change; it may cost at most kMaxRatio of the best of them, chosen with hindsight.
//
// The server is a process of its own, the edge is this one; passes, draft steps and the link are
// emulated, tokens are the models' own. Settings take turns within each run.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <thread>

#include "bench/checks/checks.h"
#include "bench/device/forgetful_model.h"
#include "bench/edges/bench_edge.h"
#include "bench/harness/statistics.h"
#include "bench/link/delay_link.h"
#include "bench/process/server_process.h"
#include "bench/prompts/prompts.h"
#include "common/base/json_record.h"
#include "common/model/emulated/paced_model.h"
#include "common/model/format/model_files.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {
namespace {

constexpr double kMaxRatio = 1.03;

struct ControllerOptions {
  std::string target = "models/demo-target";
  std::string draft = "models/demo-draft";
  std::string prompts;
  std::vector<std::string> scenarios = {"acceptance", "link", "device"};
  std::size_t runs = 20;
  int max_tokens = 800;
  std::string pass_pace = "1:60,5:64,33:96";
  std::string step_pace = "6";
};

// From `at_s` seconds after the answer's begin.
struct Change {
  double at_s = 0;
  double one_way_ms = 5;
  double slowdown = 1;  // of the draft
};

struct Scenario {
  std::string name;
  std::vector<Change> changes;  // the first at 0
  double knows = 1;             // the share of the answer that the draft has learnt

  double last_change_s() const { return changes.back().at_s; }
  double known_tokens(int max_tokens) const { return knows * max_tokens; }
};

const std::vector<Scenario>& all_scenarios() {
  static const std::vector<Scenario> scenarios = {
      {"acceptance", {{}}, 0.5},
      {"link", {{}, {.at_s = 3, .one_way_ms = 150}, {.at_s = 8}}, 1},
      {"device", {{}, {.at_s = 3, .slowdown = 4}, {.at_s = 13}}, 1},
  };
  return scenarios;
}

struct Setting {
  std::string name;
  Strategy strategy = Strategy::kMirror;
  int draft_length = 0;
  Optimize optimize = Optimize::kLatency;
};

// The first is the controller; the others go their way whatever comes. A mirror that lets the
// verifier go on alone is not among them: there is none without a controller.
std::vector<Setting> all_settings() {
  constexpr int kMaxDrafted = 8;
  std::vector<Setting> settings = {{"controller", Strategy::kMirror, kMaxDrafted},
                                   {"ar", Strategy::kAr, 0}};
  for (const int length : {2, 4, kMaxDrafted}) {
    const std::string suffix = " " + std::to_string(length);
    settings.push_back({"sd" + suffix, Strategy::kSd, length});
    settings.push_back({"fsd" + suffix, Strategy::kFsd, length});
    settings.push_back(
        {"mirror, whole rounds" + suffix, Strategy::kMirror, length, Optimize::kCost});
  }
  return settings;
}

// Carries a scenario's changes out while it lives.
class ScenarioPlayer final {
 public:
  ScenarioPlayer(const Scenario& scenario, DelayLink& link, PacedModel& draft, Clock& clock)
      : scenario_(scenario), link_(link), draft_(draft), begin_(clock.now()) {
    apply(scenario.changes.front());
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }

  TimePoint begin() const { return begin_; }

 private:
  void apply(const Change& change) {
    link_.set_one_way(from_ms(change.one_way_ms));
    draft_.set_slowdown(change.slowdown);
  }
  void run(const std::stop_token& stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    std::unique_lock lock(mutex);
    for (const Change& change : scenario_.changes) {
      const TimePoint due = begin_ + from_ms(change.at_s * 1e3);
      wake.wait_until(lock, stop, due, [] { return false; });
      if (stop.stop_requested()) return;
      apply(change);
    }
  }

  const Scenario& scenario_;
  DelayLink& link_;
  PacedModel& draft_;
  const TimePoint begin_;
  std::jthread thread_;
};

// What all runs share.
struct ControllerRun {
  const ControllerOptions& options;
  Tokenizer tokenizer;
  std::vector<BenchPrompt> prompts;
  SystemClock clock = {};
  std::unique_ptr<ServerProcess> server = {};
  std::unique_ptr<DelayLink> link = {};
  std::unique_ptr<BenchEdge> edge = {};
  ForgetfulModel* knowledge = nullptr;  // of the edge's draft
  PacedModel* draft = nullptr;          // the edge's
};

Status start(ControllerRun& run_state) {
  const ControllerOptions& options = run_state.options;
  OUTRIDER_ASSIGN_OR_RETURN(const PaceCurve step, PaceCurve::parse(options.step_pace));
  OUTRIDER_ASSIGN_OR_RETURN(
      run_state.server,
      ServerProcess::start({"--model", options.target, "--threads", "1", "--log-level", "warning",
                            "--ignore-eos", "--pace-pass-ms", options.pass_pace}));
  OUTRIDER_ASSIGN_OR_RETURN(run_state.link,
                            DelayLink::start({.upstream = run_state.server->address()}));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelConfig config, load_config(options.target));
  OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> draft,
                            load_bench_model(options.draft, "auto", 1));
  auto forgetful = std::make_unique<ForgetfulModel>(std::move(draft));
  run_state.knowledge = forgetful.get();
  auto paced = std::make_unique<PacedModel>(std::move(forgetful), step, run_state.clock);
  run_state.draft = paced.get();
  OUTRIDER_ASSIGN_OR_RETURN(
      run_state.edge, BenchEdge::create(std::move(paced), run_state.tokenizer, config.max_positions,
                                        run_state.clock));
  return {};
}

struct SettingResult {
  std::vector<AnswerFigures> answers;  // [run]
  std::size_t mismatches = 0;
  Json too_short = Json::array();     // answers that ended before the last change
  Json plan_changes = Json::array();  // of the last run
};

// Whether the answer saw all of its scenario; if not, says so. A part of the scenario that comes
// after the text would be judged without having been.
void check_length(const Scenario& scenario, const Setting& setting, std::size_t run, int max_tokens,
                  std::size_t tokens, double seconds, SettingResult& result) {
  const bool outlasts = seconds > scenario.last_change_s();
  const bool beyond_known =
      scenario.knows >= 1 || static_cast<double>(tokens) > scenario.known_tokens(max_tokens);
  if (outlasts && beyond_known) return;
  std::fprintf(stderr,
               "\n%s: %s, run %zu: the answer has %zu tokens and took %.1f s, but changes come up "
               "to %.1f s and token %.0f. Remedy: more --max-tokens, or a slower --pace-pass-ms\n",
               scenario.name.c_str(), setting.name.c_str(), run + 1, tokens, seconds,
               scenario.last_change_s(),
               scenario.knows < 1 ? scenario.known_tokens(max_tokens) : 0);
  result.too_short.push_back(
      {{"setting", setting.name}, {"run", run + 1}, {"tokens", tokens}, {"seconds", seconds}});
}

Status run_once(ControllerRun& run_state, const Scenario& scenario, const Setting& setting,
                std::size_t run, std::vector<TokenId>& wanted, SettingResult& result) {
  const BenchPrompt& prompt = run_state.prompts[run % run_state.prompts.size()];
  const BenchRequest request{.name = prompt.name,
                             .prompt = prompt.ids,
                             .sampling = {},
                             .seed = run,
                             .max_tokens = run_state.options.max_tokens,
                             .draft_length = setting.draft_length,
                             .strategy = setting.strategy,
                             .optimize = setting.optimize};
  run_state.knowledge->forget_from(
      static_cast<Position>(prompt.ids.size()) +
      static_cast<Position>(scenario.known_tokens(run_state.options.max_tokens)));
  RemoteVerifier verifier({.server = run_state.link->address()});
  const ScenarioPlayer player(scenario, *run_state.link, *run_state.draft, run_state.clock);
  OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer answer, run_state.edge->decode(verifier, request));
  if (wanted.empty()) wanted = answer.ids;
  if (answer.ids != wanted) ++result.mismatches;
  AnswerFigures figures;
  figures.decode_ms = answer.stats.decode_ms().value_or(0);
  figures.tokens =
      static_cast<double>(answer.ids.size()) - static_cast<double>(answer.stats.first_tokens);
  figures.all_tokens = static_cast<double>(answer.ids.size());
  result.answers.push_back(figures);
  const TimePoint end = answer.stats.last_token.value_or(player.begin());
  check_length(scenario, setting, run, run_state.options.max_tokens, answer.ids.size(),
               to_seconds(end - player.begin()), result);
  result.plan_changes = write_json(answer.stats.plan_changes);
  return {};
}

// The figures of one scenario, and its bar.
Json report(const std::string& scenario, const std::vector<Setting>& settings,
            const std::vector<SettingResult>& results, CheckOutcome& outcome,
            std::vector<Bar>& bars) {
  Json times = Json::object();
  std::size_t best = 0;
  std::size_t mismatches = 0;
  Json too_short = Json::array();
  for (std::size_t i = 0; i < settings.size(); ++i) {
    mismatches += results[i].mismatches;
    for (const Json& answer : results[i].too_short) too_short.push_back(answer);
    const double ms = tpot_of(results[i].answers).value_or(Estimate{}).value;
    times[settings[i].name] = ms;
    if (i > 0 && (best == 0 || ms < times[settings[best].name])) best = i;
  }
  // How many times faster the best fixed setting is than the controller.
  const std::optional<Estimate> ratio = speedup(results[0].answers, results[best].answers);
  outcome.passed &=
      mismatches == 0 && too_short.empty() && ratio && !results[0].plan_changes.empty();
  if (ratio) {
    bars.push_back({"controller over the best fixed setting, " + scenario, *ratio, kMaxRatio,
                    Bar::Side::kAtMost});
  }
  Json tokens = Json::array();
  for (const AnswerFigures& answer : results[0].answers) tokens.push_back(answer.all_tokens);
  Json figures = {{"ms_per_token", times},
                  {"best_fixed", settings[best].name},
                  {"mismatches", mismatches},
                  {"tokens", std::move(tokens)},
                  {"too_short", std::move(too_short)},
                  {"plan_changes", results[0].plan_changes}};
  return figures;
}

Result<CheckOutcome> run_controller(const ControllerOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(options.target));
  ControllerRun run_state{.options = options, .tokenizer = std::move(tokenizer), .prompts = {}};
  OUTRIDER_ASSIGN_OR_RETURN(run_state.prompts,
                            read_prompts(options.prompts, run_state.tokenizer, 0));
  OUTRIDER_RETURN_IF_ERROR(start(run_state));
  const std::vector<Setting> settings = all_settings();
  CheckOutcome outcome;
  outcome.passed = true;
  std::vector<Bar> bars;
  for (const Scenario& scenario : all_scenarios()) {
    if (std::ranges::find(options.scenarios, scenario.name) == options.scenarios.end()) continue;
    std::vector<SettingResult> results(settings.size());
    for (std::size_t run = 0; run < options.runs; ++run) {
      std::vector<TokenId> wanted;
      for (std::size_t i = 0; i < settings.size(); ++i) {
        const std::size_t at = (run + i) % settings.size();
        std::fprintf(stderr, "\r%s: run %zu of %zu, %s          ", scenario.name.c_str(), run + 1,
                     options.runs, settings[at].name.c_str());
        OUTRIDER_RETURN_IF_ERROR(
            run_once(run_state, scenario, settings[at], run, wanted, results[at]));
      }
    }
    outcome.figures[scenario.name] = report(scenario.name, settings, results, outcome, bars);
    std::fprintf(stderr, "\n%s\n", outcome.figures[scenario.name].dump().c_str());
  }
  outcome.hold(bars);
  outcome.hold_pace("target", run_state.server->stop().value_or(PaceCounts{}));
  outcome.hold_pace("draft", run_state.draft->counts());
  outcome.figures["runs"] = options.runs;
  outcome.figures["emulated"] = true;
  return outcome;
}

}  // namespace

void add_controller_check(CheckList& checks) {
  auto options = std::make_shared<ControllerOptions>();
  CLI::App* command = checks.add(
      "controller", "The controller in changing conditions against the best fixed setting",
      [options] { return run_controller(*options); });
  command->add_option("--target", options->target, "Target: a directory or a GGUF file");
  command->add_option("--draft", options->draft, "Draft: a directory or a GGUF file");
  command->add_option("--prompts", options->prompts, "JSONL file with \"prompt\"")->required();
  command
      ->add_option(
          "--scenarios", options->scenarios,
          "acceptance: the draft forgets; link: 10, 300, 10 ms; device: throttled fourfold")
      ->check(CLI::IsMember({"acceptance", "link", "device"}))
      ->delimiter(',');
  command->add_option("--runs", options->runs, "Answers by each setting")
      ->check(CLI::PositiveNumber);
  command->add_option("--max-tokens", options->max_tokens, "Tokens of each answer")
      ->check(CLI::Range(8, 100'000));
  command->add_option("--pace-pass-ms", options->pass_pace, "Of the emulated target");
  command->add_option("--pace-step-ms", options->step_pace, "Of the emulated draft");
}

}  // namespace outrider
