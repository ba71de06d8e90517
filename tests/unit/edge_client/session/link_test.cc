// Lost links and late messages. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/decoding/protocol/messages.h"
#include "tests/unit/edge_client/session/session_harness.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

using Ids = std::vector<TokenId>;

TEST(Reconnect, OpensWithTheCommittedTextAndDemandsTheSameTarget) {
  SessionHarness edge(Strategy::kAr);
  edge.start({1, 2, 3});
  edge.opened();
  edge.pass({4});
  edge.stream_ends(unavailable("connection reset"));
  EXPECT_TRUE(edge.said("link: connection reset; retrying for up to 30.0 s"));
  edge.tick_when_due();
  ASSERT_THAT(edge.sent<Open>(), SizeIs(2));
  const Open open = edge.sent<Open>()[1];
  EXPECT_THAT(open.prefix, ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(open.end_position, 100);
  EXPECT_EQ(open.expected_fingerprint, "f");
  EXPECT_EQ(open.expected_arithmetic_id, "a");
  EXPECT_EQ(open.replaced_session, "s1");
  edge.opened();
  edge.pass({5});
  EXPECT_EQ(edge.shown, "ef") << "nothing lost, nothing repeated";
  EXPECT_EQ(edge.session->stats().reconnects, 1u);
}

// A server that is stuck answers pings for ever.
TEST(Reconnect, AVerifierThatIsSilentForLongerThanItPromisedIsLost) {
  SessionHarness edge(Strategy::kAr);
  edge.options.session_key = std::string(32, 'c');
  edge.start({1, 2, 3});
  Opened opened = SessionHarness::target();
  opened.limits.pass_limit = std::chrono::seconds(5);
  edge.opened(opened);
  edge.from_verifier(Started{.pass = 0, .position = 3, .last_id = 0});
  EXPECT_EQ(edge.session->next_tick(), edge.clock.now() + std::chrono::seconds(7));
  edge.tick_when_due();
  EXPECT_TRUE(edge.said("link: the server has said nothing for 7.0 s"));
  edge.tick_when_due();
  ASSERT_THAT(edge.sent<Open>(), SizeIs(2));
  EXPECT_EQ(edge.sent<Open>()[1].session_key, edge.sent<Open>()[0].session_key);
  edge.opened(opened);
  edge.pass({4});
  EXPECT_EQ(edge.shown, "e");
}

TEST(Reconnect, AVerdictRenewsWhatAPassMayTake) {
  SessionHarness edge(Strategy::kAr);
  edge.start({1, 2, 3});
  edge.opened();
  EXPECT_EQ(edge.session->next_tick(), edge.clock.now() + std::chrono::minutes(2)) << "untold";
  edge.from_verifier(Started{.pass = 0, .position = 3, .last_id = 0});
  Verdict verdict{.pass = 0, .position = 3, .tokens = {4}, .rows = 1};
  verdict.pass_limit = std::chrono::seconds(8);
  edge.from_verifier(verdict);
  EXPECT_EQ(edge.session->next_tick(), edge.clock.now() + std::chrono::seconds(10));
}

TEST(Reconnect, NamesALongTextByItsHashAndSendsItIfAsked) {
  SessionHarness edge(Strategy::kAr);
  edge.options.speculation.end_position = 900;
  const Ids prompt(300, 5);
  edge.start(prompt);
  Opened opened = SessionHarness::target();
  opened.limits.open_timeout = std::chrono::seconds(10);
  edge.opened(opened);
  edge.pass({4});
  edge.stream_ends(unavailable("reset"));
  edge.tick_when_due();
  const Open open = edge.sent<Open>().back();
  EXPECT_THAT(open.prefix, testing::IsEmpty());
  EXPECT_EQ(open.prefix_length, 301);
  Ids text = prompt;
  text.push_back(4);
  EXPECT_EQ(open.prefix_hash, prefix_hash(text));
  EXPECT_THAT(edge.sent<Prefix>(), testing::IsEmpty());
  edge.from_verifier(Notice{Notice::Kind::kSendPrefix, Duration{0}});
  ASSERT_THAT(edge.sent<Prefix>(), SizeIs(1));
  EXPECT_EQ(edge.sent<Prefix>()[0].ids, text);
}

TEST(Reconnect, AVeryLongPromptGoesInPieces) {
  SessionHarness edge(Strategy::kAr);
  edge.options.speculation.end_position = 10'000;
  edge.start(Ids(5000, 5));
  const Open open = edge.sent<Open>().at(0);
  EXPECT_EQ(open.prefix_length, 5000);
  EXPECT_EQ(open.prefix_hash, "");
  std::size_t sent = 0;
  for (const Prefix& piece : edge.sent<Prefix>()) sent += piece.ids.size();
  EXPECT_EQ(sent, 5000u);
}

TEST(Reconnect, AnotherArithmeticIsAcceptedIfTheUserWishesAndSaidAloud) {
  SessionHarness edge(Strategy::kAr);
  edge.options.reconnect.accept_other_arithmetic = true;
  edge.start({1, 2, 3});
  edge.opened();
  edge.pass({4});
  edge.stream_ends(unavailable("reset"));
  edge.tick_when_due();
  EXPECT_TRUE(edge.sent<Open>()[1].accept_other_arithmetic);
  Opened other = SessionHarness::target();
  other.arithmetic_id = "b";
  edge.opened(other);
  EXPECT_TRUE(edge.said("arithmetic id b, no longer with a; the text may differ from here on"));
  edge.pass({5});
  EXPECT_EQ(edge.shown, "ef");
}

TEST(Reconnect, BeginsANewRoundWithNewIds) {
  SessionHarness edge(Strategy::kSd);
  edge.start();
  edge.opened();
  edge.pass({5});
  edge.stream_ends(unavailable("reset"));
  edge.tick_when_due();
  const Grow grow = edge.sent<Grow>().back();
  EXPECT_EQ(grow.first_id, 1u);
  EXPECT_EQ(grow.anchor_position, 4);
  EXPECT_EQ(SessionHarness::tokens_of(grow), edge.draft_says(3));
}

TEST(Reconnect, LateMessagesOfTheOldLinkAreIgnored) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.opened();
  const std::uint32_t old_epoch = edge.epoch;
  edge.stream_ends(unavailable("reset"));
  edge.handle(FromVerifier{old_epoch, ServerMessage(Started{.pass = 0, .position = 3})});
  edge.tick_when_due();
  edge.handle(FromVerifier{
      old_epoch, ServerMessage(Verdict{.pass = 0, .position = 3, .tokens = {7}, .rows = 1})});
  edge.handle(FromVerifier{old_epoch, StreamEnded{internal_error("late")}});
  EXPECT_FALSE(edge.finish);
  edge.opened();
  edge.pass({5});
  EXPECT_EQ(edge.shown, "f");
}

TEST(Reconnect, BacksOffAndGivesUpAfterTheTimeoutKeepingTheText) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.opened();
  edge.pass({4});
  const TimePoint lost = edge.clock.now();
  edge.stream_ends(unavailable("reset"));
  std::vector<double> waits;
  while (!edge.finish) {
    const TimePoint before = edge.clock.now();
    edge.tick_when_due();
    waits.push_back(to_ms(edge.clock.now() - before));
    if (!edge.finish) edge.stream_ends(unavailable("connection refused"));
  }
  EXPECT_EQ(edge.finish->ending, Ending::kLinkLost);
  EXPECT_LE(to_seconds(edge.clock.now() - lost), 30.0);
  EXPECT_GE(to_seconds(edge.clock.now() - lost), 29.9);
  EXPECT_EQ(edge.shown, "e.");
  EXPECT_LE(waits.front(), 100);
  EXPECT_GE(*std::ranges::max_element(waits), 1500);
  EXPECT_THAT(waits, SizeIs(testing::Lt(25u)));
}

TEST(Reconnect, AnAttemptThatHangsEndsWithTheTimeoutToo) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.opened();
  edge.stream_ends(unavailable("reset"));
  edge.tick_when_due();  // the second stream never answers
  edge.tick_when_due();
  ASSERT_TRUE(edge.finish);
  EXPECT_EQ(edge.finish->ending, Ending::kLinkLost);
  EXPECT_THAT(edge.finish->status.message(),
              HasSubstr("gave up after 30.0 s of retries (--reconnect-timeout): reset"));
}

TEST(Reconnect, AServerThatAcceptsAndDiesAgainDoesNotHoldTheEdgeForEver) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  int streams = 0;
  while (!edge.finish && streams < 1000) {
    ++streams;
    edge.opened();
    edge.stream_ends(unavailable("reset"));
    if (!edge.finish) edge.tick_when_due();
  }
  ASSERT_TRUE(edge.finish);
  EXPECT_EQ(edge.finish->ending, Ending::kLinkLost);
}

TEST(Reconnect, ALossAfterTheLastTokenLosesNothing) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.opened();
  edge.pass({12});
  edge.stream_ends(unavailable("reset"));
  EXPECT_EQ(edge.finish->ending, Ending::kStopToken);
}

TEST(Reconnect, ATargetWithOtherWeightsIsRefused) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.opened();
  edge.pass({4});
  edge.stream_ends(unavailable("reset"));
  edge.tick_when_due();
  Opened other = SessionHarness::target();
  other.fingerprint = "g";
  edge.opened(other);
  EXPECT_EQ(edge.finish->ending, Ending::kFailed);
  EXPECT_THAT(edge.finish->status.message(),
              testing::AllOf(HasSubstr("fingerprint is g"), HasSubstr("begun with f")));
}

TEST(Refusals, OtherCodesAreFinal) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.stream_ends(failed_precondition("tokenizer_hash: aa against bb"));
  EXPECT_EQ(edge.finish->ending, Ending::kFailed);
  EXPECT_THAT(edge.finish->status.message(), HasSubstr("aa against bb"));
}

TEST(Refusals, AnOverloadedServerIsAskedAgainAfterItsDelay) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.from_verifier(
      Notice{.kind = Notice::Kind::kOverloaded, .retry_after = std::chrono::seconds(2)});
  EXPECT_TRUE(edge.said("overloaded, asks to wait 2.0 s"));
  edge.stream_ends(resource_exhausted("8 sessions are served, the most"));
  EXPECT_FALSE(edge.finish);
  EXPECT_EQ(to_seconds(edge.session->next_tick() - edge.clock.now()), 2.0);
}

TEST(Refusals, AFloodOfNoticesIsALineASecond) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.opened();
  const auto flood = [&] {
    for (int i = 0; i < 1000; ++i) edge.from_verifier(Notice{Notice::Kind::kOverloaded, {}});
  };
  const std::size_t before = edge.lines.size();
  flood();
  EXPECT_EQ(edge.lines.size(), before + 1);
  edge.clock.sleep_until(edge.clock.now() + std::chrono::seconds(1));
  flood();
  EXPECT_EQ(edge.lines.size(), before + 2);
  EXPECT_TRUE(edge.said("(999 more notices before)"));
}

TEST(Refusals, AServerThatDrainsFinishesTheAnswer) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  edge.opened();
  edge.from_verifier(Notice{.kind = Notice::Kind::kReconnectSoon});
  edge.pass({4});
  EXPECT_EQ(edge.shown, "e");
  EXPECT_TRUE(edge.said("shutting down"));
}

// --- a server that drafts too --------------------------------------------------------------------

TEST(ServerNodes, AVerdictMayWalkAlongNodesThatTheEdgeNeverSent) {
  SessionHarness edge(Strategy::kAr);
  edge.start();
  EXPECT_TRUE(edge.sent<Open>().at(0).accepts_server_nodes);
  edge.opened();
  edge.pass({4});
  edge.from_verifier(Started{.pass = 1, .position = 4});
  edge.from_verifier(
      Verdict{.pass = 1, .position = 4, .tokens = {5, 6, 7}, .rows = 9, .server_nodes = 3});
  EXPECT_EQ(edge.shown, "efgh");
  EXPECT_EQ(edge.session->stats().num_server_tokens, 2u);
  EXPECT_EQ(edge.session->stats().num_accepted_tokens, 0u) << "the edge drafted none";
}

TEST(ServerNodes, AnEdgeThatAcceptsNoneRefusesThem) {
  SessionHarness edge(Strategy::kAr);
  edge.options.accepts_server_nodes = false;
  edge.start();
  EXPECT_FALSE(edge.sent<Open>().at(0).accepts_server_nodes);
  edge.opened();
  edge.pass({4});
  edge.from_verifier(Started{.pass = 1, .position = 4});
  edge.from_verifier(
      Verdict{.pass = 1, .position = 4, .tokens = {5, 6}, .rows = 9, .server_nodes = 1});
  ASSERT_TRUE(edge.finish);
  EXPECT_THAT(edge.finish->status.message(), HasSubstr("verdict.server_nodes with bit 0"));
}

// --- log-probabilities ---------------------------------------------------------------------------

// The error of an edge that asked for one alternative and gets a verdict with these.
std::string said_of(const std::vector<TokenLogprobs>& logprobs) {
  SessionHarness edge(Strategy::kAr);
  edge.options.top_logprobs = 1;
  edge.start();
  EXPECT_EQ(edge.sent<Open>().at(0).top_logprobs, 1u);
  edge.opened();
  edge.from_verifier(Started{.pass = 0, .position = 3});
  edge.from_verifier(
      Verdict{.pass = 0, .position = 3, .tokens = {4}, .rows = 3, .logprobs = logprobs});
  if (edge.finish) return edge.finish->status.message();
  EXPECT_EQ(edge.session->logprobs(), logprobs);
  return "";
}

TEST(Logprobs, AVerdictThatLacksThemOrNamesOthersEndsTheAnswer) {
  EXPECT_EQ(said_of({{.chosen = -0.5f, .top = {{7, -0.25f}}}}), "");
  EXPECT_EQ(said_of({{.chosen = -0.5f}}), "");
  EXPECT_THAT(said_of({}), HasSubstr("older than this edge. Remedy"));
  EXPECT_THAT(said_of({{}, {}}), HasSubstr("verdict.logprobs of length 2, expected 1"));
  EXPECT_THAT(said_of({{.top = {{1, 0}, {2, 0}}}}), HasSubstr("of length 2, expected at most 1"));
  EXPECT_THAT(said_of({{.top = {{13, 0}}}}), HasSubstr("top_tokens with 13, expected 0 to 12"));
}

TEST(Level, ATargetThatAnswersByAnotherEndsTheAnswer) {
  const auto said_by = [](const std::string& level) {
    SessionHarness edge(Strategy::kAr);
    edge.options.level = "60";
    edge.start();
    EXPECT_EQ(edge.sent<Open>().at(0).level, "60");
    Opened target = edge.target();
    target.level = level;
    edge.opened(target);
    return edge.finish ? edge.finish->status.message() : "";
  };
  EXPECT_EQ(said_by("60"), "");
  EXPECT_THAT(said_by(""), HasSubstr("by its full model, not by level 60"));
  EXPECT_THAT(said_by("70"), HasSubstr("by level 70, not by level 60"));
}

// The error of an edge that asked for digests, and gets these with the token at position 3, or with
// thirteen more.
std::string said_of_digests(std::size_t tokens, std::size_t digests) {
  SessionHarness edge(Strategy::kAr);
  edge.options.wants_digests = true;
  edge.start();
  EXPECT_TRUE(edge.sent<Open>().at(0).wants_digests);
  edge.opened();
  edge.from_verifier(Started{.pass = 0, .position = 3});
  Verdict verdict{.pass = 0, .position = 3, .tokens = {}, .rows = 20};
  verdict.tokens.assign(tokens, 4);
  verdict.server_nodes = (std::uint64_t{1} << (tokens - 1)) - 1;
  verdict.digests.assign(digests, 7);
  edge.from_verifier(verdict);
  return edge.finish ? edge.finish->status.message() : "";
}

TEST(Digests, ComeOneForEachSixteenthPositionOrNotAtAll) {
  EXPECT_EQ(said_of_digests(1, 0), "");
  EXPECT_EQ(said_of_digests(14, 1), "") << "3 to 16";
  EXPECT_EQ(said_of_digests(14, 0), "") << "a server that is older";
  EXPECT_THAT(said_of_digests(1, 1), HasSubstr("verdict.digests of length 1, expected 0"));
  EXPECT_THAT(said_of_digests(14, 2), HasSubstr("verdict.digests of length 2, expected 1"));
}

// An edge that asks for the log-probabilities of its prompt, 1 2 3, and is told these before the
// first verdict. What it ends the answer with; empty: it goes on.
std::string said_of_prompt(const std::vector<PromptLogprobs>& messages) {
  SessionHarness edge(Strategy::kAr);
  edge.options.top_logprobs = 1;
  edge.options.prompt_logprobs = true;
  edge.start();
  EXPECT_TRUE(edge.sent<Open>().at(0).prompt_logprobs);
  edge.opened();
  for (const PromptLogprobs& message : messages) edge.from_verifier(message);
  if (!edge.finish) edge.from_verifier(Started{.pass = 0, .position = 3});
  if (!edge.finish) {
    edge.from_verifier(Verdict{.position = 3, .tokens = {4}, .rows = 3, .logprobs = {{}}});
  }
  return edge.finish ? edge.finish->status.message() : "";
}

TEST(Logprobs, ThoseOfThePromptComeInOrderAndWholeBeforeTheFirstVerdict) {
  const TokenLogprobs one{.chosen = -0.5f, .top = {{7, -0.25f}}};
  EXPECT_EQ(said_of_prompt({{1, {one, one}}}), "");
  EXPECT_EQ(said_of_prompt({{1, {one}}, {2, {one}}}), "");
  EXPECT_THAT(said_of_prompt({}), HasSubstr("log-probabilities of a prompt; it is older"));
  EXPECT_THAT(said_of_prompt({{1, {one}}}), HasSubstr("it is older"));
  EXPECT_THAT(said_of_prompt({{2, {one}}}), HasSubstr("position 2, expected 1"));
  EXPECT_THAT(said_of_prompt({{1, {one, one, one}}}), HasSubstr("length 3, expected 1 to 2"));
  EXPECT_THAT(said_of_prompt({{1, {{.top = {{13, 0}}}}}}), HasSubstr("top_tokens with 13"));
}

TEST(Logprobs, AStreamThatBreaksInThePromptBeginsThemAnewAndALaterOneHasNone) {
  SessionHarness edge(Strategy::kAr);
  edge.options.top_logprobs = 0;
  edge.options.prompt_logprobs = true;
  edge.start();
  edge.opened();
  edge.from_verifier(PromptLogprobs{1, {{.chosen = -9}}});
  edge.stream_ends(unavailable("reset"));
  edge.tick_when_due();
  ASSERT_THAT(edge.sent<Open>(), SizeIs(2));
  EXPECT_TRUE(edge.sent<Open>()[1].prompt_logprobs);
  edge.opened();
  const std::vector<TokenLogprobs> told = {{.chosen = -1}, {.chosen = -2}};
  edge.from_verifier(PromptLogprobs{1, told});
  edge.from_verifier(Started{.pass = 0, .position = 3});
  edge.from_verifier(Verdict{.position = 3, .tokens = {4}, .rows = 3, .logprobs = {{}}});
  EXPECT_EQ(edge.session->prompt_logprobs(), told);
  edge.stream_ends(unavailable("reset"));
  edge.tick_when_due();
  ASSERT_THAT(edge.sent<Open>(), SizeIs(3));
  EXPECT_FALSE(edge.sent<Open>()[2].prompt_logprobs);
  edge.opened();
  edge.from_verifier(PromptLogprobs{1, told});
  ASSERT_TRUE(edge.finish);
  EXPECT_THAT(edge.finish->status.message(), HasSubstr("expected none"));
}

}  // namespace
}  // namespace outrider
