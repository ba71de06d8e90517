// Strangers and friends at a server with TLS and keys. SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "cloud_server/admission/tenants.h"
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
  void issue(const std::string& name, const std::string& common_name) const {
    run("openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=" +
        common_name + " -keyout " + name + ".key -out " + name + ".csr");
    run("printf 'subjectAltName=DNS:localhost,IP:127.0.0.1' > " + name +
        ".ext; openssl x509 -req -in " + name +
        ".csr -CA ca.pem -CAkey ca.key -CAcreateserial "
        "-days 2 -extfile " +
        name + ".ext -out " + name + ".pem");
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
    rpc_options_.tenants = nullptr;
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

class MutualWithKeysTest : public MutualTest {
 protected:
  MutualWithKeysTest() { rpc_options_.tenants = &tenants_; }
};

TEST_F(MutualWithKeysTest, TheKeyOfAnotherTenantThanTheCertificatesIsRefused) {
  EXPECT_EQ(answer(with_certificate("alice", alice_.token)), Status());
  EXPECT_EQ(answer(with_certificate("alice")), Status());
  EXPECT_EQ(answer(with_certificate("alice", bob_.token)).code(), StatusCode::kPermissionDenied);
}

TEST_F(AccessTest, OnlyWhoMayDecodeMayMeasure) {
  RemoteOptions stranger = edge("");
  EXPECT_EQ(measure_link_speed(stranger, {}).status().code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(measure_link_speed(edge(alice_.token), {}).ok());
}

}  // namespace
}  // namespace outrider
