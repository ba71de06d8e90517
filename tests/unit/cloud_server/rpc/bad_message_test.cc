// Messages that no correct edge sends: each ends its own stream with a status that names field,
// value and what was expected, while another client's session on the same server continues.
// SPDX-License-Identifier: Apache-2.0
#include <limits>

#include "proto/codec.h"
#include "proto/outrider/v1/outrider.pb.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class BadMessageTest : public ServerTest {
 protected:
  // Sends an Open, then `bytes`.
  void expect_refused_after_open(const std::string& bytes, grpc::StatusCode code,
                                 const testing::Matcher<std::string>& message) {
    RawCall call{{serialize(EdgeMessage{0, 0, honest_open()}), bytes}};
    const grpc::Status status = run_raw(address(), call);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), message);
  }

  void expect_open_refused(const Open& open, grpc::StatusCode code,
                           const testing::Matcher<std::string>& message) {
    RawCall call{{serialize(EdgeMessage{0, 0, open})}};
    const grpc::Status status = run_raw(address(), call);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), message);
  }

  // Usage of the answer as counted by the server; the answer must be right.
  Usage usage(const Open& open) {
    TestEdge edge(address());
    edge.open(open);
    const Usage usage = edge.await<Usage>();
    EXPECT_EQ(edge.finish(), Status());
    EXPECT_EQ(edge.answer(), right_answer(open));
    return usage;
  }

  static constexpr auto kInvalid = grpc::StatusCode::INVALID_ARGUMENT;
  static constexpr auto kPrecondition = grpc::StatusCode::FAILED_PRECONDITION;
};

// --- order ------------------------------------------------------------------------------------

TEST_F(BadMessageTest, DataBeforeOpenIsRefused) {
  RawCall call{{serialize(EdgeMessage{0, 0, Grow{1, 0, {}}})}};
  const grpc::Status status = run_raw(address(), call);
  EXPECT_EQ(status.error_code(), kPrecondition);
  EXPECT_THAT(status.error_message(), HasSubstr("Open"));
}

TEST_F(BadMessageTest, ASecondOpenIsRefused) {
  expect_refused_after_open(serialize(EdgeMessage{0, 0, honest_open()}), kPrecondition,
                            HasSubstr("Open"));
}

TEST_F(BadMessageTest, AStreamThatEndsBeforeOpenIsRefused) {
  RawCall call{{}, true};
  const grpc::Status status = run_raw(address(), call);
  EXPECT_EQ(status.error_code(), kPrecondition);
  EXPECT_THAT(status.error_message(), HasSubstr("before its first message"));
}

TEST_F(BadMessageTest, AnEdgeThatHalfClosesAfterOpenStillGetsWhatItMayHaveUnacknowledged) {
  Open open = honest_open();
  open.end_position = kPrefixLength + 4;
  RawCall call{{serialize(EdgeMessage{kPrefixLength, 0, open})}, true};
  EXPECT_TRUE(run_raw(address(), call).ok());
  std::vector<TokenId> answer;
  for (const std::string& bytes : call.answers) {
    Result<ServerMessage> message = parse_server_message(bytes);
    ASSERT_TRUE(message.ok());
    const auto* verdict = std::get_if<Verdict>(&*message);
    if (verdict == nullptr) continue;
    answer.insert(answer.end(), verdict->tokens.begin(), verdict->tokens.end());
  }
  EXPECT_EQ(answer, right_answer(open));
}

// --- shape ------------------------------------------------------------------------------------

TEST_F(BadMessageTest, BytesThatAreNoMessageAreRefusedByLength) {
  const std::string whole = serialize(EdgeMessage{0, 0, Grow{1, 3, {{1, 0, 9}, {2, 1, 9}}}});
  expect_refused_after_open(whole.substr(0, whole.size() - 1), kInvalid,
                            HasSubstr("are not an outrider.v1.EdgeMessage"));
  expect_refused_after_open("GET / HTTP/1.1\r\n\r\n", kInvalid, HasSubstr("18 bytes"));
  // Groups in groups, well formed except for their depth.
  expect_refused_after_open(std::string(10000, '\x7b') + std::string(10000, '\x7c'), kInvalid,
                            HasSubstr("20000 bytes"));
}

TEST_F(BadMessageTest, ParallelListsOfUnequalLengthAreRefused) {
  v1::EdgeMessage wire;
  wire.mutable_grow()->add_tokens(1);
  expect_refused_after_open(wire.SerializeAsString(), kInvalid,
                            HasSubstr("1 tokens, 0 parents and 0 bytes of confidence"));
}

TEST_F(BadMessageTest, UnknownEnumValuesAreRefusedAndUnknownFieldsIgnored) {
  v1::EdgeMessage wire;
  wire.mutable_policy()->set_pass_policy(static_cast<v1::PassPolicy>(7));
  expect_refused_after_open(wire.SerializeAsString(), kInvalid, HasSubstr("pass_policy is 7"));

  Open open = honest_open();
  open.end_position = kPrefixLength + 2;
  RawCall call{{serialize(EdgeMessage{0, 0, open}) + std::string("\xf8\x07\x01", 3)}};
  EXPECT_TRUE(run_raw(address(), call).ok());
}

// --- size -------------------------------------------------------------------------------------

TEST_F(BadMessageTest, TenMillionNodesAreRefusedUnread) {
  v1::EdgeMessage wire;
  wire.mutable_grow()->mutable_tokens()->Resize(10'000'000, 1);
  expect_refused_after_open(wire.SerializeAsString(), grpc::StatusCode::RESOURCE_EXHAUSTED,
                            HasSubstr("larger than max"));
}

TEST_F(BadMessageTest, OneByteOverTheLimitIsRefused) {
  const std::string over(kMaxMessageBytes + 1, '\0');
  expect_refused_after_open(over, grpc::StatusCode::RESOURCE_EXHAUSTED,
                            HasSubstr("larger than max"));
}

TEST_F(BadMessageTest, MoreLivingNodesThanTheLimitAreRefused) {
  // Without acknowledgements the session pauses at a known end, where nodes stay alive.
  TestEdge edge(address());
  edge.open(honest_open());
  for (std::uint32_t i = 0; i < kRunAhead; ++i) edge.await<Verdict>();
  // One chain in three messages, each far below the limit: its last node is one too many.
  const std::uint32_t max_nodes = scheduler_options_.max_nodes;
  for (std::uint32_t sent = 0; sent <= max_nodes;) {
    Grow grow{sent + 1, kPrefixLength + kRunAhead, {}};
    for (; grow.nodes.size() < max_nodes / 2 && sent <= max_nodes; ++sent) {
      grow.nodes.push_back({1, sent == 0 ? 0u : 1u, 0});
    }
    edge.send(grow);
  }
  const Status status = edge.finish();
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("node 65 would be living node number 65"), HasSubstr("at most 64")));
}

TEST_F(BadMessageTest, MoreNodesInOneMessageThanMayLiveAreFineIfTheyAreDeadOnArrival) {
  TestEdge edge(address());
  edge.open(honest_open());
  for (std::uint32_t i = 0; i < kRunAhead; ++i) edge.await<Verdict>();
  const TokenId wrong = (edge.answer().front() + 1) % model_.info().vocab_size;
  Grow grow{1, kPrefixLength, {}};
  for (std::uint32_t i = 0; i < 2 * scheduler_options_.max_nodes; ++i) {
    grow.nodes.push_back({wrong, i == 0 ? 0u : 1u, 0});
  }
  edge.send(grow);
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(edge.answer(), right_answer(honest_open()));
}

TEST_F(BadMessageTest, CompressedMessagesAreRefused) {
  Open open = honest_open();
  open.prefix.assign(1000, 1);  // gRPC does not compress what would not shrink
  RawCall call{{serialize(EdgeMessage{0, 0, open})}, false, true};
  const grpc::Status status = run_raw(address(), call);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED) << status.error_message();
}

// --- values -----------------------------------------------------------------------------------

TEST_F(BadMessageTest, TokensOutsideTheVocabularyAreRefusedBeforeAnyPass) {
  const TokenId vocab_size = model_.info().vocab_size;
  for (const TokenId token : {-1, vocab_size, std::numeric_limits<TokenId>::max()}) {
    const std::string shown = std::to_string(static_cast<std::uint32_t>(token));
    expect_refused_after_open(serialize(EdgeMessage{0, 0, Grow{1, kPrefixLength, {{token, 0, 9}}}}),
                              kInvalid, HasSubstr(shown));
    Open open = honest_open();
    open.prefix[1] = token;
    expect_open_refused(open, kInvalid, AllOf(HasSubstr("prefix"), HasSubstr(shown)));
    open = honest_open();
    open.stop_ids = {token};
    expect_open_refused(open, kInvalid, AllOf(HasSubstr("stop_ids"), HasSubstr(shown)));
  }
}

TEST_F(BadMessageTest, SamplingThatIsNoNumberOrOutOfRangeIsRefused) {
  Open open = honest_open();
  open.sampling.temperature = std::numeric_limits<float>::quiet_NaN();
  expect_open_refused(open, kInvalid, HasSubstr("temperature"));
  open.sampling.temperature = -1.0f;
  expect_open_refused(open, kInvalid, HasSubstr("temperature"));
  open = honest_open();
  open.sampling.top_p = 2.0f;
  expect_open_refused(open, kInvalid, HasSubstr("top_p"));
  open = honest_open();
  open.sampling.min_p = std::numeric_limits<float>::infinity();
  expect_open_refused(open, kInvalid, HasSubstr("min_p"));
}

TEST_F(BadMessageTest, AnAnchorBeyondWhatTheEdgeCanKnowIsRefused) {
  expect_refused_after_open(serialize(EdgeMessage{0, 0, Grow{1, kEnd + 1000, {{1, 0, 9}}}}),
                            kPrecondition, HasSubstr(std::to_string(kEnd + 1000)));
}

TEST_F(BadMessageTest, RepeatedOrSkippedIdsAreRefused) {
  const std::string first = serialize(EdgeMessage{0, 0, Grow{1, kPrefixLength, {{1, 0, 9}}}});
  for (const std::string& second :
       {first, serialize(EdgeMessage{0, 0, Grow{7, kPrefixLength, {{1, 0, 9}}}})}) {
    RawCall call{{serialize(EdgeMessage{0, 0, honest_open()}), first, second}};
    const grpc::Status status = run_raw(address(), call);
    EXPECT_THAT(status.error_code(), testing::AnyOf(kInvalid, kPrecondition));
    EXPECT_THAT(status.error_message(), AllOf(HasSubstr("first_id"), HasSubstr("2")));
  }
}

TEST_F(BadMessageTest, AParentThatWasNeverSentIsRefused) {
  expect_refused_after_open(serialize(EdgeMessage{0, 0, Grow{1, kPrefixLength, {{1, 5, 9}}}}),
                            kInvalid, HasSubstr("parent"));
}

TEST_F(BadMessageTest, VersionsAreRefusedWithTheRangeThatIsSpoken) {
  for (const std::uint32_t version : {0u, 999u}) {
    Open open = honest_open();
    open.protocol_version = version;
    expect_open_refused(open, kPrecondition,
                        AllOf(HasSubstr("Outrider's protocol"), HasSubstr(std::to_string(version)),
                              HasSubstr("1 to 1")));
    open = honest_open();
    open.noise_version = version;
    expect_open_refused(open, kPrecondition,
                        AllOf(HasSubstr("the noise"), HasSubstr(std::to_string(version))));
  }
}

TEST_F(BadMessageTest, IdentitiesThatDifferAreRefusedWithBothValues) {
  Open open = honest_open();
  open.tokenizer_hash = "0dd";
  expect_open_refused(open, kPrecondition, AllOf(HasSubstr("0dd"), HasSubstr("70f1")));
  open = honest_open();
  open.expected_fingerprint = "bad";
  expect_open_refused(open, kPrecondition,
                      AllOf(HasSubstr("bad"), HasSubstr(model_.info().fingerprint)));
  open = honest_open();
  open.expected_arithmetic_id = "bad";
  expect_open_refused(open, kPrecondition,
                      AllOf(HasSubstr("bad"), HasSubstr(model_.info().arithmetic_id)));
}

TEST_F(BadMessageTest, NamesCannotForgeALogLine) {
  v1::EdgeMessage wire;
  wire.mutable_open()->set_tokenizer_hash("x\nserver: all is well");
  RawCall call{{wire.SerializeAsString()}};
  EXPECT_EQ(run_raw(address(), call).error_code(), kInvalid);
  for (const std::string& line : log_lines()) EXPECT_EQ(line.find('\n'), std::string::npos);
}

// Where not even those of one tenant share what they compute.
class UnsharedTest : public BadMessageTest {
 protected:
  UnsharedTest() { scheduler_options_.kv.share_prefixes = false; }
};

TEST_F(UnsharedTest, AnothersSessionIdGivesNothingAway) {
  // A client opens a session and leaves; the server keeps its KV.
  Open first = honest_open();
  first.prefix = {5, 6, 7, 5, 6, 7, 5, 6};
  first.end_position = 20;
  TestEdge somebody(address());
  somebody.open(first);
  const std::string name = somebody.await<Opened>().session_id;
  EXPECT_EQ(somebody.finish(), Status());

  // With the session's id, the text is found in the cache. Without it, with a wrong one and with
  // half of it, all rows are computed, as for a new text: timing does not reveal that the text was
  // used.
  const auto asked = [&](const std::string& replaced) {
    Open open = first;
    open.replaced_session = replaced;
    return usage(open);
  };
  const Usage own = asked(name);
  EXPECT_GT(own.cached_tokens, 0u);
  std::vector<Usage> guesses;
  for (const std::string& guess :
       {std::string(), std::string(32, '0'), name.substr(0, name.size() / 2)}) {
    guesses.push_back(asked(guess));
  }
  first.prefix.back() = 7;
  const Usage unseen = asked("");
  EXPECT_LT(own.rows, unseen.rows) << "which time would tell";
  for (const Usage& guess : guesses) {
    EXPECT_EQ(guess.cached_tokens, 0u);
    EXPECT_EQ(guess.rows, unseen.rows);
    EXPECT_EQ(guess.passes, unseen.passes);
  }
}

TEST_F(BadMessageTest, LengthsThatMakeNoAnswerAreRefused) {
  Open open = honest_open();
  open.prefix.clear();
  expect_open_refused(open, kInvalid, HasSubstr("prompt is empty"));
  open = honest_open();
  open.prefix.assign(static_cast<std::size_t>(model_.info().max_positions), 1);
  expect_open_refused(open, kInvalid, HasSubstr(std::to_string(model_.info().max_positions)));
  for (const Position end : {Position{0}, kPrefixLength}) {
    open = honest_open();
    open.end_position = end;
    expect_open_refused(open, kInvalid, HasSubstr("ends at position"));
  }
  v1::EdgeMessage wire;
  wire.mutable_open()->set_end_position(static_cast<std::uint64_t>(-1));
  RawCall call{{wire.SerializeAsString()}};
  EXPECT_EQ(run_raw(address(), call).error_code(), kInvalid);
}

TEST_F(BadMessageTest, AnAnswerMayBeAskedToTheEndOfTheContext) {
  Open open = honest_open();
  open.end_position = std::numeric_limits<std::int32_t>::max();
  TestEdge edge(address());
  edge.open(open);
  EXPECT_EQ(edge.finish(), Status());
  EXPECT_EQ(edge.answer().size(),
            static_cast<std::size_t>(model_.info().max_positions - kPrefixLength));
}

// --- the log ----------------------------------------------------------------------------------

TEST_F(BadMessageTest, AFloodOfGarbageCostsOneLogLine) {
  for (int i = 0; i < 20; ++i) {
    RawCall call{{"garbage"}};
    EXPECT_EQ(run_raw(address(), call).error_code(), kInvalid);
  }
  EXPECT_EQ(faults_.counts().refused, 20u);
  ASSERT_EQ(log_lines().size(), 1u);
  EXPECT_THAT(log_lines()[0],
              AllOf(HasSubstr("refused"), HasSubstr("127.0.0.1"), HasSubstr("INVALID_ARGUMENT")));
}

}  // namespace
}  // namespace outrider
