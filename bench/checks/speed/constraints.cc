// constraints: what forms of answers cost on a tokenizer's vocabulary. How long schemas take to
// compile, and how long the mask of a token takes, over answers drawn from what the forms allow.
// --pass-ms names the pass beside which the mask's time counts. SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/check.h"
#include "bench/checks/checks.h"
#include "bench/stats/statistics.h"
#include "common/base/clock.h"
#include "common/base/files.h"
#include "common/engine/constraint/constraint_compiler.h"
#include "common/engine/sampling/row_adjuster.h"
#include "common/engine/sampling/sampling.h"
#include "common/engine/text/tokenizer.h"
#include "emulation/random/random.h"

namespace outrider {
namespace {

constexpr double kMaxCompileMs = 100;  // in the median
constexpr double kMaxLateCompileMs = 500;
constexpr double kMaxKeptMs = 1;
constexpr double kMaxShareOfPass = 0.03;
constexpr std::int64_t kMaxFileBytes = 64 << 20;

struct ConstraintFlags {
  std::string model;
  std::string schemas = "bench/schemas/schemas.jsonl";
  std::uint64_t seed = 1;
  int tokens = 60;  // of an answer
  double pass_ms = 0;
};

struct Times {
  std::vector<double> compile_ms, kept_ms, mask_ms;
};

Result<std::vector<std::string>> read_schemas(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  std::vector<std::string> schemas;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const auto line =
        nlohmann::ordered_json::parse(text.substr(begin, end - begin), nullptr, false);
    if (!line.is_object() || !line.contains("schema")) {
      return invalid_argument(path + ": each line must be an object with a schema");
    }
    schemas.push_back(line["schema"].dump());
    begin = end + 1;
  }
  return schemas;
}

double ms_of(const auto& work) {
  const TimePoint begin = SystemClock().now();
  work();
  return to_ms(SystemClock().now() - begin);
}

// An answer by the law of choice over logits that say nothing: each token costs a row's adjustment.
void time_answer(const AnswerConstraint& form, std::int32_t vocab, const ConstraintFlags& flags,
                 Times& times) {
  SeededRandom random(flags.seed);
  RowAdjuster adjuster({.constraint = form}, 0, {});
  std::vector<float> row(static_cast<std::size_t>(vocab)), out;
  for (float& logit : row) logit = static_cast<float>(random.uniform());
  for (int i = 0; i < flags.tokens; ++i) {
    std::span<const float> adjusted;
    double took = ms_of([&] { adjusted = adjuster.adjust(row, {}, out); });
    const TokenId next = choose(adjusted, {.temperature = 1}, flags.seed, i);
    if (adjusted[static_cast<std::size_t>(next)] < 0) return;  // the answer is complete
    took += ms_of([&] { adjuster.append({&next, 1}); });
    times.mask_ms.push_back(took);
  }
}

Result<CheckOutcome> run_constraints(const ConstraintFlags& flags) {
  OUTRIDER_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::load(flags.model));
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string> schemas, read_schemas(flags.schemas));
  ConstraintCompiler compiler([&] { return grammar_vocabulary(tokenizer); });
  // The vocabulary is sorted once.
  const double first_ms = ms_of([&] {
    (void)compiler.compile({ConstraintKind::kRegex, "a"}).ok();
  });
  Times times;
  for (const std::string& schema : schemas) {
    const ConstraintSpec spec{ConstraintKind::kJsonSchema, schema};
    Result<AnswerConstraint> form = internal_error("not compiled yet");
    times.compile_ms.push_back(ms_of([&] { form = compiler.compile(spec); }));
    if (!form.ok()) return form.status().with_context(schema);
    times.kept_ms.push_back(ms_of([&] { (void)compiler.find(spec); }));
    time_answer(*form, tokenizer.vocab_size(), flags, times);
  }
  CheckOutcome outcome;
  outcome.figures = {{"schemas", schemas.size()},
                     {"vocabulary", tokenizer.vocab_size()},
                     {"tokens", times.mask_ms.size()},
                     {"first_form_ms", first_ms},
                     {"compile_ms_p50", quantile(times.compile_ms, 0.5)},
                     {"compile_ms_p95", quantile(times.compile_ms, 0.95)},
                     {"compile_ms_max", std::ranges::max(times.compile_ms)},
                     {"mask_ms_p50", quantile(times.mask_ms, 0.5)},
                     {"mask_ms_p99", quantile(times.mask_ms, 0.99)}};
  std::vector<Bar> bars = {{"ms to compile, median", sample_quantile(times.compile_ms, 0.5),
                            kMaxCompileMs, Bar::Side::kAtMost},
                           {"ms to compile, p95", sample_quantile(times.compile_ms, 0.95),
                            kMaxLateCompileMs, Bar::Side::kAtMost},
                           {"ms where it is kept, p95", sample_quantile(times.kept_ms, 0.95),
                            kMaxKeptMs, Bar::Side::kAtMost}};
  if (flags.pass_ms > 0) {
    Estimate share = sample_quantile(times.mask_ms, 0.5);
    share.value /= flags.pass_ms;
    if (share.interval) {
      share.interval->low /= flags.pass_ms;
      share.interval->high /= flags.pass_ms;
    }
    bars.push_back({"mask and step of a pass, median", share, kMaxShareOfPass, Bar::Side::kAtMost});
  }
  outcome.passed = true;
  outcome.hold(bars);
  return outcome;
}

}  // namespace

void add_constraints_check(CheckList& checks) {
  auto options = std::make_shared<ConstraintFlags>();
  CLI::App* command =
      checks.add("constraints", "What forms of answers cost: compiling schemas, masking rows",
                 [options] { return run_constraints(*options); });
  command->add_option("--model", options->model, "Whose tokenizer: a directory or a GGUF file")
      ->required();
  command->add_option("--schemas", options->schemas, "A JSON lines file, each line with a schema");
  command->add_option("--seed", options->seed, "Of the answers that are drawn");
  command->add_option("--tokens", options->tokens, "Most tokens of an answer")
      ->check(CLI::Range(1, 10'000));
  command->add_option("--pass-ms", options->pass_ms, "A pass of the model, in milliseconds");
}

}  // namespace outrider
