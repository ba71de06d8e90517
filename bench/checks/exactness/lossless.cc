// lossless: the text is the target's, whatever was drafted. For each prompt and temperature, plain
// cloud decoding over gRPC gives the reference ids. They are compared with the resident verifier,
// and with speculative decoding over gRPC at each draft length, both with the draft model's chains
// and with random pre-sent trees beside a chain. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/edges/adversary.h"
#include "bench/edges/bench_edge.h"
#include "bench/harness/grid_flags.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/decoding/protocol/verifier.h"
#include "common/decoding/verify/scheduling/engine.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/engine/model/loader/loader.h"
#include "common/engine/text/tokenizer.h"
#include "edge_client/verifiers/remote.h"
#include "edge_client/verifiers/resident.h"
#include "emulation/process/server_process.h"

namespace outrider {
namespace {

// One answer of an adversary, over a verifier with its own threads.

Result<std::vector<TokenId>> play(Adversary& adversary, EventQueue& events, int chain_length) {
  const std::size_t prompt = adversary.script().open.prefix.size();
  while (true) {
    const VerifierEvent event = events.next();
    if (const auto* ended = std::get_if<StreamEnded>(&event)) {
      if (!ended->status.ok()) return ended->status;
      const auto text = adversary.tree().text().subspan(prompt);
      return std::vector<TokenId>(text.begin(), text.end());
    }
    const auto& message = std::get<ServerMessage>(event);
    const auto* verdict = std::get_if<Verdict>(&message);
    const Position end = adversary.tree().end();
    if (verdict != nullptr && verdict->position != end) {
      return internal_error("verdict at " + std::to_string(verdict->position) +
                            ", but the text ends at " + std::to_string(end));
    }
    adversary.take(message);
    if (std::holds_alternative<Started>(message)) adversary.send_strays();
    if (verdict != nullptr) adversary.send_round(chain_length);
  }
}
// The answer's tokens. A round with a chain of that length leaves after each verdict; extra nodes
// leave while passes run. INTERNAL if the verifier breaks the protocol.

Result<std::vector<TokenId>> answer_with_adversary(Verifier& verifier, AdversaryScript script,
                                                   int chain_length, std::uint64_t seed) {
  EventQueue events;
  SeededRandom random(seed);
  Adversary adversary(std::move(script), random,
                      [&](EdgeMessage message) { verifier.send(std::move(message)); });
  verifier.start(1, events.sink());
  adversary.open_stream("");
  adversary.send_round(chain_length);
  Result<std::vector<TokenId>> answer = play(adversary, events, chain_length);
  verifier.stop();  // before the queue that it writes to is destroyed
  return answer;
}

// Answers that end at once would be equal with any decoding: a shorter average fails.
constexpr std::uint64_t kMinMeanAnswer = 8;

struct LosslessOptions {
  std::string target;
  std::string draft;
  std::string prompts = kPromptSets;
  std::string dtype = "auto";
  std::string device = "cpu";
  std::vector<int> lens = {1, 2, 4, 8, 16};
  std::vector<double> temps = {0, 0.7, 1.0};
  int max_tokens = 128;
  std::size_t num_prompts = 0;
  int jobs = 2;
  ConstraintSpec form = {};  // of each answer; kind kNone: any
};

// State that all jobs share.
struct LosslessRun {
  const LosslessOptions& options;
  const Tokenizer& tokenizer;
  const ServerProcess& server;
  VerifyEngine& resident;
  const Position max_positions;
  SystemClock clock;

  std::atomic<std::size_t> next_case{0};
  Mutex mu = {};
  std::uint64_t compared OUTRIDER_GUARDED_BY(mu) = 0;
  std::uint64_t mismatches OUTRIDER_GUARDED_BY(mu) = 0;
  std::uint64_t tokens OUTRIDER_GUARDED_BY(mu) = 0;
  Status failure OUTRIDER_GUARDED_BY(mu) = {};

  void compare(const std::string& what, const std::vector<TokenId>& wanted,
               const std::vector<TokenId>& got) {
    const MutexLock lock(mu);
    ++compared;
    tokens += got.size();
    if (wanted == got) return;
    ++mismatches;
    const auto [at, ignored] = std::mismatch(wanted.begin(), wanted.end(), got.begin(), got.end());
    std::fprintf(stderr, "mismatch: %s, first at token %td of %zu\n", what.c_str(),
                 at - wanted.begin(), wanted.size());
  }
};

// One edge with its links.
class Job final {
 public:
  static Result<std::unique_ptr<Job>> create(LosslessRun& run) {
    OUTRIDER_ASSIGN_OR_RETURN(
        std::unique_ptr<BenchEdge> edge,
        BenchEdge::create(run.options.draft, run.tokenizer, run.max_positions, run.clock));
    return std::unique_ptr<Job>(new Job(run, std::move(edge)));
  }

  // Callers set the request's draft length.
  Status run(BenchRequest one) {
    OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer wanted, edge_->decode(remote_, one));
    OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer resident, edge_->decode(resident_, one));
    run_.compare(one.name + ", resident", wanted.ids, resident.ids);
    for (const int length : run_.options.lens) {
      const std::string name = one.name + ", length " + std::to_string(length);
      one.draft_length = length;
      OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer drafted, edge_->decode(remote_, one));
      run_.compare(name, wanted.ids, drafted.ids);
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> treed, with_trees(one, wanted.ids));
      run_.compare(name + ", trees", wanted.ids, treed);
    }
    return {};
  }

 private:
  Job(LosslessRun& run, std::unique_ptr<BenchEdge> edge)
      : run_(run),
        edge_(std::move(edge)),
        remote_({.server = run.server.address()}),
        resident_(run.resident) {}

  Result<std::vector<TokenId>> with_trees(const BenchRequest& one,
                                          const std::vector<TokenId>& right) {
    AdversaryScript script;
    script.open.tokenizer_hash = run_.tokenizer.content_hash();
    script.open.sampling = one.sampling;
    script.open.seed = one.seed;
    script.open.set_settings(one.settings, static_cast<Position>(one.prompt.size()));
    script.open.prefix = one.prompt;
    script.open.end_position = static_cast<Position>(one.prompt.size()) + one.max_tokens;
    script.expected = one.prompt;
    script.expected.insert(script.expected.end(), right.begin(), right.end());
    script.vocab_size = run_.tokenizer.vocab_size();
    const std::uint64_t seed = one.seed * 31 + static_cast<std::uint64_t>(one.draft_length);
    return answer_with_adversary(remote_, std::move(script), one.draft_length, seed);
  }

  LosslessRun& run_;
  const std::unique_ptr<BenchEdge> edge_;
  RemoteVerifier remote_;
  ResidentVerifier resident_;
};

// Every prompt at every temperature.
Result<std::vector<BenchRequest>> read_cases(const LosslessOptions& options,
                                             const Tokenizer& tokenizer, Position max_positions) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts,
                            read_prompts(options.prompts, tokenizer, options.num_prompts));
  ConstraintCompiler compiler([&] { return grammar_vocabulary(tokenizer); });
  OUTRIDER_ASSIGN_OR_RETURN(const AnswerConstraint form, compiler.compile(options.form));
  std::vector<BenchRequest> cases;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const BenchPrompt& prompt = prompts[i];
    if (static_cast<Position>(prompt.ids.size()) + options.max_tokens > max_positions) {
      return invalid_argument(prompt.name + ": " + std::to_string(prompt.ids.size()) +
                              " tokens and " + std::to_string(options.max_tokens) +
                              " of answer, but the context holds " + std::to_string(max_positions));
    }
    for (const double temperature : options.temps) {
      BenchRequest one;
      one.name = prompt.name + ", T " + std::to_string(temperature);
      one.prompt = prompt.ids;
      one.sampling.temperature = static_cast<float>(temperature);
      one.seed = i + 1;
      one.settings.constraint = form;
      one.max_tokens = options.max_tokens;
      cases.push_back(std::move(one));
    }
  }
  return cases;
}

void work(LosslessRun& run, const std::vector<BenchRequest>& cases) {
  Result<std::unique_ptr<Job>> job = Job::create(run);
  Status status = job.status();
  while (status.ok()) {
    const std::size_t next = run.next_case++;
    if (next >= cases.size()) return;
    status = (*job)->run(cases[next]);
    const MutexLock lock(run.mu);
    std::fprintf(stderr, "\rlossless: %zu of %zu cases, %llu compared, %llu mismatches ", next + 1,
                 cases.size(), static_cast<unsigned long long>(run.compared),
                 static_cast<unsigned long long>(run.mismatches));
  }
  run.next_case = cases.size();  // stops the other jobs too
  const MutexLock lock(run.mu);
  run.failure = status;
}

Result<CheckOutcome> run_lossless(const LosslessOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(options.target));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> target,
                            load_bench_model(options.target, options.dtype, 1));
  const std::vector<std::string> arguments = {"--model",
                                              options.target,
                                              "--dtype",
                                              options.dtype,
                                              "--device",
                                              options.device,
                                              "--max-concurrent-sessions",
                                              std::to_string(2 * options.jobs)};
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                            ServerProcess::start(arguments));
  SystemClock clock;
  SchedulerOptions scheduling;
  scheduling.tokenizer_hash = tokenizer.content_hash();
  VerifyEngine resident(*target, scheduling, clock);
  const Position max_positions = target->info().max_positions;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchRequest> cases,
                            read_cases(options, tokenizer, max_positions));
  LosslessRun run{options, tokenizer, *server, resident, max_positions, {}};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(options.jobs));
  for (int i = 0; i < options.jobs; ++i) threads.emplace_back([&] { work(run, cases); });
  for (std::thread& thread : threads) thread.join();
  std::fprintf(stderr, "\n");
  const MutexLock lock(run.mu);
  OUTRIDER_RETURN_IF_ERROR(run.failure);
  CheckOutcome outcome;
  const std::uint64_t least =
      std::min(kMinMeanAnswer, static_cast<std::uint64_t>(options.max_tokens));
  const bool long_enough = run.tokens >= least * run.compared;
  if (!long_enough) {
    std::fprintf(stderr, "lossless: answers of fewer than %llu tokens on average are no evidence\n",
                 static_cast<unsigned long long>(least));
  }
  outcome.passed = run.mismatches == 0 && run.compared > 0 && long_enough;
  outcome.figures = {{"compared", run.compared},
                     {"mismatches", run.mismatches},
                     {"cases", cases.size()},
                     {"tokens", run.tokens},
                     {"arithmetic_id", target->info().arithmetic_id}};
  return outcome;
}

}  // namespace

void add_lossless_check(CheckList& checks) {
  auto options = std::make_shared<LosslessOptions>();
  CLI::App* command = checks.add(
      "lossless", "Speculative decoding over gRPC gives the target's text, token by token",
      [options] { return run_lossless(*options); });
  command->add_option("--target", options->target, "Target: a directory or a GGUF file")
      ->required();
  command->add_option("--draft", options->draft, "Draft: a directory or a GGUF file")->required();
  add_prompts_flag(*command, options->prompts);
  command->add_option("--lens", options->lens, "Draft lengths")->delimiter(',');
  command->add_option("--temps", options->temps, "Temperatures")->delimiter(',');
  command->add_option("--max-tokens", options->max_tokens, "Tokens of each answer")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--num-prompts", options->num_prompts, "Only the first N prompts; 0: all");
  command->add_option("--dtype", options->dtype,
                      "How the target computes: auto, f32, bf16, int8, int4");
  command
      ->add_option("--device", options->device,
                   "Where the server computes: cpu, cuda, host-cuda; the resident verifier does "
                   "on the CPU")
      ->check(CLI::IsMember(kDevices));
  command->add_option("--jobs", options->jobs, "Edges at once")->check(CLI::Range(1, 64));
  const auto add_form = [&](const char* name, ConstraintKind kind, const char* help) {
    return command->add_option_function<std::string>(
        name,
        [options, kind](const std::string& text) {
          options->form = {kind, text};
        },
        help);
  };
  CLI::Option* const schema =
      add_form("--json-schema", ConstraintKind::kJsonSchema, "Answers are JSON by this schema");
  add_form("--grammar", ConstraintKind::kGrammar, "Answers have the form of these rules, in GBNF")
      ->excludes(schema);
}

}  // namespace outrider
