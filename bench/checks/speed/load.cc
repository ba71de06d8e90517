// load: real clients on a real server, as an operator measures it before buying devices. Edges
// speak gRPC, OpenAI clients read streams over HTTP; they arrive as a Poisson process or wait for
// their answers. The figures are vLLM's serving benchmark's, and the server's own counters.
//
// Three loads may be compared with another one, in turn within one run: with one client alone
// (does batching pay?), with the same clients without a greedy tenant (is it fair?), and with
// another OpenAI server on the same file. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/edges/bench_edge.h"
#include "bench/harness/grid_flags.h"
#include "bench/load/load_clients.h"
#include "bench/load/load_report.h"
#include "bench/load/load_run.h"
#include "bench/load/load_target.h"
#include "bench/report/run_report.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/program.h"
#include "common/serving/cli/quantities.h"

namespace outrider {
namespace {

constexpr std::size_t kDefaultRequests = 64;
constexpr int kDefaultRounds = 5;
// Between two rounds of a run no request repeats.
constexpr std::uint64_t kSeedsOfRound = 1'000'003;

struct LoadFlags {
  TargetFlags target;
  LoadShape shape;
  std::optional<std::size_t> num_prompts;  // nothing: kDefaultRequests, or none with a duration
  LoadAnswers answers;
  std::string draft = "models/demo-draft";
  Strategy strategy = Strategy::kMirror;
  int gamma = 8;
  std::string prompts = kPromptSets;
  std::vector<LatencySlo> slos;
  bool compare_one = false;
  bool compare_plain = false;
  std::optional<Address> against;
  std::optional<int> rounds;
  std::optional<double> at_least;
  std::optional<double> idle_at_most;
  std::string out;

  bool compares() const {
    return compare_one || compare_plain || against || shape.greedy_sessions > 0;
  }
};

Status check_options(const LoadFlags& options) {
  OUTRIDER_RETURN_IF_ERROR(check_load(options.shape));
  const int comparisons = (options.compare_one ? 1 : 0) + (options.compare_plain ? 1 : 0) +
                          (options.against ? 1 : 0) + (options.shape.greedy_sessions > 0 ? 1 : 0);
  if (comparisons > 1) {
    return invalid_argument(
        "--compare-one, --compare-plain, --against-url and --greedy-sessions are comparisons. "
        "Remedy: one of them a run");
  }
  if (options.compare_plain && !options.target.starts_server()) {
    return invalid_argument(
        "--compare-plain starts two servers, and --server or --url names a running one. Remedy: "
        "--against-url for the other one");
  }
  if ((options.against || options.compare_plain) && options.shape.edges > 0) {
    return invalid_argument(
        "--against-url and --compare-plain are of OpenAI servers, to which no edge goes. Remedy: "
        "--openai-clients");
  }
  if (options.compare_one && options.shape.is_open_loop()) {
    return invalid_argument(
        "--compare-one compares what clients get that wait for their answers. Remedy: leave out "
        "--request-rate");
  }
  if (options.at_least && !options.compares()) {
    return invalid_argument("--at-least is a bar on a ratio. Remedy: a comparison beside it");
  }
  return {};
}

// --- what is set up -----------------------------------------------------------------------------

// Members end in reverse order: clients before the server and the tokenizer that they refer to.
struct LoadStage {
  SystemClock clock;
  std::optional<Tokenizer> tokenizer;  // if there are edges
  std::vector<LoadPrompt> prompts;
  std::unique_ptr<LoadTarget> target;
  std::unique_ptr<LoadTarget> plain;  // the same, but that it does not draft
  std::vector<std::unique_ptr<LoadClient>> clients;
  std::vector<LoadSeat> seats;    // the clients of the flags
  std::vector<LoadSeat> greedy;   // those of the greedy tenant
  std::vector<LoadSeat> against;  // the same OpenAI clients at the other server

  void add(std::vector<LoadSeat>& to, ClientKind kind, std::unique_ptr<LoadClient> client) {
    std::size_t number = 0;
    for (const LoadSeat& seat : to) number += seat.kind == kind ? 1 : 0;
    to.push_back({kind, number, client.get()});
    clients.push_back(std::move(client));
  }
};

Status read_load_prompts(const LoadFlags& options, LoadStage& stage) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<PromptLine> lines,
                            read_prompt_file(options.prompts, 0));
  for (const PromptLine& line : lines) stage.prompts.push_back({.text = line.prompt, .ids = {}});
  if (options.shape.edges + options.shape.greedy_sessions == 0) return {};
  OUTRIDER_ASSIGN_OR_RETURN(stage.tokenizer, Tokenizer::load(options.target.model));
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<BenchPrompt> encoded,
                            read_prompts(options.prompts, *stage.tokenizer, 0));
  for (std::size_t i = 0; i < encoded.size(); ++i) stage.prompts[i].ids = std::move(encoded[i].ids);
  return {};
}

Status add_openai_clients(const LoadFlags& options, const Address& server, LoadStage& stage,
                          std::vector<LoadSeat>& seats) {
  if (options.shape.openai_clients == 0) return {};
  OpenAiSetup setup{.server = server,
                    .key = stage.target->key_of(ClientKind::kOpenAi, 0),
                    .model = {},
                    .answers = options.answers};
  OUTRIDER_ASSIGN_OR_RETURN(setup.model, openai_model(server, setup.key));
  for (std::size_t i = 0; i < options.shape.openai_clients; ++i) {
    setup.key = stage.target->key_of(ClientKind::kOpenAi, options.shape.edges + i);
    stage.add(seats, ClientKind::kOpenAi, make_openai_client(setup, stage.clock));
  }
  return {};
}

Status add_edges(const LoadFlags& options, LoadStage& stage) {
  const LoadShape& shape = options.shape;
  if (shape.edges + shape.greedy_sessions == 0) return {};
  EdgeClientSetup setup{.server = stage.target->rpc(),
                        .key = {},
                        .draft = options.draft == "none" ? "" : options.draft,
                        .strategy = options.strategy,
                        .gamma = options.gamma,
                        .tokenizer = *stage.tokenizer,
                        .answers = options.answers};
  for (std::size_t i = 0; i < shape.edges; ++i) {
    setup.key = stage.target->key_of(ClientKind::kEdge, i);
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<LoadClient> edge, make_edge(setup, stage.clock));
    stage.add(stage.seats, ClientKind::kEdge, std::move(edge));
  }
  setup.key = stage.target->key_of(ClientKind::kGreedy, 0);
  for (std::size_t i = 0; i < shape.greedy_sessions; ++i) {
    stage.add(stage.greedy, ClientKind::kGreedy, make_greedy_session(setup, stage.clock));
  }
  return {};
}

// One request of each kind of client: it finds a server that is away, or refuses, before the load
// is counted, and the server's first pass touches its weights.
Status warm_up(const LoadFlags& options, const LoadStage& stage) {
  const std::atomic<bool> stop{false};
  for (const std::vector<LoadSeat>* seats : {&stage.seats, &stage.against}) {
    for (const LoadSeat& seat : *seats) {
      if (seat.number > 0) continue;
      OUTRIDER_RETURN_IF_ERROR(
          seat.client
              ->answer({.prompt = stage.prompts.front(), .seed = options.shape.seed, .stop = stop})
              .status()
              .with_context(std::string("the first request of kind ") + name_of(seat.kind)));
    }
  }
  return {};
}

Result<std::unique_ptr<LoadStage>> set_up(const LoadFlags& options) {
  auto stage = std::make_unique<LoadStage>();
  OUTRIDER_RETURN_IF_ERROR(read_load_prompts(options, *stage));
  OUTRIDER_ASSIGN_OR_RETURN(stage->target, LoadTarget::open(options.target, options.shape));
  OUTRIDER_RETURN_IF_ERROR(add_edges(options, *stage));
  if (options.shape.openai_clients > 0) {
    OUTRIDER_RETURN_IF_ERROR(
        add_openai_clients(options, stage->target->openai(), *stage, stage->seats));
  }
  if (options.against) {
    OUTRIDER_RETURN_IF_ERROR(add_openai_clients(options, *options.against, *stage, stage->against));
  }
  if (options.compare_plain) {
    TargetFlags plain = options.target;
    plain.draft_model.clear();
    plain.draft_source = "none";
    OUTRIDER_ASSIGN_OR_RETURN(stage->plain, LoadTarget::open(plain, options.shape));
    OUTRIDER_RETURN_IF_ERROR(
        add_openai_clients(options, stage->plain->openai(), *stage, stage->against));
  }
  OUTRIDER_RETURN_IF_ERROR(stage->target->counters().status());
  OUTRIDER_RETURN_IF_ERROR(warm_up(options, *stage));
  return stage;
}

// --- what is run --------------------------------------------------------------------------------

// A load, run once in every round.
struct Phase {
  std::string name;
  LoadShape shape;
  std::vector<LoadSeat> seats;
  bool counts_server = true;                          // its counters are those of this load
  std::vector<LoadReport> reports = {};               // [round]
  std::vector<std::vector<LoadSample>> samples = {};  // [round]
};

std::string about(const LoadShape& shape) {
  std::string text = fmt::format("{} edges, {} OpenAI clients", shape.edges, shape.openai_clients);
  if (shape.greedy_sessions > 0) text += fmt::format(", {} greedy", shape.greedy_sessions);
  return shape.is_open_loop() ? text + fmt::format(", {:g} requests/s", shape.request_rate) : text;
}

// The load of the flags last; before it what it is compared with.
std::vector<Phase> phases_of(const LoadFlags& options, const LoadStage& stage) {
  Phase whole{.name = about(options.shape), .shape = options.shape, .seats = stage.seats};
  std::vector<Phase> phases;
  if (options.compare_one) {
    Phase one{.name = "one client alone", .shape = options.shape, .seats = {stage.seats.front()}};
    const bool is_edge = one.seats.front().kind == ClientKind::kEdge;
    one.shape.edges = is_edge ? 1 : 0;
    one.shape.openai_clients = is_edge ? 0 : 1;
    const std::size_t clients = options.shape.clients();
    one.shape.num_prompts = (options.shape.num_prompts + clients - 1) / clients;
    phases.push_back(std::move(one));
  } else if (options.against || options.compare_plain) {
    phases.push_back({.name = options.against ? options.against->to_string() : "without drafts",
                      .shape = options.shape,
                      .seats = stage.against,
                      .counts_server = false});
  } else if (options.shape.greedy_sessions > 0) {
    Phase modest = whole;
    modest.shape.greedy_sessions = 0;
    modest.name = about(modest.shape);
    phases.push_back(std::move(modest));
    whole.seats.insert(whole.seats.end(), stage.greedy.begin(), stage.greedy.end());
  }
  phases.push_back(std::move(whole));
  return phases;
}

// Processor time of this process so far, in seconds.
double processor_seconds() {
  return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

Status run_phase(const LoadFlags& options, const LoadStage& stage, int round, Phase& phase) {
  LoadShape shape = phase.shape;
  shape.seed += static_cast<std::uint64_t>(round) * kSeedsOfRound;
  const auto count = [&]() -> Result<std::optional<ServerCounters>> {
    if (!phase.counts_server) return std::optional<ServerCounters>();
    return stage.target->counters();
  };
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<ServerCounters> before, count());
  const double busy_before = processor_seconds();
  std::vector<LoadSample> samples = run_load(shape, phase.seats, stage.prompts,
                                             fmt::format("round {}, {}", round + 1, phase.name));
  const double busy = processor_seconds() - busy_before;
  OUTRIDER_ASSIGN_OR_RETURN(const std::optional<ServerCounters> after, count());
  const auto modest = std::ranges::stable_partition(
      samples, [](const LoadSample& sample) { return sample.kind != ClientKind::kGreedy; });
  const std::span<const LoadSample> counted(samples.begin(), modest.begin());
  LoadReport report{.title = phase.name,
                    .figures = figures_of(counted, shape.clients(), options.slos),
                    .slos = options.slos};
  if (report.figures.seconds > 0) report.client_cores = busy / report.figures.seconds;
  if (before && after) report.server = *after - *before;
  if (phase.seats.size() > shape.clients()) {
    report.greedy_tokens_per_s = figures_of({modest.begin(), modest.end()}, 0, {}).tokens_per_s;
  }
  phase.reports.push_back(std::move(report));
  phase.samples.push_back(std::move(samples));
  return {};
}

// --- what follows from it -----------------------------------------------------------------------

template <typename Figure>
std::vector<double> over_rounds(const Phase& phase, Figure figure) {
  std::vector<double> values;
  for (const LoadReport& report : phase.reports) values.push_back(figure(report));
  return values;
}

// Ratios of the load to what it is compared with, each with its interval over rounds.
std::vector<std::pair<std::string, Estimate>> ratios_of(const Phase& base, const Phase& whole) {
  std::vector<std::pair<std::string, Estimate>> ratios;
  const auto add = [&](const char* name, auto figure) {
    const auto ratio = ratio_of_medians(over_rounds(base, figure), over_rounds(whole, figure));
    if (ratio) ratios.emplace_back(name, *ratio);
  };
  add("tokens_per_s", [](const LoadReport& report) { return report.figures.tokens_per_s; });
  add("full_load_tokens_per_s",
      [](const LoadReport& report) { return report.figures.full_load.value_or(0); });
  add("p95_tpot", [](const LoadReport& report) {
    return report.figures.tpot_ms ? report.figures.tpot_ms->p95 : 0;
  });
  return ratios;
}

void judge(const LoadFlags& options, const std::vector<Phase>& phases, CheckOutcome& outcome) {
  std::vector<Bar> bars;
  if (phases.size() > 1) {
    const char* const judged = options.compare_one ? "full_load_tokens_per_s" : "tokens_per_s";
    for (const auto& [name, ratio] : ratios_of(phases.front(), phases.back())) {
      outcome.figures["ratios"][name] = to_json(ratio);
      const auto [low, high] = ratio.interval.value_or(Interval{ratio.value, ratio.value});
      std::fprintf(stderr, "%s, %s / %s: %.3f [%.3f, %.3f]\n", name.c_str(),
                   phases.back().name.c_str(), phases.front().name.c_str(), ratio.value, low, high);
      if (options.at_least && name == judged) {
        bars.push_back({name + "_ratio", ratio, *options.at_least, Bar::Side::kAtLeast});
      }
    }
  }
  const std::vector<double> idle = over_rounds(phases.back(), [](const LoadReport& report) {
    return report.server ? report.server->idle_share().value_or(0) : 0;
  });
  if (options.idle_at_most && phases.back().reports.front().server) {
    bars.push_back({"idle_share", *median(idle), *options.idle_at_most, Bar::Side::kAtMost});
  }
  if (options.at_least || options.idle_at_most) outcome.hold(bars);
}

Json requests_json(const Phase& phase) {
  Json rounds = Json::array();
  for (const auto& samples : phase.samples) {
    Json requests = Json::array();
    for (const LoadSample& sample : samples) requests.push_back(to_json(sample));
    rounds.push_back(std::move(requests));
  }
  return rounds;
}

Json phase_json(const Phase& phase, bool with_requests) {
  Json json = {{"name", phase.name},
               {"edges", phase.shape.edges},
               {"openai_clients", phase.shape.openai_clients},
               {"greedy_sessions", phase.shape.greedy_sessions},
               {"rounds", Json::array()}};
  for (const LoadReport& report : phase.reports) json["rounds"].push_back(to_json(report));
  if (with_requests) json["requests"] = requests_json(phase);
  return json;
}

Result<CheckOutcome> run_load_check(LoadFlags options) {
  if (!options.out.empty()) OUTRIDER_RETURN_IF_ERROR(OutputFile::check(options.out, kReportJson));
  options.shape.num_prompts =
      options.num_prompts.value_or(options.shape.duration > Duration{0} ? 0 : kDefaultRequests);
  OUTRIDER_RETURN_IF_ERROR(check_options(options));
  options.target.shares_prefixes = !options.compares();
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<LoadStage> stage, set_up(options));
  std::vector<Phase> phases = phases_of(options, *stage);
  const int rounds = options.rounds.value_or(options.compares() ? kDefaultRounds : 1);
  for (int round = 0; round < rounds; ++round) {
    for (Phase& phase : phases) OUTRIDER_RETURN_IF_ERROR(run_phase(options, *stage, round, phase));
    std::ranges::reverse(phases);  // the first one alternates
  }
  if (rounds % 2 == 1) std::ranges::reverse(phases);
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {{"seed", options.shape.seed}, {"phases", Json::array()}};
  for (const Phase& phase : phases) {
    std::fprintf(stderr, "%s", load_table(phase.reports.back()).c_str());
    outcome.figures["phases"].push_back(phase_json(phase, false));
    for (const LoadReport& report : phase.reports) {
      outcome.passed =
          outcome.passed && report.figures.errors.empty() && report.figures.answered > 0;
      if (report.figures.first_error.empty()) continue;
      std::fprintf(stderr, "%s: a request failed: %s\n", phase.name.c_str(),
                   report.figures.first_error.c_str());
    }
  }
  judge(options, phases, outcome);
  if (options.out.empty()) return outcome;
  Json kept = outcome.figures;
  kept["machine"] = about_machine();
  kept["phases"] = Json::array();
  for (const Phase& phase : phases) kept["phases"].push_back(phase_json(phase, true));
  OUTRIDER_RETURN_IF_ERROR(
      write_output(options.out, kReportJson, with_schema_first(kept, "outrider-bench-load/1")));
  return outcome;
}

// --- flags --------------------------------------------------------------------------------------

void add_load_flags(CLI::App& command, LoadShape& shape, std::optional<std::size_t>& num_prompts) {
  command.add_option("--edges", shape.edges, "Clients over gRPC, each with its own draft")
      ->check(CLI::Range(0, 512));
  command
      .add_option("--openai-clients", shape.openai_clients,
                  "Clients that read streams of /v1/chat/completions")
      ->check(CLI::Range(0, 4096));
  command
      .add_option("--greedy-sessions", shape.greedy_sessions,
                  "Sessions of one more tenant that send 64 guesses for each pass; compares with "
                  "the load without them")
      ->check(CLI::Range(0, 512));
  add_parsed(command, "--request-rate",
             "Requests a second, as a Poisson process; inf: each client sends its next one when it "
             "has its answer",
             parse_request_rate, [&shape](double rate) { shape.request_rate = rate; })
      ->default_str("inf");
  command
      .add_option("--concurrency", shape.concurrency,
                  "Most requests in flight at once; 0: one of each client")
      ->check(CLI::Range(0, 4608));
  command.add_option(
      "--num-prompts", num_prompts,
      "Requests in all, with prompts in an order that the seed draws, again and again "
      "[64, or as many as --duration allows]");
  add_duration(command, "--duration", shape.duration, std::chrono::seconds(1), CLI::Range(0.0, 1e6),
               "Seconds after which no request is sent; 0: no such end");
  add_duration(command, "--think-time", shape.think_time, std::chrono::seconds(1),
               CLI::Range(0.0, 1e6),
               "Seconds from an answer to the client's next request, on average");
  command.add_option("--seed", shape.seed, "Seed of prompts, arrivals and answers");
}

void add_answer_flags(CLI::App& command, LoadFlags& options) {
  add_prompts_flag(command, options.prompts);
  command.add_option("--max-tokens", options.answers.max_tokens, "Tokens of each answer")
      ->check(CLI::Range(1, 1'000'000));
  command.add_option("--temp", options.answers.temperature, "Temperature")
      ->check(CLI::Range(0.0, 100.0));
  command.add_flag("--ignore-eos", options.answers.ignore_eos,
                   "All answers have --max-tokens tokens");
  command.add_option("--draft", options.draft, "Draft of edges; none: they decode plainly");
  add_choice(command, "--strategy", options.strategy, "How edges with a draft speculate");
  command.add_option("--gamma", options.gamma, "Most drafted tokens of a round")
      ->check(CLI::Range(1, 64));
}

void add_judging_flags(CLI::App& command, LoadFlags& options) {
  command
      .add_option_function<std::vector<std::string>>(
          "--goodput",
          [&options](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) options.slos.push_back(*parse_slo(text));
          },
          "Objectives as METRIC:MS of ttft, tpot and e2el; counts requests that meet all")
      ->check(CLI::Validator(
          [](const std::string& text) { return parse_slo(text).status().message(); }, "", ""));
  command.add_flag("--compare-one", options.compare_one, "Compare with one client alone");
  command.add_flag("--compare-plain", options.compare_plain,
                   "Compare with the same server without drafts of its own");
  add_parsed(command, "--against-url", "Compare with another OpenAI server, http://HOST:PORT",
             parse_http_url, [&options](const Address& address) { options.against = address; });
  command
      .add_option("--rounds", options.rounds,
                  "How often each load is run, in turn [5; without a "
                  "comparison 1]")
      ->check(CLI::Range(1, 1000));
  command
      .add_option(
          "--at-least", options.at_least,
          "Bar on the ratio of tokens a second, with --compare-one while all clients decode")
      ->check(CLI::Range(0.0, 1e6));
  command
      .add_option("--idle-at-most", options.idle_at_most,
                  "Bar on the device's idle share between passes while a session waits")
      ->check(CLI::Range(0.0, 1.0));
  command.add_option("--out", options.out, "JSON file of all figures and requests");
  add_force_flag(command);
}

}  // namespace

void add_load_check(CheckList& checks) {
  auto options = std::make_shared<LoadFlags>();
  CLI::App* command = checks.add(
      "load", "Edges and OpenAI clients on a real server: throughput, latencies, fairness",
      [options] { return run_load_check(*options); });
  add_target_flags(*command, options->target);
  add_load_flags(*command, options->shape, options->num_prompts);
  add_answer_flags(*command, *options);
  add_judging_flags(*command, *options);
}

}  // namespace outrider
