// Clients with and without valid keys at a server with TLS. SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <set>
#include <thread>

#include "cloud_server/rpc/caller.h"
#include "common/decoding/protocol/messages.h"
#include "edge_client/verifiers/link_speed.h"
#include "proto/codec.h"
#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/rpc/access_fixture.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"

namespace outrider {
namespace {

using testing::HasSubstr;

TEST_F(AccessTest, AKeyOverTlsIsLetIn) {
  EXPECT_EQ(answer(edge(alice_.token)), Status());
}

TEST_F(AccessTest, ClientsWithoutAKeyAreRefusedAndCountedAndLearnNothing) {
  const Status none = answer(edge(""));
  EXPECT_EQ(none.code(), StatusCode::kUnauthenticated);
  for (const std::string& wrong :
       {std::string("or-wrong"), alice_.token.substr(0, 40), std::string(3000, 'x')}) {
    EXPECT_EQ(answer(edge(wrong)), none);
  }
  EXPECT_EQ(faults_.counts().refused, 4u);
  EXPECT_EQ(engine_->stats().sessions_opened, 0u);
}

TEST_F(AccessTest, OnlyAKeyIsToldWhatTheTargetIs) {
  EXPECT_EQ(RemoteVerifier(edge("")).describe({}).status().code(), StatusCode::kUnauthenticated);
  // This server has no description.
  EXPECT_EQ(RemoteVerifier(edge(alice_.token)).describe({}).status().code(),
            StatusCode::kUnimplemented);
  EXPECT_EQ(faults_.counts().refused, 2u);
}

TEST_F(AccessTest, AnAddressWithTooManyWrongKeysMustWait) {
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {  // more than twenty are needed on a slow machine
    EXPECT_FALSE(answer(edge("or-wrong")).ok());
    TestEdge alice(edge(alice_.token));
    alice.open(honest_open());
    const VerifierEvent first = alice.next();
    const auto* message = std::get_if<ServerMessage>(&first);
    const auto* notice = message != nullptr ? std::get_if<Notice>(message) : nullptr;
    status = alice.finish();
    const Duration delay = notice != nullptr ? notice->retry_after : Duration{0};
    EXPECT_GE(delay, status.ok() ? Duration{0} : AuthFailureLimiter::kRetryInterval);
    EXPECT_LE(delay, status.ok() ? Duration{0} : AuthFailureLimiter::kRetryInterval * 3 / 2);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  clock_.sleep_until(clock_.now() + AuthFailureLimiter::kRetryInterval);
  EXPECT_EQ(answer(edge(alice_.token)), Status());
  EXPECT_GE(authenticator_.refused(Front::kGrpc), 21u);
}

TEST_F(AccessTest, PlaintextAndAnotherAuthorityDoNotGetThrough) {
  RemoteOptions plain = edge(alice_.token);
  plain.tls_ca.clear();
  EXPECT_EQ(answer(plain).code(), StatusCode::kUnavailable);
  const TestAuthority other;
  RemoteOptions misled = edge(alice_.token);
  misled.tls_ca = other.path("ca.pem");
  const Status untrusted = answer(misled);
  EXPECT_EQ(untrusted.code(), StatusCode::kUnavailable);
  EXPECT_THAT(untrusted.message(), HasSubstr("this machine's clock right, which says 2"));
  EXPECT_EQ(engine_->stats().sessions_opened, 0u);
}

TEST_F(AccessTest, AnotherTenantsSessionKeyIsLikeOneNeverSeen) {
  Open open = honest_open();
  open.session_key = std::string(32, 'a');
  TestEdge alice(edge(alice_.token));
  alice.open(open);
  alice.await<Verdict>();
  EXPECT_EQ(answer(edge(bob_.token), open), Status());
  EXPECT_EQ(alice.finish(), Status()) << "Alice's went on";
  EXPECT_EQ(alice.answer(), right_answer(open));
}

// An attacker reads an Open on the wire, and so has the session's key and id and its text's hash.
TEST_F(AccessTest, AnOpenThatAnotherTenantReplaysTakesNothingAndLearnsNothing) {
  Open open = honest_open();
  open.session_key = std::string(32, 'a');
  TestEdge alice(edge(alice_.token));
  alice.open(open);
  const std::string session = alice.await<Opened>().session_id;
  alice.await<Verdict>();
  Open replayed = open;
  replayed.replaced_session = session;
  replayed.prefix_length = static_cast<Position>(open.prefix.size());
  replayed.prefix_hash = prefix_hash(open.prefix);
  replayed.prefix.clear();
  TestEdge bob(edge(bob_.token));
  bob.open(replayed);
  EXPECT_EQ(bob.await<Notice>().kind, Notice::Kind::kSendPrefix) << "as for a text never seen";
  bob.send(Prefix{open.prefix});
  EXPECT_EQ(bob.finish(), Status());
  EXPECT_EQ(bob.usage().cached_tokens, 0u);
  EXPECT_EQ(bob.usage().rows, open.prefix.size() + bob.usage().completion_tokens - 1)
      << "all computed anew";
  EXPECT_EQ(alice.finish(), Status()) << "Alice's went on";
  EXPECT_EQ(alice.answer(), right_answer(open));
}

TEST_F(AccessTest, AQuotaRefusesWithADelayButNotAReconnect) {
  const auto open_with = [&](char key) {
    Open open = honest_open();
    open.session_key = std::string(32, key);
    return open;
  };
  TestEdge first(edge(alice_.token));
  first.open(open_with('a'));
  first.await<Verdict>();
  TestEdge second(edge(alice_.token));
  second.open(open_with('b'));
  second.await<Verdict>();
  TestEdge third(edge(alice_.token));
  third.open(open_with('c'));
  EXPECT_EQ(third.await<Notice>().kind, Notice::Kind::kOverloaded);
  EXPECT_EQ(third.finish().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(answer(edge(alice_.token), open_with('a')), Status()) << "it replaces the first";
  EXPECT_EQ(first.finish().code(), StatusCode::kCancelled);
}

// Many streams of one connection, which have one address, and edges with keys beside them.
class QuotaTest : public AccessTest {
 protected:
  QuotaTest() { rpc_options_.tls = {}; }

  // Opens without a session key, in streams of one connection.
  void open_without_key(int count) {
    const std::string open = serialize(EdgeMessage{0, 0, honest_open()});
    std::string bytes = http2::hello();
    for (int i = 0; i < count; ++i) {
      const auto stream = static_cast<std::uint32_t>(2 * i + 1);
      const std::string key = "Bearer " + alice_.token;
      bytes += http2::frame(http2::Frame::kHeaders, http2::kEndHeaders, stream,
                            http2::request_headers() + http2::header("authorization", key));
      bytes += http2::frame(http2::Frame::kData, 0, stream,
                            http2::message_prefix(static_cast<std::uint32_t>(open.size())) + open);
    }
    socket_.emplace(address());
    ASSERT_TRUE(socket_->send(bytes));
  }
  // Waits until so many calls were refused.
  void await_refused(std::uint64_t wanted) {
    EXPECT_TRUE(eventually([&] { return faults_.counts().refused >= wanted; }));
    EXPECT_EQ(faults_.counts().refused, wanted);
  }
  std::optional<RawSocket> socket_;
};

TEST_F(QuotaTest, StreamsWithoutASessionKeyAreSessionsOfTheirOwn) {
  tenants_.replace(parse_tokens(alice_.line + " sessions=1"));
  open_without_key(6);
  await_refused(5);
  EXPECT_TRUE(socket_->read_until("all 1 sessions of this key's tenant are taken"));
  // So that this one is opened last.
  EXPECT_TRUE(eventually([&] { return engine_->stats().sessions_opened == 1; }));
  EXPECT_EQ(answer(edge_in_clear(alice_.token)).code(), StatusCode::kResourceExhausted);
  socket_.reset();
  Status status = resource_exhausted("not tried");
  for (int i = 0; i < 1000 && status.code() == StatusCode::kResourceExhausted; ++i) {
    status = answer(edge_in_clear(alice_.token));
  }
  EXPECT_EQ(status, Status()) << "each gave its place back";
}

TEST_F(QuotaTest, StreamsWithoutASessionKeyAreQueuedOneByOne) {
  tenants_.replace(parse_tokens(alice_.line + " queued-requests=2"));
  model_.hold_passes(true);
  open_without_key(6);
  await_refused(4);
  EXPECT_TRUE(socket_->read_until("queued-requests"));
  model_.hold_passes(false);
}

// A session key is never the name of a session without one.
TEST_F(QuotaTest, NoSessionKeyIsTheNameOfASessionWithoutOne) {
  tenants_.replace(parse_tokens(alice_.line + " sessions=1"));
  open_without_key(1);
  while (engine_->stats().sessions_opened < 1) std::this_thread::yield();
  for (const char* guess : {"1", "without key 1", "key 1"}) {
    Open open = honest_open();
    open.session_key = guess;
    EXPECT_EQ(answer(edge_in_clear(alice_.token), open).code(), StatusCode::kResourceExhausted);
  }
}

TEST_F(AccessTest, ARequestThatHasItsFirstTokenIsNoLongerQueued) {
  tenants_.replace(parse_tokens(alice_.line + " queued-requests=1"));
  Open open = honest_open();
  open.session_key = std::string(32, 'a');
  TestEdge first(edge(alice_.token));
  first.open(open);
  first.await<Verdict>();
  open.session_key = std::string(32, 'b');
  EXPECT_EQ(answer(edge(alice_.token), open), Status());
  EXPECT_EQ(first.finish(), Status());
}

TEST_F(AccessTest, ARevokedKeyEndsItsStreams) {
  TestEdge alice(edge(alice_.token));
  alice.open(honest_open());
  const Verdict verdict = alice.await<Verdict>();
  tenants_.replace(parse_tokens(bob_.line));
  alice.send(AckOnly{}, verdict.position + 1);
  EXPECT_EQ(alice.finish().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(answer(edge(alice_.token)).code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(answer(edge(bob_.token)), Status());
}

TEST_F(AccessTest, OnlyWhoMayDecodeMayMeasure) {
  RemoteOptions unknown = edge("");
  EXPECT_EQ(measure_link_speed(unknown, {}).status().code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(measure_link_speed(edge(alice_.token), {}).ok());
}

TEST_F(QuotaTest, RefusalsOfQuotasAndOfKeysTellDelaysThatDiffer) {
  tenants_.replace(parse_tokens(alice_.line + " sessions=1"));
  open_without_key(1);
  while (engine_->stats().sessions_opened < 1) std::this_thread::yield();
  std::set<Duration> delays;
  for (int i = 0; i < 5; ++i) {
    TestEdge edge(edge_in_clear(alice_.token));
    edge.open(honest_open());
    delays.insert(edge.await<Notice>().retry_after);
    EXPECT_EQ(edge.finish().code(), StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(delays.size(), 5u);
  EXPECT_GE(*delays.begin(), std::chrono::seconds(2));
}

// Else those of an address with too many wrong keys would come back together.
TEST_F(QuotaTest, RefusalsForWrongKeysTellDelaysThatDiffer) {
  std::set<Duration> delays;
  for (int i = 0; i < 200 && delays.size() < 4; ++i) {  // on a slow machine some are looked at
    TestEdge edge(edge_in_clear("or-wrong"));
    edge.open(honest_open());
    const VerifierEvent event = edge.next();
    const auto* message = std::get_if<ServerMessage>(&event);
    const auto* notice = message != nullptr ? std::get_if<Notice>(message) : nullptr;
    if (notice != nullptr) delays.insert(notice->retry_after);
  }
  EXPECT_EQ(delays.size(), 4u);
  EXPECT_GE(*delays.begin(), AuthFailureLimiter::kRetryInterval);
  EXPECT_LE(*delays.rbegin(), AuthFailureLimiter::kRetryInterval * 3 / 2);
}

TEST(Caller, TheAddressOfAPeerIsTheSameForAllFronts) {
  EXPECT_EQ(host_of("ipv4:192.0.2.1:50412"), "192.0.2.1");
  EXPECT_EQ(host_of("ipv6:%5B2001:db8::1%5D:50412"), "2001:db8::1");
  EXPECT_EQ(host_of("ipv6:%5Bfe80::1%25eth0%5D:50412"), "fe80::1");
}

}  // namespace
}  // namespace outrider
