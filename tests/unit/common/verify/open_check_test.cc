// SPDX-License-Identifier: Apache-2.0
#include "common/verify/open_check.h"

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

struct BadOpen {
  const char* what;
  std::function<void(Open&)> spoil;
  StatusCode code;
  std::vector<const char*> message;
};

class OpenCheckRejects : public testing::TestWithParam<BadOpen> {};

TEST_P(OpenCheckRejects, NamingFieldValueAndWhatWasExpected) {
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
                {"Open.protocol_version: 0", "1 to 1"}},
        BadOpen{"VersionOfTomorrow", [](Open& o) { o.protocol_version = 999; }, kUnfit, {"999"}},
        BadOpen{
            "OtherNoise", [](Open& o) { o.noise_version = 2; }, kUnfit, {"Open.noise_version: 2"}},
        BadOpen{"OtherTokenizer",
                [](Open& o) { o.tokenizer_hash = "t2"; },
                kUnfit,
                {"Open.tokenizer_hash", "\"t2\"", "\"t1\""}},
        BadOpen{"NoTokenizer", [](Open& o) { o.tokenizer_hash = ""; }, kUnfit, {"\"t1\""}},
        BadOpen{"OtherWeights",
                [](Open& o) { o.expected_fingerprint = "f2"; },
                kUnfit,
                {"Open.expected_fingerprint", "\"f2\"", "\"f1\""}},
        BadOpen{"OtherArithmetic",
                [](Open& o) { o.expected_arithmetic_id = "a2"; },
                kUnfit,
                {"Open.expected_arithmetic_id", "\"a2\"", "\"a1\""}},
        BadOpen{"TemperatureNotANumber",
                [](Open& o) { o.sampling.temperature = std::numeric_limits<float>::quiet_NaN(); },
                kValue,
                {"Open.sampling", "temperature"}},
        BadOpen{"EmptyPrefix", [](Open& o) { o.prefix.clear(); }, kValue, {"Open.prefix: empty"}},
        BadOpen{"PrefixLongerThanTheContext",
                [](Open& o) { o.prefix.resize(9, 1); },
                kValue,
                {"Open.prefix: 9", "holds 8"}},
        BadOpen{"PrefixFillsTheContext",
                [](Open& o) {
                  o.prefix.resize(8, 1);
                  o.end_position = 9;
                },
                kValue,
                {"Open.prefix: 8", "holds 8"}},
        BadOpen{"NothingToAnswer",
                [](Open& o) { o.end_position = 3; },
                kValue,
                {"Open.end_position: 3"}},
        BadOpen{
            "NegativeEnd", [](Open& o) { o.end_position = -1; }, kValue, {"Open.end_position: -1"}},
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
