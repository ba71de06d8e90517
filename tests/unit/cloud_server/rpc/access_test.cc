// Strangers and friends at a server with TLS and keys. SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "cloud_server/rpc/caller.h"
#include "common/protocol/prefix_hash.h"
#include "edge_client/verifiers/link_speed.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"
#include "tests/unit/common/model/test_directory.h"

namespace outrider {
namespace {

using testing::HasSubstr;

// An authority, and certificates of it by the openssl program.
class TestAuthority final {
 public:
  TestAuthority() {
    run("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=authority "
        "-days 2 -keyout ca.key -out ca.pem");
  }
  void issue(const std::string& name, const std::string& common_name, int days = 2,
             const std::string& alternative_names = "DNS:localhost,IP:127.0.0.1") const {
    run("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" +
        common_name + " -keyout " + name + ".key -out " + name + ".csr");
    run("printf 'subjectAltName=" + alternative_names + "' > " + name +
        ".ext; openssl x509 -req -in " + name +
        ".csr -CA ca.pem -CAkey ca.key -CAcreateserial -days " + std::to_string(days) +
        " -extfile " + name + ".ext -out " + name + ".pem");
    chmod(path(name + ".key").c_str(), 0600);
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }

 private:
  void run(const std::string& command) const {
    const std::string there = "cd " + folder_.path() + " && (" + command + ") 2>/dev/null";
    EXPECT_EQ(std::system(there.c_str()), 0) << command;
  }
  const TestDirectory folder_;
};

class AccessTest : public ServerTest {
 protected:
  AccessTest() {
    authority_.issue("server", "localhost");
    authority_.issue("alice", "alice");
    tenants_.replace(parse_tokens(alice_.line + " sessions=2\n" + bob_.line));
    rpc_options_.tls = {.cert = authority_.path("server.pem"),
                        .key = authority_.path("server.key"),
                        .client_ca = {}};
    rpc_options_.tls_reload_seconds = 1;
    rpc_options_.authenticator = &authenticator_;
    rpc_options_.tenants = &tenants_;
  }
  void SetUp() override { start(); }

  void start() {
    engine_ = std::make_unique<VerifyEngine>(model_, scheduler_options_, clock_);
    Result<std::unique_ptr<RpcServer>> server = RpcServer::start(*engine_, faults_, rpc_options_);
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
  }
  RemoteOptions edge(const std::string& token) const {
    return {.server = address(), .tls_ca = authority_.path("ca.pem"), .token = token};
  }
  Status answer(const RemoteOptions& options, const Open& open) {
    TestEdge edge(options);
    edge.open(open);
    const Status status = edge.finish();
    if (status.ok()) {
      EXPECT_EQ(edge.answer(), right_answer(open));
    }
    return status;
  }
  Status answer(const RemoteOptions& options) { return answer(options, honest_open()); }

  const TestAuthority authority_;
  const NewToken alice_ = *new_token("alice");
  const NewToken bob_ = *new_token("bob");
  Tenants tenants_;
  Authenticator authenticator_{tenants_, true};
};

TEST_F(AccessTest, AKeyOverTlsIsLetIn) {
  EXPECT_EQ(answer(edge(alice_.token)), Status());
}

TEST_F(AccessTest, StrangersAreRefusedAndCountedAndLearnNothing) {
  const Status none = answer(edge(""));
  EXPECT_EQ(none.code(), StatusCode::kUnauthenticated);
  for (const std::string& wrong :
       {std::string("or-wrong"), alice_.token.substr(0, 40), std::string(3000, 'x')}) {
    EXPECT_EQ(answer(edge(wrong)), none);
  }
  EXPECT_EQ(faults_.counts().refused, 4u);
  EXPECT_EQ(engine_->stats().sessions_opened, 0u);
}

TEST_F(AccessTest, TooManyWrongKeysFromAnAddressAndItIsToldToComeBackLater) {
  Status status;
  for (int i = 0; i < 100 && status.ok(); ++i) {  // on a slow machine more than twenty are needed
    EXPECT_FALSE(answer(edge("or-wrong")).ok());
    TestEdge alice(edge(alice_.token));
    alice.open(honest_open());
    const VerifierEvent first = alice.next();
    const auto* message = std::get_if<ServerMessage>(&first);
    const auto* notice = message != nullptr ? std::get_if<Notice>(message) : nullptr;
    status = alice.finish();
    const Duration delay = notice != nullptr ? notice->retry_after : Duration{0};
    EXPECT_EQ(delay, status.ok() ? Duration{0} : WrongKeys::kOneIn);
  }
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  clock_.sleep_until(clock_.now() + WrongKeys::kOneIn);
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
  EXPECT_EQ(answer(misled).code(), StatusCode::kUnavailable);
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

// What a thief of an Open has of it on the wire: key and id of the session, the hash of its text.
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

TEST_F(AccessTest, ARenewedCertificateServesTheNextConnectionAndHarmsNoStream) {
  TestEdge before(edge(alice_.token));
  before.open(honest_open());
  before.await<Verdict>();
  const TestAuthority renewed;
  renewed.issue("server", "localhost");
  for (const char* file : {"server.pem", "server.key"}) {
    std::ofstream(authority_.path(file)) << std::ifstream(renewed.path(file)).rdbuf();
  }
  RemoteOptions after = edge(bob_.token);
  after.tls_ca = renewed.path("ca.pem");
  Status status = unavailable("not tried");
  for (int i = 0; i < 40 && status.code() == StatusCode::kUnavailable; ++i) {
    status = answer(after);
    clock_.sleep_until(clock_.now() + std::chrono::milliseconds(250));
  }
  EXPECT_EQ(status, Status());
  EXPECT_EQ(before.finish(), Status());
  EXPECT_EQ(before.answer(), right_answer(honest_open()));
}

class MutualTest : public AccessTest {
 protected:
  MutualTest() {
    rpc_options_.tls.client_ca = authority_.path("ca.pem");
    rpc_options_.authenticator = nullptr;
  }
  RemoteOptions with_certificate(const std::string& name, const std::string& token = "") const {
    RemoteOptions options = edge(token);
    options.tls_cert = authority_.path(name + ".pem");
    options.tls_key = authority_.path(name + ".key");
    return options;
  }
};

TEST_F(MutualTest, ACertificateIsNeededAndEnough) {
  EXPECT_EQ(answer(with_certificate("alice")), Status());
  EXPECT_EQ(answer(edge("")).code(), StatusCode::kUnavailable);
}

// The common name is the tenant's: in the file stands its quota.
TEST_F(MutualTest, ACertificatesTenantHasItsQuotaAndIsToldTheLoadOnly) {
  tenants_.replace(parse_tokens("alice certificate sessions=1\n"));
  Open open = honest_open();
  open.session_key = std::string(32, 'a');
  TestEdge first(with_certificate("alice"));
  first.open(open);
  EXPECT_NE(first.await<Verdict>().timings.load, Load::kUntold);
  open.session_key = std::string(32, 'b');
  EXPECT_EQ(answer(with_certificate("alice"), open).code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(first.finish(), Status());
  tenants_.replace(parse_tokens("alice certificate exact-times\n"));
  TestEdge exact(with_certificate("alice"));
  exact.open(open);
  EXPECT_EQ(exact.await<Verdict>().timings.load, Load::kUntold);
}

TEST_F(MutualTest, AnExpiredCertificateAndOneOfAnotherAuthorityDoNotGetThrough) {
  authority_.issue("late", "alice", -1);
  EXPECT_EQ(answer(with_certificate("late")).code(), StatusCode::kUnavailable);
  const TestAuthority other;
  other.issue("alice", "alice");
  RemoteOptions stranger = edge("");
  stranger.tls_cert = other.path("alice.pem");
  stranger.tls_key = other.path("alice.key");
  EXPECT_EQ(answer(stranger).code(), StatusCode::kUnavailable);
  EXPECT_EQ(engine_->stats().sessions_opened, 0u);
}

TEST_F(MutualTest, ACertificateWhoseNameIsNoTenantsIsRefused) {
  authority_.issue("spaced", "'two words'");
  EXPECT_EQ(answer(with_certificate("spaced")).code(), StatusCode::kPermissionDenied);
}

class RenewedAuthorityTest : public MutualTest {
 protected:
  RenewedAuthorityTest() {
    copy(authority_.path("ca.pem"));
    rpc_options_.tls.client_ca = authority_.path("clients.pem");
  }
  void copy(const std::string& from) const {
    std::ofstream(authority_.path("clients.pem")) << std::ifstream(from).rdbuf();
  }
};

TEST_F(RenewedAuthorityTest, AnotherAuthorityOfClientsHoldsForTheNextConnection) {
  EXPECT_EQ(answer(with_certificate("alice")), Status());
  const TestAuthority renewed;
  renewed.issue("alice", "alice");
  copy(renewed.path("ca.pem"));
  RemoteOptions after = edge("");
  after.tls_cert = renewed.path("alice.pem");
  after.tls_key = renewed.path("alice.key");
  Status status = unavailable("not tried");
  for (int i = 0; i < 40 && status.code() == StatusCode::kUnavailable; ++i) {
    status = answer(after);
    clock_.sleep_until(clock_.now() + std::chrono::milliseconds(250));
  }
  EXPECT_EQ(status, Status());
  EXPECT_EQ(answer(with_certificate("alice")).code(), StatusCode::kUnavailable);
}

class OtherNameTest : public AccessTest {
 protected:
  OtherNameTest() {
    authority_.issue("elsewhere", "localhost", 2, "DNS:elsewhere.example");
    rpc_options_.tls.cert = authority_.path("elsewhere.pem");
    rpc_options_.tls.key = authority_.path("elsewhere.key");
  }
};

TEST_F(OtherNameTest, AServerOfAnotherNameIsNotTrusted) {
  EXPECT_EQ(answer(edge(alice_.token)).code(), StatusCode::kUnavailable);
  EXPECT_EQ(engine_->stats().sessions_opened, 0u);
}

TEST(Caller, TheAddressOfAPeerIsTheSameForAllFronts) {
  EXPECT_EQ(host_of("ipv4:192.0.2.1:50412"), "192.0.2.1");
  EXPECT_EQ(host_of("ipv6:%5B2001:db8::1%5D:50412"), "2001:db8::1");
  EXPECT_EQ(host_of("ipv6:%5Bfe80::1%25eth0%5D:50412"), "fe80::1");
}

class MutualWithKeysTest : public MutualTest {
 protected:
  MutualWithKeysTest() { rpc_options_.authenticator = &authenticator_; }
};

TEST_F(MutualWithKeysTest, TheKeyOfAnotherTenantThanTheCertificatesIsRefused) {
  EXPECT_EQ(answer(with_certificate("alice", alice_.token)), Status());
  EXPECT_EQ(answer(with_certificate("alice")), Status());
  EXPECT_EQ(answer(with_certificate("alice", bob_.token)).code(), StatusCode::kPermissionDenied);
}

TEST_F(MutualWithKeysTest, ACertificateIsRevokedByTakingItsLineOut) {
  tenants_.replace(parse_tokens("alice certificate\n" + bob_.line));
  TestEdge alice(with_certificate("alice"));
  alice.open(honest_open());
  const Verdict verdict = alice.await<Verdict>();
  tenants_.replace(parse_tokens(bob_.line));
  alice.send(AckOnly{}, verdict.position + 1);
  EXPECT_EQ(alice.finish().code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(answer(with_certificate("alice")).code(), StatusCode::kPermissionDenied);
  EXPECT_EQ(authenticator_.refused(Front::kGrpc), 1u);
}

TEST_F(AccessTest, OnlyWhoMayDecodeMayMeasure) {
  RemoteOptions stranger = edge("");
  EXPECT_EQ(measure_link_speed(stranger, {}).status().code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(measure_link_speed(edge(alice_.token), {}).ok());
}

}  // namespace
}  // namespace outrider
