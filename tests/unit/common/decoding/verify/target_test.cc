// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/verify/session/target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Target example_target() {
  Target target;
  target.model.fingerprint = "f1";
  target.model.arithmetic_id = "a1";
  target.tokenizer_hash = "t1";
  target.limits.vocab_size = 100;
  target.limits.max_positions = 8;
  return target;
}

Open example_open() {
  Open open;
  open.tokenizer_hash = "t1";
  open.prefix = {1, 2, 3};
  open.end_position = 6;
  return open;
}

TEST(OpenCheck, TakesAGoodOpen) {
  Open open = example_open();
  EXPECT_TRUE(check_open(open, example_target()).ok());
  open.expected_fingerprint = "f1";
  open.expected_arithmetic_id = "a1";
  open.end_position = std::numeric_limits<Position>::max();  // ends where the context does
  open.replaced_session = "one never heard of";
  EXPECT_TRUE(check_open(open, example_target()).ok());
}

// Names of the protocol's fields tell a user nothing.
TEST(OpenCheck, WhatAnHonestEdgeMayComeToIsSaidWithoutTheWiresNames) {
  const std::vector<std::function<void(Open&)>> spoilers = {
      [](Open& o) { o.protocol_version = 2; },
      [](Open& o) { o.noise_version = 5; },
      [](Open& o) { o.tokenizer_hash = "t2"; },
      [](Open& o) { o.template_hash = std::string(64, 'a'); },
      [](Open& o) { o.expected_fingerprint = "f2"; },
      [](Open& o) { o.expected_arithmetic_id = "a2"; },
      [](Open& o) { o.prefix.resize(9, 1); },
      [](Open& o) { o.prefix.clear(); },
      [](Open& o) { o.end_position = 3; },
      [](Open& o) { o.sampling.temperature = -1; }};
  for (const auto& spoil : spoilers) {
    Open open = example_open();
    spoil(open);
    const Status status = check_open(open, example_target());
    EXPECT_FALSE(status.ok());
    EXPECT_THAT(status.message(), testing::Not(testing::ContainsRegex("Open\\.|[a-z]_[a-z]")));
  }
}

// The prompt of another template would be answered, and badly: the error names both.
TEST(OpenCheck, ComparesTheChatTemplateOnlyWhereOneWroteThePrompt) {
  const std::string theirs(64, 'a');
  const std::string ours(64, 'b');
  Target target = example_target();
  Open open = example_open();
  target.template_hash = ours;
  EXPECT_TRUE(check_open(open, target).ok());  // none wrote it, or an edge that does not say
  open.template_hash = ours;
  EXPECT_TRUE(check_open(open, target).ok());
  open.template_hash = theirs;
  Status status = check_open_head(open, target);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(theirs), HasSubstr(ours), HasSubstr("Remedy")));
  target.template_hash.clear();
  status = check_open_head(open, target);
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), AllOf(HasSubstr(theirs), HasSubstr("none")));
}

struct BadOpen {
  const char* what;
  std::function<void(Open&)> spoil;
  StatusCode code;
  std::vector<const char*> message;
};

class OpenCheckRejects : public testing::TestWithParam<BadOpen> {};

TEST_P(OpenCheckRejects, NamingValueAndWhatWasExpected) {
  Open open = example_open();
  GetParam().spoil(open);
  const Status status = check_open(open, example_target());
  EXPECT_EQ(status.code(), GetParam().code) << status.to_string();
  for (const char* part : GetParam().message) EXPECT_THAT(status.message(), HasSubstr(part));
}

constexpr StatusCode kValue = StatusCode::kInvalidArgument;
constexpr StatusCode kUnfit = StatusCode::kFailedPrecondition;

INSTANTIATE_TEST_SUITE_P(
    Bad, OpenCheckRejects,
    testing::Values(
        BadOpen{"VersionZero",
                [](Open& o) { o.protocol_version = 0; },
                kUnfit,
                {"version 0 of Outrider's protocol", "1 to 1", "Remedy"}},
        BadOpen{"VersionOfTomorrow", [](Open& o) { o.protocol_version = 999; }, kUnfit, {"999"}},
        BadOpen{"OtherNoise",
                [](Open& o) { o.noise_version = 5; },
                kUnfit,
                {"version 5 of the noise", "2 to 4"}},
        BadOpen{"SettingsOfAnEdgeThatDoesNotKnowThem",
                [](Open& o) { o.settings.presence_penalty = 1; },
                kValue,
                {"Open.settings", "noise_version 3"}},
        BadOpen{"FormOfAnEdgeThatDoesNotKnowIt",
                [](Open& o) {
                  o.set_settings({.constraint = {{ConstraintKind::kRegex, "a"}, {}}}, 0);
                  o.noise_version = kAdjustedNoiseVersion;
                },
                kValue,
                {"Open.settings", "noise_version 4"}},
        BadOpen{"FormThatIsNotCompiled",
                [](Open& o) {
                  o.set_settings({.constraint = {{ConstraintKind::kRegex, "a"}, {}}}, 0);
                },
                StatusCode::kUnimplemented,
                {"constraint", "Remedy"}},
        BadOpen{"TooLongAForm",
                [](Open& o) {
                  o.set_settings(
                      {.constraint = {{ConstraintKind::kRegex, std::string(70000, 'a')}, {}}}, 0);
                },
                kValue,
                {"constraint", "70000 bytes"}},
        BadOpen{"TooManyLogprobs",
                [](Open& o) { o.top_logprobs = 21; },
                kValue,
                {"top_logprobs = 21", "at most 20"}},
        BadOpen{"PromptLogprobsAlone",
                [](Open& o) { o.prompt_logprobs = true; },
                kValue,
                {"prompt_logprobs", "top_logprobs"}},
        BadOpen{"PenaltyOutOfRange",
                [](Open& o) { o.set_settings({.presence_penalty = 3}, 0); },
                kValue,
                {"settings", "presence_penalty = 3"}},
        BadOpen{"BiasBeyondTheVocabulary",
                [](Open& o) {
                  o.set_settings({.logit_bias = {{999999, 1}}}, 0);
                },
                kValue,
                {"logit_bias", "999999"}},
        BadOpen{"AnswerThatBeginsBehindThePrefix",
                [](Open& o) {
                  o.set_settings({.presence_penalty = 1},
                                 static_cast<Position>(o.prefix.size()) + 1);
                },
                kValue,
                {"Open.answer_begin"}},
        BadOpen{"OtherTokenizer",
                [](Open& o) { o.tokenizer_hash = "t2"; },
                kUnfit,
                {"the tokenizer of the draft", "\"t2\"", "\"t1\"",
                 "name the target's tokenizer with --tokenizer"}},
        BadOpen{"NoTokenizer",
                [](Open& o) { o.tokenizer_hash = ""; },
                kUnfit,
                {"the edge's: none", "\"t1\""}},
        BadOpen{"OtherWeights",
                [](Open& o) { o.expected_fingerprint = "f2"; },
                kUnfit,
                {"another model", "\"f2\"", "\"f1\""}},
        BadOpen{"OtherArithmetic",
                [](Open& o) { o.expected_arithmetic_id = "a2"; },
                kUnfit,
                {"--accept-other-arithmetic", "\"a2\"", "\"a1\""}},
        BadOpen{"TemperatureNotANumber",
                [](Open& o) { o.sampling.temperature = std::numeric_limits<float>::quiet_NaN(); },
                kValue,
                {"sampling", "temperature"}},
        BadOpen{"EmptyPrefix", [](Open& o) { o.prefix.clear(); }, kValue, {"the prompt is empty"}},
        BadOpen{"PrefixLongerThanTheContext",
                [](Open& o) { o.prefix.resize(9, 1); },
                kValue,
                {"has 9 tokens", "holds 8"}},
        BadOpen{"PrefixFillsTheContext",
                [](Open& o) {
                  o.prefix.resize(8, 1);
                  o.end_position = 9;
                },
                kValue,
                {"has 8 tokens", "holds 8"}},
        BadOpen{
            "NothingToAnswer", [](Open& o) { o.end_position = 3; }, kValue, {"ends at position 3"}},
        BadOpen{
            "NegativeEnd", [](Open& o) { o.end_position = -1; }, kValue, {"ends at position -1"}},
        BadOpen{"TokenNegative",
                [](Open& o) { o.prefix[1] = -1; },
                kValue,
                {"Open.prefix[1]: -1; expected 0 to 99"}},
        BadOpen{"TokenOutsideTheVocabulary",
                [](Open& o) { o.prefix[2] = 100; },
                kValue,
                {"Open.prefix[2]: 100"}},
        BadOpen{"TokenHuge",
                [](Open& o) { o.prefix[0] = std::numeric_limits<TokenId>::max(); },
                kValue,
                {"2147483647"}},
        BadOpen{"StopIdOutsideTheVocabulary",
                [](Open& o) {
                  o.stop_ids = {5, 100};
                },
                kValue,
                {"Open.stop_ids[1]: 100"}},
        BadOpen{"UnknownPolicy",
                [](Open& o) { o.policy.pass_policy = static_cast<PassPolicy>(2); },
                kValue,
                {"Policy.pass_policy: 2"}},
        BadOpen{"NegativePatience",
                [](Open& o) { o.policy.patience = Duration{-1}; },
                kValue,
                {"Policy.patience"}}),
    [](const auto& info) { return info.param.what; });

}  // namespace
}  // namespace outrider
