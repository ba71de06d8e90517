// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/sampling_flags.h"

#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <type_traits>
#include <vector>

#include "common/engine/sampling/logprobs.h"
#include "common/serving/cli/choice.h"
#include "common/serving/cli/quantities.h"

namespace outrider {
namespace {

constexpr char kSamplingGroup[] = "Sampling (the same seed gives the same text whatever the draft)";
constexpr char kMoreSamplingGroup[] = "Sampling, rarely needed";

// -1: nothing, a fresh seed for each answer.
Result<std::optional<std::uint64_t>> parse_seed(const std::string& text) {
  std::uint64_t seed = 0;
  if (text == "-1") return std::optional<std::uint64_t>();
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seed);
  const bool octal = text.size() > 1 && text.starts_with('0');
  if (error == std::errc() && rest == end && !octal) return std::optional(seed);
  return invalid_argument(printable(text) +
                          ": must be a whole number from 0 to 2^64 - 1, or -1 for a fresh seed");
}

// llama.cpp's form.
Result<LogitBias> parse_bias(const std::string& text) {
  LogitBias one;
  const char* const end = text.data() + text.size();
  const auto id = std::from_chars(text.data(), end, one.token);
  const char* const number = id.ptr != end && *id.ptr == '+' ? id.ptr + 1 : id.ptr;
  const auto bias = std::from_chars(number, end, one.bias);
  const bool has_sign = id.ptr != end && (*id.ptr == '+' || *id.ptr == '-');
  const bool whole = id.ec == std::errc() && bias.ec == std::errc() && bias.ptr == end;
  if (whole && has_sign) return one;
  return invalid_argument(printable(text) + ": must be a token id and a bias, such as 42+1.5");
}

void add_choice_flags(CLI::App& command, TextOptions& text) {
  ChoiceSettings& settings = text.choice.settings;
  const auto add = [&command](const char* name, auto& value, const CLI::Range& range,
                              const char* help) {
    command.add_option(name, value, help)->check(range)->group(kMoreSamplingGroup);
  };
  add("--presence-penalty", settings.presence_penalty, CLI::Range(-2.0, 2.0),
      "Taken from the logits of tokens that the answer has");
  add("--frequency-penalty", settings.frequency_penalty, CLI::Range(-2.0, 2.0),
      "Taken from a token's logit for each time that the answer has it");
  add("--repetition-penalty", settings.repetition_penalty, CLI::Range(0.01, 100.0),
      "Divides positive logits of tokens that prompt or answer have; 1: none");
  add("--min-tokens", settings.min_tokens,
      CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()),
      "No stop token ends the answer before it has so many");
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&settings](const std::vector<std::string>& texts) {
            settings.logit_bias.clear();
            for (const std::string& one : texts) settings.logit_bias.push_back(*parse_bias(one));
          },
          "A token id and what is added to its logit, such as 42+1.5 or 42-100; may be repeated")
      ->check(CLI::Validator(
          [](const std::string& one) { return parse_bias(one).status().message(); }, "", ""))
      ->allow_extra_args(false)
      ->type_name("ID+BIAS")
      ->group(kMoreSamplingGroup);
  command
      .add_option("--bad-word", text.bad_words,
                  "A text whose tokens the answer may not contain in a row; may be repeated")
      ->allow_extra_args(false)
      ->default_str("")
      ->group(kMoreSamplingGroup);
  command
      .add_option("--stop-token", text.stop_token_ids,
                  "A token id that ends the answer too; may be repeated")
      ->check(CLI::Range(0, std::numeric_limits<std::int32_t>::max()))
      ->allow_extra_args(false)
      ->default_str("")
      ->group(kMoreSamplingGroup);
  command
      .add_option("--logprobs", text.top_logprobs,
                  "With --json: log-probabilities of each token and of so many of the likeliest")
      ->check(CLI::Range(0u, kMaxTopLogprobs))
      ->group(kMoreSamplingGroup);
  const auto add_form = [&command, &settings](const char* name, ConstraintKind kind,
                                              const char* value, const char* help) {
    return command
        .add_option_function<std::string>(
            name,
            [&settings, kind](const std::string& form) {
              settings.constraint = {{kind, form}, {}};
            },
            help)
        ->type_name(value)
        ->group(kMoreSamplingGroup);
  };
  CLI::Option* const schema = add_form("--json-schema", ConstraintKind::kJsonSchema, "SCHEMA",
                                       "The answer is JSON that fits this schema; {}: any JSON");
  add_form("--grammar", ConstraintKind::kGrammar, "RULES",
           "The answer has the form of these rules, in GBNF; root is the answer's")
      ->excludes(schema);
  command
      .add_flag("--ignore-eos", text.ignore_eos,
                "The model's own stop tokens do not end the answer")
      ->group(kMoreSamplingGroup);
}

}  // namespace

void add_sampling_flags(CLI::App& command, GenerationConfig& config) {
  const auto add = [&command](const char* name, auto& said, auto& standing, const CLI::Range& range,
                              const char* help) {
    using Value = std::remove_reference_t<decltype(standing)>;
    command
        .add_option_function<Value>(
            name, [&said, &standing](const Value& value) { said = standing = value; }, help)
        ->check(range)
        ->group(kSamplingGroup);
  };
  constexpr std::int32_t kMaxTopK = std::numeric_limits<std::int32_t>::max();
  SamplingDefaults& said = config.sampling;
  SamplingParams& standing = config.answer.text.choice.sampling;
  add("--temp", said.temperature, standing.temperature, CLI::Range(0.0, 100.0),
      "Temperature; 0: always the likeliest [the target's, or else 0]");
  add("--top-k", said.top_k, standing.top_k, CLI::Range(0, kMaxTopK),
      "Keep the k likeliest; 0: all [the target's, or else 0]");
  add("--top-p", said.top_p, standing.top_p, CLI::Range(0.0, 1.0),
      "Keep the likeliest with this sum; 1: all [the target's, or else 1]");
  add("--min-p", said.min_p, standing.min_p, CLI::Range(0.0, 1.0),
      "Drop those below this share of the likeliest [the target's, or else 0]");
  TextOptions& text = config.answer.text;
  text.draws_seed = true;
  add_parsed(command, "--seed",
             "Seed of the noise; -1: a fresh one for each answer, which its figures name",
             parse_seed,
             [&text](const std::optional<std::uint64_t>& seed) {
               text.draws_seed = !seed;
               text.choice.seed = seed.value_or(0);
             })
      ->type_name("SEED")
      ->default_str("-1")
      ->group(kSamplingGroup);
  config.generation_config = GenerationConfigUse::kAuto;
  add_choice(command, "--generation-config", config.generation_config,
             "Whether the target's generation_config.json samples where flags and requests are "
             "silent: auto, none")
      ->group(kMoreSamplingGroup);
  add_choice_flags(command, text);
}

}  // namespace outrider
