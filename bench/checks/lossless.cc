// The text is the target's, whatever was drafted (DESIGN L1): for each prompt and temperature, the
// ids of plain cloud decoding over gRPC are held against those of the resident verifier, and of
// speculative decoding over gRPC at every draft length, with the draft model's chains and with
// random pre-sent trees beside a chain.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/server_process.h"
#include "bench/tree_edge.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/base/json.h"
#include "common/model/loader.h"
#include "common/text/chat_template.h"
#include "common/text/tokenizer.h"
#include "common/verify/engine.h"
#include "edge_client/drafting/draft_engine.h"
#include "edge_client/drafting/drafter.h"
#include "edge_client/session/decoding_session.h"
#include "edge_client/shell/runner.h"
#include "edge_client/verifiers/remote.h"
#include "edge_client/verifiers/resident.h"

namespace outrider {
namespace {

constexpr Position kTreeSlots = 256;  // of the draft's cache, beyond the text
constexpr std::size_t kMaxPromptFileBytes = std::size_t{64} << 20;

// Answers that end at once would be equal whatever decoding did: shorter ones on average fail.
constexpr std::uint64_t kLeastMeanAnswer = 8;

struct LosslessOptions {
  std::string target;
  std::string draft;
  std::string prompts;
  std::string dtype = "auto";
  std::vector<int> lens = {1, 2, 4, 8, 16};
  std::vector<double> temps = {0, 0.7, 1.0};
  int max_tokens = 128;
  std::size_t num_prompts = 0;
  int jobs = 2;
};

// One thread each: the jobs fill the cores.
Result<std::unique_ptr<Model>> load(const std::string& directory, const std::string& dtype) {
  LoadOptions options;
  options.directory = directory;
  options.dtype = dtype;
  options.threads = 1;
  return load_model(options);
}

// What all jobs share.
struct World {
  const LosslessOptions& options;
  const Tokenizer& tokenizer;
  const ServerProcess& server;
  VerifyEngine& resident;
  const Position max_positions;
  SystemClock clock;

  std::atomic<std::size_t> next_case{0};
  std::mutex mu = {};  // guards what follows
  std::uint64_t compared = 0;
  std::uint64_t mismatches = 0;
  std::uint64_t tokens = 0;
  Status failure = {};

  void compare(const std::string& what, const std::vector<TokenId>& wanted,
               const std::vector<TokenId>& got) {
    const std::lock_guard lock(mu);
    ++compared;
    tokens += got.size();
    if (wanted == got) return;
    ++mismatches;
    const auto [at, ignored] = std::mismatch(wanted.begin(), wanted.end(), got.begin(), got.end());
    std::fprintf(stderr, "mismatch: %s, first at token %td of %zu\n", what.c_str(),
                 at - wanted.begin(), wanted.size());
  }
};

class NoText final : public AnswerText {
 public:
  Update push(TokenId) override { return {}; }
  std::string finish() override { return ""; }
};

class NoListener final : public AnswerListener {
 public:
  void on_emit(const Emit&) override {}
  void on_say(const Say&) override {}
  void on_prefill(const PrefillProgress&) override {}
};

// One prompt at one temperature.
struct Case {
  std::string name;
  std::vector<TokenId> prompt;
  SamplingParams sampling;
  std::uint64_t seed = 0;
};

// One edge: a draft model and its thread, a link to the server.
class Job final {
 public:
  static Result<std::unique_ptr<Job>> create(World& world) {
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<Model> draft, load(world.options.draft, "auto"));
    const auto capacity = static_cast<std::int32_t>(world.max_positions + kTreeSlots);
    OUTRIDER_ASSIGN_OR_RETURN(std::unique_ptr<DraftEngine> engine,
                              DraftEngine::create(*draft, world.clock, capacity));
    return std::unique_ptr<Job>(new Job(world, std::move(draft), std::move(engine)));
  }

  Status run(const Case& one) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> wanted, decode(remote_, one, 0));
    OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> resident, decode(resident_, one, 0));
    world_.compare(one.name + ", resident", wanted, resident);
    for (const int length : world_.options.lens) {
      const std::string name = one.name + ", length " + std::to_string(length);
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> drafted, decode(remote_, one, length));
      world_.compare(name, wanted, drafted);
      OUTRIDER_ASSIGN_OR_RETURN(const std::vector<TokenId> treed, with_trees(one, wanted, length));
      world_.compare(name + ", trees", wanted, treed);
    }
    return {};
  }

 private:
  Job(World& world, std::unique_ptr<Model> draft, std::unique_ptr<DraftEngine> engine)
      : world_(world),
        draft_(std::move(draft)),
        worker_(std::move(engine)),
        remote_({.server = world.server.address()}),
        resident_(world.resident) {}

  Position end_of(const Case& one) const {
    return static_cast<Position>(one.prompt.size()) + world_.options.max_tokens;
  }

  // length 0: plain cloud decoding.
  Result<std::vector<TokenId>> decode(Verifier& verifier, const Case& one, int length) {
    std::unique_ptr<GrowthPolicy> policy;
    if (length > 0) policy = std::make_unique<ChainPolicy>(length);
    Drafter drafter(
        {.max_positions = world_.max_positions, .vocab_size = draft_->info().vocab_size},
        std::move(policy));
    DecodingOptions decoding;
    decoding.strategy = length > 0 ? Strategy::kSd : Strategy::kAr;
    decoding.tokenizer_hash = world_.tokenizer.content_hash();
    decoding.token_bound = world_.tokenizer.vocab_size();
    decoding.sampling = one.sampling;
    decoding.seed = one.seed;
    decoding.end_position = end_of(one);
    NoText text;
    NoListener listener;
    DecodingSession session(decoding, one.prompt, drafter, text);
    Runner runner(verifier, length > 0 ? &worker_ : nullptr, world_.clock, listener);
    const Finish finish = runner.run(session, {.sampling = one.sampling, .seed = one.seed});
    if (!finish.status.ok()) return finish.status.with_context(one.name);
    return session.answer();
  }

  Result<std::vector<TokenId>> with_trees(const Case& one, const std::vector<TokenId>& right,
                                          int length) {
    TreeScript script;
    script.open.tokenizer_hash = world_.tokenizer.content_hash();
    script.open.sampling = one.sampling;
    script.open.seed = one.seed;
    script.open.prefix = one.prompt;
    script.open.end_position = end_of(one);
    script.right = right;
    script.chain_length = length;
    script.vocab_size = world_.tokenizer.vocab_size();
    script.seed = one.seed * 31 + static_cast<std::uint64_t>(length);
    return answer_with_trees(remote_, script);
  }

  World& world_;
  const std::unique_ptr<Model> draft_;
  DraftWorker worker_;
  RemoteVerifier remote_;
  ResidentVerifier resident_;
};

// The prompt as `outrider-edge run` puts it: a model that was trained on conversations answers a
// bare question with its end.
Result<std::vector<TokenId>> encode_prompt(const Tokenizer& tokenizer, const std::string& prompt) {
  if (tokenizer.chat_template_source().empty()) return tokenizer.encode(prompt);
  OUTRIDER_ASSIGN_OR_RETURN(const ChatTemplate chat, ChatTemplate::choose(tokenizer, ""));
  return chat.encode_chat(tokenizer, {{ChatRole::kUser, prompt}});
}

Result<std::vector<Case>> read_cases(const LosslessOptions& options, const Tokenizer& tokenizer,
                                     Position max_positions) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text,
                            read_file(options.prompts, kMaxPromptFileBytes));
  std::vector<Case> cases;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    if (line.empty()) continue;
    if (options.num_prompts > 0 && number == options.num_prompts) break;
    ++number;
    const std::string name = options.prompts + ":" + std::to_string(number);
    OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(line, name));
    const auto prompt = json.find("prompt");
    if (!json.is_object() || prompt == json.end() || !prompt->is_string()) {
      return invalid_argument(name + ": expected an object with \"prompt\", a string");
    }
    OUTRIDER_ASSIGN_OR_RETURN(std::vector<TokenId> ids,
                              encode_prompt(tokenizer, prompt->get<std::string>()));
    if (static_cast<Position>(ids.size()) + options.max_tokens > max_positions) {
      return invalid_argument(name + ": " + std::to_string(ids.size()) + " tokens and " +
                              std::to_string(options.max_tokens) +
                              " of answer, but the context holds " + std::to_string(max_positions));
    }
    for (const double temperature : options.temps) {
      SamplingParams sampling;
      sampling.temperature = static_cast<float>(temperature);
      cases.push_back({name + ", T " + std::to_string(temperature), ids, sampling, number});
    }
  }
  if (cases.empty()) return invalid_argument(options.prompts + ": holds no prompt");
  return cases;
}

void work(World& world, const std::vector<Case>& cases) {
  Result<std::unique_ptr<Job>> job = Job::create(world);
  Status status = job.status();
  while (status.ok()) {
    const std::size_t next = world.next_case++;
    if (next >= cases.size()) return;
    status = (*job)->run(cases[next]);
    const std::lock_guard lock(world.mu);
    std::fprintf(stderr, "\rlossless: %zu of %zu cases, %llu compared, %llu mismatches ", next + 1,
                 cases.size(), static_cast<unsigned long long>(world.compared),
                 static_cast<unsigned long long>(world.mismatches));
  }
  world.next_case = cases.size();  // the others stop too
  const std::lock_guard lock(world.mu);
  world.failure = status;
}

Result<CheckOutcome> run_lossless(const LosslessOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(options.target));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> target,
                            load(options.target, options.dtype));
  const std::vector<std::string> arguments = {"--model",
                                              options.target,
                                              "--dtype",
                                              options.dtype,
                                              "--max-concurrent-sessions",
                                              std::to_string(2 * options.jobs)};
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<ServerProcess> server,
                            ServerProcess::start(arguments));
  SystemClock clock;
  SchedulerOptions scheduling;
  scheduling.tokenizer_hash = tokenizer.content_hash();
  VerifyEngine resident(*target, scheduling, clock);
  const Position max_positions = target->info().max_positions;
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<Case> cases,
                            read_cases(options, tokenizer, max_positions));
  World world{options, tokenizer, *server, resident, max_positions, {}};
  std::vector<std::thread> threads;
  threads.reserve(static_cast<std::size_t>(options.jobs));
  for (int i = 0; i < options.jobs; ++i) threads.emplace_back([&] { work(world, cases); });
  for (std::thread& thread : threads) thread.join();
  std::fprintf(stderr, "\n");
  OUTRIDER_RETURN_IF_ERROR(world.failure);
  CheckOutcome outcome;
  const std::uint64_t least =
      std::min(kLeastMeanAnswer, static_cast<std::uint64_t>(options.max_tokens));
  const bool long_enough = world.tokens >= least * world.compared;
  if (!long_enough) {
    std::fprintf(stderr, "lossless: answers of fewer than %llu tokens on average prove nothing\n",
                 static_cast<unsigned long long>(least));
  }
  outcome.passed = world.mismatches == 0 && world.compared > 0 && long_enough;
  outcome.figures = {{"compared", world.compared},
                     {"mismatches", world.mismatches},
                     {"cases", cases.size()},
                     {"tokens", world.tokens},
                     {"arithmetic_id", target->info().arithmetic_id}};
  return outcome;
}

}  // namespace

void add_lossless_check(CheckList& checks) {
  auto options = std::make_shared<LosslessOptions>();
  CLI::App* command = checks.add(
      "lossless", "Speculative decoding over gRPC gives the target's text, token by token",
      [options] { return run_lossless(*options); });
  command->add_option("--target", options->target, "Directory of the target")->required();
  command->add_option("--draft", options->draft, "Directory of the draft")->required();
  command->add_option("--prompts", options->prompts, "JSONL file with \"prompt\"")->required();
  command->add_option("--lens", options->lens, "Draft lengths")->delimiter(',');
  command->add_option("--temps", options->temps, "Temperatures")->delimiter(',');
  command->add_option("--max-tokens", options->max_tokens, "Tokens of each answer")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--num-prompts", options->num_prompts, "Only the first ones; 0: all");
  command->add_option("--dtype", options->dtype, "How the target computes: auto, f32, bf16, int8");
  command->add_option("--jobs", options->jobs, "Edges at once")->check(CLI::Range(1, 64));
}

}  // namespace outrider
