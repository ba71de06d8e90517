// Certificates of servers and of edges, and their renewal. SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <thread>

#include "common/base/files.h"
#include "common/base/posix.h"
#include "common/serving/credentials/offered_tls_files.h"
#include "tests/unit/cloud_server/rpc/access_fixture.h"

namespace outrider {
namespace {

using testing::HasSubstr;

// gRPC may be in the middle of a file when it is renewed.
TEST(OfferedTlsFilesTest, WhoReadsACopyReadsTheOldTextToItsEnd) {
  const TestAuthority before, renewed;
  before.issue("server", "localhost");
  renewed.issue("server", "localhost");
  const std::string folder = testing::TempDir() + "offered_tls_files/";
  std::filesystem::create_directories(folder);
  const auto copy_from = [&](const TestAuthority& authority) {
    for (const char* name : {"server.pem", "server.key"}) {
      std::filesystem::copy_file(authority.path(name), folder + name,
                                 std::filesystem::copy_options::overwrite_existing);
    }
  };
  copy_from(before);
  const auto offered = *OfferedTlsFiles::watch({folder + "server.pem", folder + "server.key", {}},
                                               std::chrono::milliseconds(5), [](const auto&) {});
  const std::string path = offered->offered().cert;
  const std::string old_text = *read_file(before.path("server.pem"), 1 << 20);
  const std::string new_text = *read_file(renewed.path("server.pem"), 1 << 20);
  const UniqueFd reader(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  copy_from(renewed);
  while (*read_file(path, 1 << 20) != new_text) std::this_thread::yield();
  std::string read(old_text.size(), ' ');
  EXPECT_EQ(pread(reader.get(), read.data(), read.size(), 0), std::ssize(old_text));
  EXPECT_EQ(read, old_text);
}

class RenewedTest : public AccessTest {
 protected:
  // An edge that trusts the renewed certificate only.
  RemoteOptions by_bob(const TestAuthority& renewed) const {
    RemoteOptions options = edge(bob_.token);
    options.tls_ca = renewed.path("ca.pem");
    return options;
  }
};

// The states that a manual renewal passes: the certificate without its key, for longer than gRPC's
// interval of reading; and a half-written file.
TEST_F(RenewedTest, ACertificateWithoutItsKeyIsNotOfferedAndTheOneBeforeIs) {
  const TestAuthority renewed;
  renewed.issue("server", "localhost");
  take(renewed, "server.pem");
  const TimePoint reread = clock_.now() + std::chrono::seconds(3);
  while (clock_.now() < reread) EXPECT_EQ(answer(edge(bob_.token)), Status());
  EXPECT_THAT(log_lines(),
              testing::Contains(HasSubstr("server.key: is not the key of the certificate in")));
  std::ofstream(authority_.path("server.key")) << "-----BEGIN PRIVATE KEY-----\nMIGHAgEA";
  clock_.sleep_until(clock_.now() + std::chrono::milliseconds(500));
  EXPECT_EQ(answer(edge(bob_.token)), Status());
  EXPECT_EQ(answer(edge(bob_.token)), Status());
  take(renewed, "server.key");
  EXPECT_EQ(answer_when_renewed(by_bob(renewed)), Status());
}

TEST_F(RenewedTest, ARenewedCertificateServesTheNextConnectionAndHarmsNoStream) {
  TestEdge before(edge(alice_.token));
  before.open(honest_open());
  before.await<Verdict>();
  const TestAuthority renewed;
  renewed.issue("server", "localhost");
  take(renewed, "server.pem");
  take(renewed, "server.key");
  EXPECT_EQ(answer_when_renewed(by_bob(renewed)), Status());
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

// The common name is the tenant's, whose quota is in the file.
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
  RemoteOptions unknown = edge("");
  unknown.tls_cert = other.path("alice.pem");
  unknown.tls_key = other.path("alice.key");
  EXPECT_EQ(answer(unknown).code(), StatusCode::kUnavailable);
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
  EXPECT_EQ(answer_when_renewed(after), Status());
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

}  // namespace
}  // namespace outrider
