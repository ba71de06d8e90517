// acceptance: how many tokens a target pass yields with a draft's chains, over real gRPC.
//
// A model that runs into a loop is easily guessed: each answer is cut where an 8-gram first comes
// again, and decoding is asked for that many tokens only.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>

#include "bench/checks/checks.h"
#include "bench/edges/bench_edge.h"
#include "bench/process/server_process.h"
#include "bench/prompts/prompts.h"
#include "common/conversation/repetition.h"
#include "common/model/format/config.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {
namespace {

struct AcceptanceOptions {
  std::string target;
  std::string draft;
  std::string prompts;
  std::string dtype = "auto";
  int draft_length = 4;
  double temperature = 0;
  int max_tokens = 160;
  std::size_t num_prompts = 0;
  double least = 0;
};

struct Totals {
  std::uint64_t tokens = 0, passes = 0, drafted = 0, accepted = 0, answers = 0, cut = 0;
};

Status add_answer(BenchEdge& edge, Verifier& verifier, BenchRequest request, int draft_length,
                  Totals& totals) {
  OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer plain, edge.decode(verifier, request));
  const std::size_t length = length_before_repetition(plain.ids);
  if (length == 0) return {};
  request.max_tokens = static_cast<Position>(length);
  request.draft_length = draft_length;
  OUTRIDER_ASSIGN_OR_RETURN(const BenchAnswer drafted, edge.decode(verifier, request));
  if (!std::equal(drafted.ids.begin(), drafted.ids.end(), plain.ids.begin(),
                  plain.ids.begin() + static_cast<std::ptrdiff_t>(length))) {
    return internal_error(request.name + ": the drafted answer differs from the plain one");
  }
  totals.tokens += drafted.stats.completion_tokens;
  totals.passes += drafted.stats.passes;
  totals.drafted += drafted.stats.num_draft_tokens;
  totals.accepted += drafted.stats.num_accepted_tokens;
  totals.answers += 1;
  totals.cut += length < plain.ids.size() ? 1 : 0;
  return {};
}

Json figures_of(const Totals& totals, const AcceptanceOptions& options) {
  const auto ratio = [](std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
  };
  return {{"tokens_per_pass", ratio(totals.tokens, totals.passes)},
          {"acceptance_rate", ratio(totals.accepted, totals.drafted)},
          {"answers", totals.answers},
          {"cut_at_a_loop", totals.cut},
          {"tokens", totals.tokens},
          {"passes", totals.passes},
          {"draft_length", options.draft_length},
          {"temperature", options.temperature}};
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
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::unique_ptr<BenchEdge> edge,
      BenchEdge::create(options.draft, tokenizer, config.max_positions, clock));
  RemoteVerifier verifier({.server = server->address()});
  Totals totals;
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    BenchRequest request;
    request.name = prompts[i].name;
    request.prompt = prompts[i].ids;
    request.sampling.temperature = static_cast<float>(options.temperature);
    request.seed = i + 1;
    request.max_tokens = options.max_tokens;
    OUTRIDER_RETURN_IF_ERROR(add_answer(*edge, verifier, request, options.draft_length, totals));
    std::fprintf(stderr, "\racceptance: %zu of %zu prompts ", i + 1, prompts.size());
  }
  std::fprintf(stderr, "\n");
  CheckOutcome outcome;
  outcome.figures = figures_of(totals, options);
  outcome.passed = totals.tokens > 0 && outcome.figures["tokens_per_pass"] >= options.least;
  return outcome;
}

}  // namespace

void add_acceptance_check(CheckList& checks) {
  auto options = std::make_shared<AcceptanceOptions>();
  CLI::App* command = checks.add("acceptance", "Tokens per target pass with a draft's chains",
                                 [options] { return run_acceptance(*options); });
  command->add_option("--target", options->target, "Directory of the target")->required();
  command->add_option("--draft", options->draft, "Directory of the draft")->required();
  command->add_option("--prompts", options->prompts, "JSONL file with \"prompt\"")->required();
  command->add_option("--spec-draft-n-max", options->draft_length, "Length of the chains")
      ->check(CLI::Range(1, 32));
  command->add_option("--temp", options->temperature, "Temperature")->check(CLI::NonNegativeNumber);
  command->add_option("--max-tokens", options->max_tokens, "Tokens of each answer")
      ->check(CLI::Range(1, 1'000'000));
  command->add_option("--num-prompts", options->num_prompts, "Only the first ones; 0: all");
  command->add_option("--dtype", options->dtype, "How the target computes: auto, f32, bf16, int8");
  command->add_option("--least", options->least, "The bar: tokens per pass");
}

}  // namespace outrider
