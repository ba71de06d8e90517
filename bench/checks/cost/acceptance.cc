// acceptance: how many tokens a target pass yields with a draft's chains, over real gRPC: of a
// draft model, of look-up, and of both in one tree.
//
// They are compared with the simplest look-up, of the last three tokens in prompt and answer. A
// loop of the model would be easy to guess. So each answer is cut off where an 8-gram occurs a
// second time, and decoding is asked for that many tokens only. Look-up remembers the answers
// before. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "adapters/answers/acceptance.h"
#include "bench/checks/checks.h"
#include "bench/edges/bench_edge.h"
#include "bench/harness/grid_flags.h"
#include "bench/peers/pass_timer.h"
#include "bench/stats/statistics.h"
#include "common/base/status.h"
#include "common/decoding/drafting/lookup/lookup_model.h"
#include "common/engine/model/format/model_files.h"
#include "common/serving/conversation/repetition.h"
#include "edge_client/verifiers/remote.h"
#include "emulation/process/server_process.h"

namespace outrider {
namespace {

// The time of a draft's step relative to a target's pass of one row, on this machine.

struct StepShareOptions {
  std::string draft, target;
  std::string draft_dtype = "auto", dtype = "auto";
  int threads = 2;  // of each model
};

constexpr int kContext = 128;
constexpr int kRounds = 41;
// The ratio of the medians, draft over target; the two take turns.

Result<Estimate> measure_step_share(const StepShareOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> draft,
                            load_bench_model(options.draft, options.draft_dtype, options.threads));
  OUTRIDER_ASSIGN_OR_RETURN(const std::unique_ptr<Model> target,
                            load_bench_model(options.target, options.dtype, options.threads));
  OUTRIDER_ASSIGN_OR_RETURN(PassTimer steps, PassTimer::make(*draft, kContext + 1));
  OUTRIDER_ASSIGN_OR_RETURN(PassTimer passes, PassTimer::make(*target, kContext + 1));
  std::vector<double> step_seconds, pass_seconds;
  for (int round = 0; round <= kRounds; ++round) {
    OUTRIDER_ASSIGN_OR_RETURN(const double step, steps.time_pass(1, kContext));
    OUTRIDER_ASSIGN_OR_RETURN(const double pass, passes.time_pass(1, kContext));
    if (round == 0) continue;  // warm-up
    step_seconds.push_back(step);
    pass_seconds.push_back(pass);
  }
  const std::optional<Estimate> share = ratio_of_medians(pass_seconds, step_seconds);
  if (!share) return failed_precondition("the target's passes took no time");
  return *share;
}

// The time of a look-up query, in microseconds.

constexpr std::size_t kSearched = 32768;  // tokens
constexpr std::size_t kQueries = 64;      // that are timed together

// In a text that is the prompts over and over, so that each query has many places to compare.
Estimate median_query_us(const std::vector<BenchPrompt>& prompts) {
  std::vector<TokenId> text;
  for (std::size_t i = 0; text.size() < kSearched; ++i) {
    const std::vector<TokenId>& ids = prompts[i % prompts.size()].ids;
    text.insert(text.end(), ids.begin(), ids.end());
  }
  LookUp look_up(text.size() + 1);
  look_up.begin(text);
  SystemClock clock;
  std::vector<double> us;
  std::size_t found = 0;
  for (std::size_t begin = kQueries; begin + kQueries <= text.size(); begin += kQueries) {
    const TimePoint started = clock.now();
    for (std::size_t end = begin; end < begin + kQueries; ++end) {
      const auto tail = std::span(text).first(end).last(MatchFinder::kMaxLength);
      found += look_up.guesses(tail, 2).size();
    }
    us.push_back(to_seconds(clock.now() - started) * 1e6 / kQueries);
  }
  OUTRIDER_CHECK(found >= us.size() * kQueries);
  return *median(us);
}

struct AcceptanceOptions {
  std::string target;
  std::string draft;
  std::string prompts = kPromptSets;
  std::string dtype = "auto", draft_dtype = "auto";
  int draft_length = 4;
  double temperature = 0;
  int max_tokens = 160;
  std::size_t num_prompts = 0;
  int threads = 2;
  std::optional<double> least, most_step_share, most_query_us;
};

// Fewer answers say nothing of a gain of a hundredth.
constexpr std::size_t kMinAnswers = 8;

// By what drafts.
enum Source : std::size_t { kModel, kLookup, kBoth, kSources };
constexpr std::array<const char*, kSources> kSourceNames = {"model", "lookup", "both"};

struct Totals {
  std::uint64_t cut = 0;
  std::vector<double> tokens;                        // [answer]
  std::array<std::vector<double>, kSources> passes;  // [answer]
  std::vector<double> simple_passes;                 // [answer]
  std::array<std::uint64_t, kSources> drafted{}, accepted{};
};

using Edges = std::array<std::unique_ptr<BenchEdge>, kSources>;

Status add_answer(const Edges& edges, Verifier& verifier, BenchRequest request, int draft_length,
                  Totals& totals) {
  OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer plain, edges[kModel]->decode(verifier, request));
  const std::size_t length = length_before_repetition(plain.ids);
  if (length == 0) return {};
  request.max_tokens = static_cast<Position>(length);
  request.draft_length = draft_length;
  const std::vector<TokenId> wanted(plain.ids.begin(),
                                    plain.ids.begin() + static_cast<std::ptrdiff_t>(length));
  for (std::size_t source = 0; source < kSources; ++source) {
    OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer drafted, edges[source]->decode(verifier, request));
    if (drafted.ids != wanted) {
      return internal_error(request.name + ": the answer drafted by " + kSourceNames[source] +
                            " differs from the plain one");
    }
    totals.passes[source].push_back(static_cast<double>(drafted.stats.passes));
    totals.drafted[source] += drafted.stats.num_draft_tokens;
    totals.accepted[source] += drafted.stats.num_accepted_tokens;
  }
  totals.tokens.push_back(static_cast<double>(length));
  totals.simple_passes.push_back(
      static_cast<double>(passes_by_look_up(request.prompt, wanted, draft_length)));
  totals.cut += length < plain.ids.size() ? 1 : 0;
  return {};
}

double sum_of(const std::vector<double>& counts) {
  return std::accumulate(counts.begin(), counts.end(), 0.0);
}

// The ratio of the sums of two counts of the same answers.
std::optional<Estimate> ratio_of_sums(const std::vector<double>& counts,
                                      const std::vector<double>& base) {
  return bootstrap(counts.size(),
                   [&](std::span<const std::size_t> indices) -> std::optional<double> {
                     double sum = 0, base_sum = 0;
                     for (const std::size_t answer : indices) {
                       sum += counts[answer];
                       base_sum += base[answer];
                     }
                     return base_sum > 0 ? std::optional(sum / base_sum) : std::nullopt;
                   });
}

// The tokens per pass that both together yield beyond the better of the two.
std::optional<Estimate> gain_of_both(const Totals& totals) {
  return bootstrap(
      totals.tokens.size(), [&](std::span<const std::size_t> indices) -> std::optional<double> {
        double tokens = 0;
        std::array<double, kSources> passes{};
        for (const std::size_t answer : indices) {
          tokens += totals.tokens[answer];
          for (std::size_t i = 0; i < kSources; ++i) {
            passes[i] += totals.passes[i][answer];
          }
        }
        return tokens / passes[kBoth] - tokens / std::min(passes[kModel], passes[kLookup]);
      });
}

Result<CheckOutcome> judge(const Totals& totals, const AcceptanceOptions& options,
                           const std::vector<BenchPrompt>& prompts) {
  if (totals.tokens.empty()) return failed_precondition("no answer has a token");
  CheckOutcome outcome;
  outcome.passed = true;
  outcome.figures = {
      {"answers", totals.tokens.size()},
      {"cut_at_a_loop", totals.cut},
      {"tokens", sum_of(totals.tokens)},
      {"by_simple_look_up", to_json(*ratio_of_sums(totals.tokens, totals.simple_passes))},
      {"draft_length", options.draft_length},
      {"temperature", options.temperature}};
  for (std::size_t source = 0; source < kSources; ++source) {
    outcome.figures[kSourceNames[source]] = {
        {"tokens_per_pass", to_json(*ratio_of_sums(totals.tokens, totals.passes[source]))},
        {"passes", sum_of(totals.passes[source])},
        {"acceptance_rate", static_cast<double>(totals.accepted[source]) /
                                std::max(1.0, static_cast<double>(totals.drafted[source]))}};
  }
  std::vector<Bar> bars = {
      {"model over simple look-up", *ratio_of_sums(totals.simple_passes, totals.passes[kModel]), 1},
      {"look-up over simple look-up", *ratio_of_sums(totals.simple_passes, totals.passes[kLookup]),
       1}};
  if (totals.tokens.size() >= kMinAnswers) {
    bars.push_back({"tokens of both beyond the better one's", *gain_of_both(totals), -0.02});
  }
  if (options.least) {
    const std::optional<Estimate> per_pass = ratio_of_sums(totals.tokens, totals.passes[kModel]);
    bars.push_back({"tokens per pass", *per_pass, *options.least});
  }
  if (options.most_step_share) {
    OUTRIDER_ASSIGN_OR_RETURN(
        const Estimate share,
        measure_step_share(
            {options.draft, options.target, options.draft_dtype, options.dtype, options.threads}));
    bars.push_back({"draft step over pass", share, *options.most_step_share, Bar::Side::kAtMost});
  }
  if (options.most_query_us) {
    bars.push_back({"microseconds of a look-up query", median_query_us(prompts),
                    *options.most_query_us, Bar::Side::kAtMost});
  }
  if (!options.least) outcome.mark_inconclusive("tokens per pass have no bar. Remedy: --least");
  outcome.hold(bars);
  return outcome;
}

Result<Edges> make_edges(const AcceptanceOptions& options, const Tokenizer& tokenizer,
                         Position positions, Clock& clock) {
  Edges edges;
  for (const Source source : {kModel, kLookup, kBoth}) {
    std::unique_ptr<Model> draft;
    if (source == kLookup) {
      draft = std::make_unique<LookupModel>(LookupOptions{.vocab_size = tokenizer.vocab_size()});
    } else {
      OUTRIDER_ASSIGN_OR_RETURN(draft, load_bench_model(options.draft, options.draft_dtype, 1));
    }
    OUTRIDER_ASSIGN_OR_RETURN(edges[source],
                              BenchEdge::create(std::move(draft), tokenizer, positions, clock));
  }
  OUTRIDER_RETURN_IF_ERROR(edges[kBoth]->guess_beside_by_lookup());
  return edges;
}

Result<CheckOutcome> run_acceptance(const AcceptanceOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(options.target));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts,
                            read_prompts(options.prompts, tokenizer, options.num_prompts));
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<ServerProcess> server,
      ServerProcess::start({"--model", options.target, "--dtype", options.dtype}));
  OUTRIDER_ASSIGN_OR_RETURN(const ModelConfig config, load_config(options.target));
  SystemClock clock;
  OUTRIDER_ASSIGN_OR_RETURN(const Edges edges,
                            make_edges(options, tokenizer, config.max_positions, clock));
  RemoteVerifier verifier({.server = server->address()});
  Totals totals;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    BenchRequest request;
    request.name = prompts[i].name;
    request.prompt = prompts[i].ids;
    request.sampling.temperature = static_cast<float>(options.temperature);
    request.seed = i + 1;
    request.max_tokens = options.max_tokens;
    OUTRIDER_RETURN_IF_ERROR(add_answer(edges, verifier, request, options.draft_length, totals));
    std::fprintf(stderr, "\racceptance: %zu of %zu prompts ", i + 1, prompts.size());
  }
  std::fprintf(stderr, "\n");
  return judge(totals, options, prompts);
}

}  // namespace

void add_acceptance_check(CheckList& checks) {
  auto options = std::make_shared<AcceptanceOptions>();
  CLI::App* command = checks.add(
      "acceptance", "Tokens per target pass with chains of a draft model, of look-up, of both",
      [options] { return run_acceptance(*options); });
  command->add_option("--target", options->target, "Target: a directory or a GGUF file")
      ->required();
  command->add_option("--draft", options->draft, "Draft: a directory or a GGUF file")->required();
  add_prompts_flag(*command, options->prompts);
  command->add_option("--spec-draft-n-max", options->draft_length, "Length of the chains")
      ->check(CLI::Range(1, 32));
  command->add_option("--temp", options->temperature, "Temperature")->check(CLI::NonNegativeNumber);
  command->add_option("--max-tokens", options->max_tokens, "Tokens of each answer")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--num-prompts", options->num_prompts, "Only the first N prompts; 0: all");
  command->add_option("--dtype", options->dtype,
                      "How the target computes: auto, f32, bf16, int8, int4");
  command->add_option("--draft-dtype", options->draft_dtype, "How the draft computes");
  command->add_option("--least", options->least, "The bar: tokens per pass");
  command->add_option("--most-step-share", options->most_step_share,
                      "Also time both models; the bar: a draft's step over a pass of one row");
  command->add_option("--most-query-us", options->most_query_us,
                      "Also time look-up in 32,768 tokens; the bar: microseconds of a query");
  command->add_option("--threads", options->threads, "With --most-step-share: of each model")
      ->check(CLI::Range(1, 256));
}

}  // namespace outrider
