// Draws of choose() against the filtered softmax, by Pearson's chi-squared test; Philox against the
// known answers of its authors; choose() and rank() against their full evaluation, in result and,
// if asked for, in time. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bench/checks/checks.h"
#include "bench/choice/choice_comparison.h"
#include "bench/choice/choice_speed.h"
#include "bench/choice/noise_words.h"
#include "common/engine/sampling/philox.h"
#include "common/engine/sampling/sampling.h"

namespace outrider {
namespace {

struct ChoiceFlags {
  std::int64_t draws = 1'000'000;
  std::uint64_t seed = 1;
  std::int64_t rows = 100'000;
  bool every_word = false;
  bool speed = false;
  ChoiceSpeedOptions timed;
};

constexpr double kLowestP = 0.001;
constexpr int kVocab = 200;

constexpr std::array<SamplingParams, 8> kSettings = {{
    {.temperature = 1.0f},
    {.temperature = 0.7f},
    {.temperature = 3.0f},
    {.temperature = 1.0f, .top_k = 20},
    {.temperature = 1.0f, .top_p = 0.9f},
    {.temperature = 1.5f, .min_p = 0.05f},
    {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .min_p = 0.01f},
    {.temperature = 100.0f, .top_k = 7},
}};

struct KnownAnswer {
  PhiloxCounter counter;
  PhiloxKey key;
  PhiloxCounter answer;
};

// kat_vectors of the Random123 distribution: zeros, ones, digits of pi.
constexpr std::array<KnownAnswer, 3> kKnownAnswers = {{
    {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
    {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
     {0xffffffff, 0xffffffff},
     {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
    {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
     {0xa4093822, 0x299f31d0},
     {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
}};

// Logits like a model's: a few likely tokens, a long tail, and ties.
std::vector<float> sample_logits() {
  std::vector<float> logits;
  for (std::uint32_t token = 0; token < kVocab; ++token) {
    const double spread = philox({token, 0, 0, 0}, {7, 7})[0] * 0x1p-32;
    logits.push_back(static_cast<float>(std::round(-30.0 * std::log(1.0 - spread)) / 16.0));
  }
  return logits;
}

// So that the report prints 0.7f as 0.7.
double decimal(float x) {
  return std::round(double{x} * 1e6) / 1e6;
}

// The law in plain f64, by its definition in sampling.h, without any of the code under test.
std::vector<double> filtered_softmax(const std::vector<float>& logits,
                                     const SamplingParams& params) {
  std::vector<std::size_t> order(logits.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return logits[a] > logits[b]; });
  if (params.top_k > 0) {
    order.resize(std::min(order.size(), static_cast<std::size_t>(params.top_k)));
  }
  std::vector<double> probabilities(logits.size(), 0.0);
  double total = 0;
  for (const std::size_t token : order) {
    const double below = double{logits[token]} - double{logits[order[0]]};
    total += probabilities[token] = std::exp(below / double{params.temperature});
  }
  double before = 0;
  double kept = 0;
  for (const std::size_t token : order) {
    double& p = probabilities[token];
    const bool in_nucleus = before == 0 || before < double{params.top_p} * total;
    before += p;
    if (!in_nucleus || p < double{params.min_p}) p = 0;
    kept += p;
  }
  for (double& p : probabilities) p /= kept;
  return probabilities;
}

// The upper tail of the chi-squared distribution: Q(degrees / 2, x / 2), the regularised
// incomplete gamma function, by its series or its continued fraction (DLMF 8.7.1, 8.9.2).
double chi_squared_tail(double x, int degrees) {
  const double a = degrees / 2.0;
  const double z = x / 2.0;
  if (z <= 0) return 1.0;
  const double front = std::exp(a * std::log(z) - z - std::lgamma(a));
  if (z < a + 1.0) {
    double term = 1.0 / a;
    double sum = term;
    for (double n = a + 1.0; term > sum * 1e-15; n += 1.0) sum += term *= z / n;
    return 1.0 - front * sum;
  }
  double b = z + 1.0 - a;
  double c = 1e300;
  double d = 1.0 / b;
  double fraction = d;
  for (int n = 1; n < 1000; ++n) {
    const double step = -n * (n - a);
    b += 2.0;
    d = 1.0 / (step * d + b);
    c = b + step / c;
    fraction *= c * d;
    if (std::abs(c * d - 1.0) < 1e-15) break;
  }
  return front * fraction;
}

// The p-value of the counts under the probabilities. Cells that expect fewer than ten draws are
// merged into one. A draw of probability 0 gives p = 0.
double goodness_of_fit(const std::vector<std::int64_t>& counts,
                       const std::vector<double>& probabilities, std::int64_t draws) {
  double statistic = 0;
  double rare_expected = 0;
  double rare_count = 0;
  int cells = 0;
  const auto add_cell = [&](double count, double expected) {
    statistic += (count - expected) * (count - expected) / expected;
    ++cells;
  };
  for (std::size_t token = 0; token < counts.size(); ++token) {
    const double expected = probabilities[token] * static_cast<double>(draws);
    const auto count = static_cast<double>(counts[token]);
    if (expected == 0 && count > 0) return 0;
    if (expected >= 10) {
      add_cell(count, expected);
    } else {
      rare_expected += expected;
      rare_count += count;
    }
  }
  if (rare_expected >= 1) add_cell(rare_count, rare_expected);
  return cells > 1 ? chi_squared_tail(statistic, cells - 1) : 1.0;
}

int count_right_answers() {
  int right = 0;
  for (const KnownAnswer& known : kKnownAnswers) {
    right += philox(known.counter, known.key) == known.answer ? 1 : 0;
  }
  return right;
}

// The smallest p-value of the settings, each of which is added to the figures.
double fit_settings(const ChoiceFlags& options, Json& settings) {
  const std::vector<float> logits = sample_logits();
  double min_p = 1;
  for (const SamplingParams& params : kSettings) {
    std::vector<std::int64_t> counts(logits.size(), 0);
    for (Position t = 0; t < options.draws; ++t) {
      ++counts[static_cast<std::size_t>(choose(logits, params, options.seed, t))];
    }
    const double p = goodness_of_fit(counts, filtered_softmax(logits, params), options.draws);
    min_p = std::min(min_p, p);
    std::fprintf(stderr, "temperature %-4g top_k %-3d top_p %-5g min_p %-5g p-value %.4f\n",
                 params.temperature, params.top_k, params.top_p, params.min_p, p);
    settings.push_back({{"temperature", decimal(params.temperature)},
                        {"top_k", params.top_k},
                        {"top_p", decimal(params.top_p)},
                        {"min_p", decimal(params.min_p)},
                        {"p_value", p}});
  }
  return min_p;
}

Result<CheckOutcome> run_choice(const ChoiceFlags& options) {
  if (options.draws < 1000) {
    return invalid_argument("--draws " + std::to_string(options.draws) +
                            " are too few to test anything. Remedy: at least 1000");
  }
  Json settings = Json::array();
  const double min_p = fit_settings(options, settings);
  const int right = count_right_answers();
  const ComparedRows compared = compare_choices(0, options.rows);
  std::fprintf(stderr, "choice: %lld rows against the full evaluation, %lld differ\n",
               static_cast<long long>(compared.rows), static_cast<long long>(compared.wrong));
  if (compared.wrong > 0) std::fprintf(stderr, "choice: %s\n", compared.first_wrong.c_str());
  CheckOutcome outcome;
  outcome.figures = {{"min_p", min_p},
                     {"draws", options.draws},
                     {"seed", options.seed},
                     {"philox_vectors", kKnownAnswers.size()},
                     {"philox_vectors_right", right},
                     {"rows_compared", compared.rows},
                     {"rows_that_differ", compared.wrong},
                     {"settings", settings}};
  const NoiseOfWords words =
      options.every_word ? noise_of_words(0, std::uint64_t{1} << 32) : noise_of_end_words();
  outcome.figures["every_word"] = options.every_word;
  outcome.figures["largest_noise"] = words.largest;
  outcome.figures["least_slack_of_bounds"] = words.least_slack;
  outcome.passed = min_p > kLowestP && right == static_cast<int>(kKnownAnswers.size()) &&
                   compared.wrong == 0 && words.bounded();
  if (!options.speed) return outcome;
  OUTRIDER_ASSIGN_OR_RETURN(const ChoiceSpeed speed, measure_choice_speed(options.timed));
  outcome.figures["times"] = speed.settings;
  outcome.hold(speed.bars);
  return outcome;
}

}  // namespace

void add_choice_check(CheckList& checks) {
  auto options = std::make_shared<ChoiceFlags>();
  CLI::App* command =
      checks.add("choice", "The law of choice against the filtered softmax and its full evaluation",
                 [options] { return run_choice(*options); });
  command->add_option("--draws", options->draws, "Draws per setting");
  command->add_option("--seed", options->seed, "Seed of the noise");
  command->add_option("--rows", options->rows, "Drawn rows to hold against the full evaluation");
  command->add_flag("--every-word", options->every_word,
                    "Try the noise's bounds on all 2^32 random words, not only at both ends");
  command->add_flag("--speed", options->speed,
                    "Time a row's choice, and the full evaluation beside it");
  command->add_option("--turns", options->timed.turns, "Timings of each setting, for --speed")
      ->check(CLI::Range(2, 10'000));
  command->add_option("--model", options->timed.model,
                      "Time the rows of this model too, for --speed");
}

}  // namespace outrider
