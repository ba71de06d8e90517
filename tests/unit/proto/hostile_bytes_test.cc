// Bytes that no correct peer sends: each gets an INVALID_ARGUMENT that names the field.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "proto/codec.h"
#include "proto/outrider/v1/outrider.pb.h"

namespace outrider {
namespace {

using testing::HasSubstr;

void expect_refused(const v1::EdgeMessage& wire, const std::string& message) {
  Result<EdgeMessage> parsed = parse_edge_message(wire.SerializeAsString());
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(parsed.status().message(), HasSubstr(message));
}

void expect_refused(const v1::ServerMessage& wire, const std::string& message) {
  Result<ServerMessage> parsed = parse_server_message(wire.SerializeAsString());
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(parsed.status().message(), HasSubstr(message));
}

v1::EdgeMessage grow_with(int tokens, int parents, std::size_t confidences) {
  v1::EdgeMessage wire;
  for (int i = 0; i < tokens; ++i) wire.mutable_grow()->add_tokens(1);
  for (int i = 0; i < parents; ++i) wire.mutable_grow()->add_parents(0);
  wire.mutable_grow()->set_confidence(std::string(confidences, 'c'));
  return wire;
}

TEST(HostileBytes, TruncationAnywhereIsRefusedOrAShorterMessage) {
  Open open;
  open.tokenizer_hash = "abc";
  open.prefix = {1, 2, 300000};
  const std::string bytes = serialize(EdgeMessage{7, 0, open});
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    Result<EdgeMessage> parsed = parse_edge_message(std::string_view(bytes).substr(0, length));
    // Only the cut before the body leaves a whole message: a plain acknowledgement.
    EXPECT_TRUE(!parsed.ok() || std::holds_alternative<AckOnly>(parsed->body)) << length;
  }
  EXPECT_TRUE(parse_edge_message(bytes).ok());
}

TEST(HostileBytes, ALoadBeyondTheLastStepIsRefused) {
  v1::ServerMessage wire;
  wire.mutable_verdict()->add_tokens(1);
  wire.mutable_verdict()->set_load(5);
  expect_refused(wire, "verdict.load");
}

// Field 15 as nested groups, each of which is closed: well formed except for their depth.
std::string nested_groups(std::size_t depth) {
  return std::string(depth, '\x7b') + std::string(depth, '\x7c');
}

TEST(HostileBytes, TenThousandNestedGroupsAreRefusedWithoutDeepRecursion) {
  EXPECT_TRUE(parse_edge_message(nested_groups(50)).ok()) << "unknown fields are ignored";
  EXPECT_FALSE(parse_edge_message(nested_groups(10000)).ok());
  EXPECT_FALSE(parse_server_message(nested_groups(10000)).ok());
}

TEST(HostileBytes, WrongWireTypesAreUnknownFieldsAndIgnored) {
  const std::string as_string("\x0a\x01x", 3);  // field 1 as a string instead of a varint
  Result<EdgeMessage> parsed = parse_edge_message(as_string);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->acked_position, 0);
}

TEST(HostileBytes, UnknownFieldsAreIgnored) {
  const std::string bytes = serialize(EdgeMessage{5, 0, Cancel{}}) + std::string("\xf8\x07\x01", 3);
  Result<EdgeMessage> parsed = parse_edge_message(bytes);
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(std::holds_alternative<Cancel>(parsed->body));
}

TEST(HostileBytes, LargerThanTheLimitIsRefusedUnparsed) {
  EXPECT_FALSE(parse_edge_message(std::string(kMaxMessageBytes + 1, '\0')).ok());
  EXPECT_FALSE(parse_server_message(std::string(kMaxMessageBytes + 1, '\0')).ok());
}

TEST(HostileBytes, ParallelListsMustBeEquallyLong) {
  expect_refused(grow_with(3, 2, 3), "3 tokens, 2 parents and 3 bytes of confidence");
  expect_refused(grow_with(3, 3, 2), "3 tokens, 3 parents and 2 bytes of confidence");
  expect_refused(grow_with(0, 1, 0), "0 tokens, 1 parents");
}

TEST(HostileBytes, TooManyNodesAreRefused) {
  const int count = static_cast<int>(kMaxNodesPerGrow) + 1;
  expect_refused(grow_with(count, count, static_cast<std::size_t>(count)),
                 "grow.tokens has 4097 entries, at most 4096");
}

TEST(HostileBytes, NegativeTokensAreRefused) {
  v1::EdgeMessage wire = grow_with(1, 1, 1);
  wire.mutable_grow()->set_tokens(0, static_cast<std::uint32_t>(-1));
  expect_refused(wire, "grow.tokens is 4294967295, must be 0 to 2147483647");

  v1::EdgeMessage open;
  open.mutable_open()->add_prefix(0x80000000u);
  expect_refused(open, "open.prefix is 2147483648");
}

TEST(HostileBytes, PositionsAndTimesThatCouldOverflowAreRefused) {
  v1::EdgeMessage wire;
  wire.set_acked_position(~std::uint64_t{0});
  expect_refused(wire, "acked_position is 18446744073709551615");

  wire = grow_with(0, 0, 0);
  wire.mutable_grow()->set_anchor_position(std::uint64_t{1} << 63);
  expect_refused(wire, "grow.anchor_position is 9223372036854775808");

  wire.mutable_open()->set_end_position(~std::uint64_t{0});
  expect_refused(wire, "open.end_position");

  wire.mutable_policy()->set_patience_us(~std::uint64_t{0});
  expect_refused(wire, "policy.patience_us");
}

TEST(HostileBytes, UnknownPolicyIsRefused) {
  v1::EdgeMessage wire;
  wire.mutable_policy()->set_pass_policy(static_cast<v1::PassPolicy>(9));
  expect_refused(wire, "policy.pass_policy is 9, must be 0 (on request) or 1 (eager)");
}

TEST(HostileBytes, SamplingThatIsNotANumberIsRefused) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  v1::EdgeMessage wire;
  wire.mutable_open()->mutable_sampling()->set_temperature(nan);
  expect_refused(wire, "open.sampling.temperature is nan");
  wire.mutable_open()->mutable_sampling()->set_temperature(0);
  wire.mutable_open()->mutable_sampling()->set_top_p(-infinity);
  expect_refused(wire, "open.sampling.top_p is -inf");
  wire.mutable_open()->mutable_sampling()->clear_top_p();
  wire.mutable_open()->mutable_sampling()->set_min_p(infinity);
  expect_refused(wire, "open.sampling.min_p is inf");
  wire.mutable_open()->mutable_sampling()->set_min_p(0);
  wire.mutable_open()->mutable_sampling()->set_top_k(static_cast<std::uint32_t>(-1));
  expect_refused(wire, "open.sampling.top_k is 4294967295");
}

TEST(HostileBytes, NamesThatCouldForgeALogLineAreRefused) {
  v1::EdgeMessage wire;
  wire.mutable_open()->set_tokenizer_hash("abc\nserver: all is well");
  expect_refused(wire, "open.tokenizer_hash holds bytes other than printable ASCII");
  wire.mutable_open()->set_tokenizer_hash(std::string("a\0b", 3));
  expect_refused(wire, "open.tokenizer_hash holds bytes");
  wire.mutable_open()->set_tokenizer_hash(std::string(257, 'a'));
  expect_refused(wire, "open.tokenizer_hash has 257 bytes, at most 256");
}

TEST(HostileBytes, ServerMessagesAreCheckedAsHard) {
  v1::ServerMessage wire;
  expect_refused(wire, "without a body");
  wire.mutable_verdict();
  expect_refused(wire, "verdict.tokens is empty");
  wire.mutable_verdict()->add_tokens(0xffffffffu);
  expect_refused(wire, "verdict.tokens is 4294967295");
  wire.mutable_exit_report()->set_confidence(256);
  expect_refused(wire, "exit_report.confidence is 256, must be 0 to 255");
  wire.mutable_usage()->set_reason(static_cast<v1::FinishReason>(17));
  expect_refused(wire, "usage.reason is 17");
  wire.mutable_notice()->set_kind(static_cast<v1::Notice::Kind>(5));
  expect_refused(wire, "notice.kind is 5");
  wire.mutable_opened()->mutable_limits()->set_vocab_size(0x80000000u);
  expect_refused(wire, "opened.limits.vocab_size is 2147483648");
}

TEST(HostileBytes, PassCostsThatMakeNoSense) {
  const auto refused = [](const auto& change) {
    v1::ServerMessage wire;
    v1::PassCosts& costs = *wire.mutable_opened()->mutable_pass_costs();
    costs.add_rows(1);
    costs.add_time_us(18000);
    change(costs);
    expect_refused(wire, "opened.pass_costs");
  };
  refused([](v1::PassCosts& costs) { costs.add_rows(2); });
  refused([](v1::PassCosts& costs) { costs.set_rows(0, 0); });
  refused([](v1::PassCosts& costs) { costs.set_time_us(0, 0); });
  refused([](v1::PassCosts& costs) { costs.set_exits_percent(1001); });
  refused([](v1::PassCosts& costs) {  // rows that do not rise
    costs.add_rows(1);
    costs.add_time_us(5);
  });
  refused([](v1::PassCosts& costs) {  // too many
    for (std::uint32_t i = 2; i < 20; ++i) {
      costs.add_rows(i);
      costs.add_time_us(i);
    }
  });
}

TEST(HostileBytes, MeasureRequestsAreBounded) {
  const auto refused = [](const std::string& request, const std::string& field) {
    const Result<std::string> reply = measure_reply(request);
    EXPECT_EQ(reply.status().code(), StatusCode::kInvalidArgument);
    EXPECT_NE(reply.status().message().find(field), std::string::npos) << reply.status().message();
  };
  refused(serialize_measure_request(kMaxMeasuredBytes + 1, 0), "MeasureRequest.reply_bytes");
  refused(serialize_measure_request(0xffffffffU, 0), "MeasureRequest.reply_bytes");
  refused(serialize_measure_request(0, kMaxMeasuredBytes + 1), "MeasureRequest.padding");
  refused("\xff\xff", "MeasureRequest");
  const Result<std::string> reply = measure_reply(serialize_measure_request(1000, 7));
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(reply->size(), 1003u);  // its field's number and length
}

}  // namespace
}  // namespace outrider
