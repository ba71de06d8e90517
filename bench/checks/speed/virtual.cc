// Virtual time against real time: the same answers of the same models at the same emulated pace and
// link, once through the simulation's loop and once with a server process, gRPC and threads. Speeds
// must agree, and the simulation must be quick.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/edges/bench_edge.h"
#include "bench/link/delay_link.h"
#include "bench/paces/paces.h"
#include "bench/process/server_process.h"
#include "bench/prompts/prompts.h"
#include "bench/sim/virtual_run.h"
#include "common/base/clock.h"
#include "common/exits/find_exits.h"
#include "common/model/emulated/paced_model.h"
#include "common/model/loader/loader.h"
#include "common/text/tokenizer.h"
#include "edge_client/generation/local_draft.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {
namespace {

constexpr double kMaxSeconds = 10;       // of real time, for all virtual answers
constexpr double kMaxDifference = 0.03;  // of tokens per second, virtual against real

struct StrategyName {
  const char* name;
  Strategy strategy;
};
constexpr StrategyName kStrategies[] = {{"ar", Strategy::kAr},
                                        {"sd", Strategy::kSd},
                                        {"fsd", Strategy::kFsd},
                                        {"mirror", Strategy::kMirror}};

struct VirtualOptions {
  std::string target = "models/demo-target";
  std::string draft = "models/demo-draft";
  std::string prompts;
  std::string pace = "jetson-68m-7b";
  int max_tokens = 200;
  int gamma = 4;
  bool no_real = false;
};

// What both halves share.
struct Experiment {
  PaperPace pace;
  Tokenizer tokenizer;
  std::vector<TokenId> prompt;
  Position max_tokens;
  int gamma;

  BenchRequest request(const StrategyName& strategy) const {
    BenchRequest request;
    request.name = strategy.name;
    request.prompt = prompt;
    request.max_tokens = max_tokens;
    request.draft_length = strategy.strategy == Strategy::kAr ? 0 : gamma;
    request.strategy = strategy.strategy;
    return request;
  }
  PaceCurve pass() const { return pass_curve(with_times(pace, PassTimes::kPrinted)); }
};

// FSD's algorithm 2 knows no calibration.
ExitScore exit_score_of(Strategy strategy) {
  return strategy == Strategy::kFsd ? ExitScore::kMaxSoftmax : ExitScore::kCalibrated;
}

class VirtualHalf final {
 public:
  static Result<VirtualHalf> create(const VirtualOptions& options) {
    LoadOptions load;
    load.directory = options.target;
    load.threads = 1;
    load.ignore_eos = true;
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> target, load_model(load));
    OUTRIDER_ASSIGN_OR_RETURN(FoundExits exits,
                              find_exits({.model = options.target}, target->info()));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> draft,
                              load_bench_model(options.draft, "auto", 1));
    return VirtualHalf(std::move(target), std::move(exits.heads), std::move(draft));
  }

  Result<BenchAnswer> decode(const Experiment& experiment, const StrategyName& strategy) {
    SchedulerOptions scheduling;
    scheduling.tokenizer_hash = experiment.tokenizer.content_hash();
    scheduling.exits = exits_.get();
    scheduling.exit_score = exit_score_of(strategy.strategy);
    const Duration one_way = from_ms(experiment.pace.one_way_ms);
    const VirtualDevices devices{.target = *target_,
                                 .scheduling = scheduling,
                                 .pass = experiment.pass(),
                                 .draft = *draft_,
                                 .step = step_curve(experiment.pace),
                                 .link = {.up = {one_way, one_way},
                                          .down = {one_way, one_way},
                                          .connect_trips = kConnectTripsBehindProxy}};
    const BenchRequest request = experiment.request(strategy);
    OUTRIDER_ASSIGN_OR_RETURN(
        VirtualAnswer answer,
        answer_in_virtual_time(devices, edge_setup(request, experiment.tokenizer, draft_->info(),
                                                   target_->info().max_positions)));
    return BenchAnswer{std::move(answer.ids), std::move(answer.stats)};
  }

  Position max_positions() const { return target_->info().max_positions; }

 private:
  VirtualHalf(std::unique_ptr<Model> target, std::unique_ptr<ExitHeads> exits,
              std::unique_ptr<Model> draft)
      : target_(std::move(target)), exits_(std::move(exits)), draft_(std::move(draft)) {}

  // As BenchEdge sets its edge up.
  static SimEdgeSetup edge_setup(const BenchRequest& request, const Tokenizer& tokenizer,
                                 const ModelInfo& draft, Position max_positions) {
    SimEdgeSetup setup;
    setup.prompt = request.prompt;
    setup.decoding.strategy = request.strategy;
    setup.decoding.gamma = std::max(request.draft_length, 1);
    setup.decoding.tokenizer_hash = tokenizer.content_hash();
    setup.decoding.token_bound = tokenizer.vocab_size();
    setup.decoding.end_position = static_cast<Position>(request.prompt.size()) + request.max_tokens;
    setup.drafter = drafter_options(draft, {.context = max_positions});
    return setup;
  }

  std::unique_ptr<Model> target_;
  std::unique_ptr<ExitHeads> exits_;
  std::unique_ptr<Model> draft_;
};

class RealHalf final {
 public:
  RealHalf(const VirtualOptions& options, const Experiment& experiment)
      : options_(options), experiment_(experiment) {}

  Result<BenchAnswer> decode(const StrategyName& strategy, Position max_positions) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                              start_server(exit_score_of(strategy.strategy)));
    DelayLinkOptions link_options;
    link_options.upstream = server->address();
    link_options.one_way = from_ms(experiment_.pace.one_way_ms);
    OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<DelayLink> link,
                              DelayLink::start(link_options));
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> model,
                              load_bench_model(options_.draft, "auto", 1));
    auto paced =
        std::make_unique<PacedModel>(std::move(model), step_curve(experiment_.pace), clock_);
    OUTRIDER_ASSIGN_OR_RETURN(
        const std::unique_ptr<BenchEdge> edge,
        BenchEdge::create(std::move(paced), experiment_.tokenizer, max_positions, clock_));
    RemoteVerifier verifier({.server = link->address()});
    return edge->decode(verifier, experiment_.request(strategy));
  }

 private:
  Result<std::unique_ptr<ServerProcess>> start_server(ExitScore score) {
    return ServerProcess::start({"--model", options_.target, "--threads", "1", "--ignore-eos",
                                 "--log-level", "warning", "--pace-pass-ms",
                                 experiment_.pass().to_string(), "--exit-score",
                                 score == ExitScore::kMaxSoftmax ? "max-softmax" : "calibrated"});
  }

  const VirtualOptions& options_;
  const Experiment& experiment_;
  SystemClock clock_;
};

double tokens_per_s(const BenchAnswer& answer) {
  const std::optional<double> tpot = answer.stats.tpot_ms();
  return tpot && *tpot > 0 ? 1e3 / *tpot : 0;
}

Result<Experiment> make_experiment(const VirtualOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<PaperPace> paces, find_paces({options.pace}));
  if (paces.size() != 1) return invalid_argument("--pace " + options.pace + ": expected one pace");
  OUTRIDER_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::load(options.target));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<BenchPrompt> prompts,
                            read_prompts(options.prompts, tokenizer, 1));
  return Experiment{std::move(paces.front()), std::move(tokenizer), std::move(prompts.front().ids),
                    options.max_tokens, options.gamma};
}

Result<CheckOutcome> run_virtual(const VirtualOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Experiment experiment, make_experiment(options));
  const SystemClock clock;
  const TimePoint began = clock.now();
  OUTRIDER_ASSIGN_OR_RETURN(VirtualHalf half, VirtualHalf::create(options));
  std::map<std::string, BenchAnswer> answers;
  for (const StrategyName& strategy : kStrategies) {
    OUTRIDER_ASSIGN_OR_RETURN(answers[strategy.name], half.decode(experiment, strategy));
  }
  const double seconds = to_seconds(clock.now() - began);
  CheckOutcome outcome;
  outcome.passed = seconds <= kMaxSeconds;
  std::fprintf(stderr, "virtual: %.2f s for %zu answers, at most %.0f\n", seconds, answers.size(),
               kMaxSeconds);
  if (options.no_real) outcome.show_nothing("speeds in real time were not measured (--no-real)");
  Json compared = Json::array();
  RealHalf real(options, experiment);
  for (const StrategyName& strategy : kStrategies) {
    const BenchAnswer& answer = answers[strategy.name];
    Json one = {{"strategy", strategy.name},
                {"tokens", answer.ids.size()},
                {"virtual_tokens_per_s", tokens_per_s(answer)}};
    if (!options.no_real) {
      OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer wanted,
                                real.decode(strategy, half.max_positions()));
      const double ratio = tokens_per_s(answer) / tokens_per_s(wanted);
      const bool same_text = answer.ids == wanted.ids;
      one["real_tokens_per_s"] = tokens_per_s(wanted);
      one["ratio"] = ratio;
      one["same_text"] = same_text;
      outcome.passed = outcome.passed && same_text && std::abs(ratio - 1) <= kMaxDifference;
      std::fprintf(stderr, "%-6s virtual %.4f tokens/s, real %.4f, ratio %.4f%s\n", strategy.name,
                   tokens_per_s(answer), tokens_per_s(wanted), ratio,
                   same_text ? "" : ", ANOTHER TEXT");
    }
    compared.push_back(std::move(one));
  }
  outcome.figures = {{"emulated", true},
                     {"pace", experiment.pace.name},
                     {"virtual_s", seconds},
                     {"max_tokens", options.max_tokens},
                     {"spec_draft_n_max", options.gamma},
                     {"answers", std::move(compared)}};
  return outcome;
}

}  // namespace

void add_virtual_check(CheckList& checks) {
  auto options = std::make_shared<VirtualOptions>();
  CLI::App* command = checks.add(
      "virtual", "A run in virtual time takes seconds and has the speeds of one in real time",
      [options] { return run_virtual(*options); });
  command->add_option("--target", options->target, "Target: a directory or a GGUF file");
  command->add_option("--draft", options->draft, "Draft: a directory or a GGUF file");
  command->add_option("--prompts", options->prompts, "JSONL file with \"prompt\"; its first counts")
      ->required();
  command->add_option("--pace", options->pace, "Emulated device and link");
  command->add_option("--max-tokens", options->max_tokens, "Tokens of each answer")
      ->check(CLI::Range(2, 1'000'000));
  command->add_option("--spec-draft-n-max", options->gamma, "Tokens drafted in a round (γ)")
      ->check(CLI::Range(1, 64));
  command->add_flag("--no-real", options->no_real,
                    "Only virtual time: holds its bar of real seconds, shows nothing of speeds");
}

}  // namespace outrider
