// Keys and quotas. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "cloud_server/admission/token_file.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

void write(const std::string& path, const std::string& text, mode_t mode = 0600) {
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
}

// --- the file -----------------------------------------------------------------------------------

TEST(TokenFile, ANewTokenIsLetInByItsLineAndItsTextIsNotInTheFile) {
  const NewToken made = *new_token("robot-7");
  const TokenFile file = parse_tokens("# keys\n\n" + made.line + " sessions=2\n");
  ASSERT_THAT(file.entries, SizeIs(1));
  EXPECT_EQ(file.entries[0].tenant, "robot-7");
  EXPECT_EQ(file.entries[0].hash, hash_of(made.token));
  EXPECT_EQ(file.entries[0].limits.sessions, 2u);
  EXPECT_EQ(made.line.find(made.token.substr(3)), std::string::npos);
  EXPECT_GE(made.token.size(), 64u);
  EXPECT_NE(made.token, new_token("robot-7")->token);
  for (const char* name : {"", "a b", "../x", "r\n"}) EXPECT_FALSE(new_token(name).ok()) << name;
}

TEST(TokenFile, EachBadLineIsNamed) {
  const std::string good = new_token("good")->line;
  const TokenFile file = parse_tokens(
      good + "\nno-hash\nbad/name sha256:00\nother or-secret123\n" + good + " sessions=0\n" + good +
      " speed=3\n" + good + " rows-per-second=nan\r\n" + good + " kv-memory=0\n" + good +
      " kv-memory=12GB\n" + good + " queued-requests=0.5\n" + good + " kv-memory\n");
  EXPECT_THAT(file.entries, SizeIs(1));
  EXPECT_THAT(file.faults, testing::ElementsAre(
                               HasSubstr("line 2: behind the name"), HasSubstr("line 3: the name"),
                               AllOf(HasSubstr("line 4"), testing::Not(HasSubstr("secret"))),
                               HasSubstr("line 5: \"sessions=0\": a limit must be NAME=NUMBER, "
                                         "above 0; leave it out for no limit"),
                               HasSubstr("line 6"), HasSubstr("line 7"),
                               HasSubstr("line 8: \"kv-memory=0\": must be"), HasSubstr("line 9"),
                               HasSubstr("line 10"), HasSubstr("line 11")));
}

TEST(TokenFile, AByteOrderMarkAndLinesOfWindowsLockNobodyOut) {
  const std::string line = new_token("a")->line;
  const std::string other = new_token("b")->line;
  const TokenFile file = parse_tokens("\xEF\xBB\xBF" + line + " sessions=2\r\n" + other + "\r\n");
  EXPECT_THAT(file.faults, testing::IsEmpty());
  ASSERT_THAT(file.entries, SizeIs(2));
  EXPECT_EQ(file.entries[0].tenant, "a");
}

TEST(TokenFile, ATenantMayComeByCertificateAndHasItsQuotaHereToo) {
  const TokenFile file = parse_tokens("robot-7 certificate sessions=2\n");
  ASSERT_THAT(file.entries, SizeIs(1));
  EXPECT_FALSE(file.entries[0].hash.has_value());
  Tenants tenants;
  tenants.replace(file);
  EXPECT_EQ(tenants.limits_of("robot-7").sessions, 2u);
  EXPECT_FALSE(tenants.find("certificate").ok());
  EXPECT_FALSE(tenants.find("").ok());
  const auto in = tenants.find_certificate("robot-7");
  ASSERT_TRUE(in.ok());
  EXPECT_EQ((*in)->tenant, "robot-7");
  EXPECT_EQ(tenants.find_certificate("robot-8").status().code(), StatusCode::kPermissionDenied);
  tenants.replace(parse_tokens("robot-7 certificate sessions=0\n"));
  EXPECT_FALSE(check_not_revoked(in->get()).ok()) << "a bad line lets nobody in";
  EXPECT_FALSE(tenants.find_certificate("robot-7").ok());
}

TEST(TokenFile, AFileThatEverybodyMayReadOrThatHoldsNoKeyIsRefused) {
  const TestDirectory folder;
  const std::string path = folder.path() + "/tokens";
  EXPECT_EQ(read_tokens(path).status().code(), StatusCode::kNotFound);
  write(path, new_token("a")->line, 0644);
  EXPECT_THAT(read_tokens(path).status().message(), HasSubstr("chmod o-r"));
  write(path, new_token("a")->line, 0600);
  EXPECT_TRUE(read_tokens(path).ok());
  write(path, "# nothing\nbad\n");
  EXPECT_THAT(read_tokens(path).status().message(),
              HasSubstr("tokens: line 2: behind the name must stand"));
  write(path, "# nothing\n");
  EXPECT_THAT(read_tokens(path).status().message(), HasSubstr("has no key"));
  EXPECT_THAT(read_tokens(folder.path()).status().message(), HasSubstr("regular file"));
}

TEST(TokenFile, AFileWithAnyFaultyLineIsRefusedAsAWhole) {
  const TestDirectory folder;
  const std::string path = folder.path() + "/tokens";
  const std::string alice = new_token("alice")->line, bob = new_token("bob")->line;
  // An editor has saved half of the file.
  write(path, alice + "\n" + bob.substr(0, bob.size() - 3));
  EXPECT_THAT(read_tokens(path).status().message(), HasSubstr("tokens: line 2: "));
  write(path, alice + " speed=3\nno\n" + bob);
  EXPECT_THAT(read_tokens(path).status().message(),
              AllOf(HasSubstr("tokens: line 1: "), HasSubstr("(and 1 more)")));
  write(path, alice + "\n" + bob);
  EXPECT_THAT(read_tokens(path)->entries, SizeIs(2));
}

TEST(TokenFile, OneNameHasOneLineAndOneKeyHasOneName) {
  const std::string one = new_token("alice")->line, two = new_token("alice")->line;
  EXPECT_THAT(parse_tokens(one + "\n" + two).faults,
              testing::ElementsAre(HasSubstr("line 2: alice has line 1 already")));
  const std::string same_key = "bob" + one.substr(5);
  const TokenFile shared = parse_tokens(one + "\n# between\n" + same_key);
  EXPECT_THAT(shared.faults, testing::ElementsAre(HasSubstr("line 3: its key is also alice's")));
  EXPECT_THAT(shared.faults.front(), testing::Not(HasSubstr(one.substr(20, 16))));
  EXPECT_THAT(parse_tokens("alice certificate\nalice certificate\n").faults, SizeIs(1));
}

TEST(TokenFile, BothKeysOfATenantStandOnItsLineWithItsLimits) {
  const NewToken one = *new_token("alice"), two = *new_token("alice");
  const TokenFile file =
      parse_tokens(one.line + two.line.substr(5) + " sessions=2 certificate exact-times");
  EXPECT_THAT(file.faults, testing::IsEmpty());
  ASSERT_THAT(file.entries, SizeIs(3));
  for (const TokenEntry& entry : file.entries) {
    EXPECT_EQ(entry.limits.sessions, 2u);
    EXPECT_TRUE(entry.limits.exact_times);
  }
  EXPECT_THAT(parse_tokens(one.line + " sha256:12").faults, SizeIs(1));
}

TEST(TokenFile, AKeyIsAddedToItsTenantsLineOrAsANewOne) {
  const TestDirectory folder;
  const std::string path = folder.path() + "/tokens";
  const NewToken first = *new_token("al"), second = *new_token("al"), other = *new_token("alice");
  ASSERT_TRUE(add_token(path, "al", first).ok());
  ASSERT_TRUE(add_token(path, "alice", other).ok());
  write(path, "# keys\n" + folder.read("tokens") + "bob certificate");
  ASSERT_TRUE(add_token(path, "al", second).ok());
  ASSERT_TRUE(add_token(path, "carol", *new_token("carol")).ok());
  const TokenFile file = *read_tokens(path);
  ASSERT_THAT(file.entries, SizeIs(5));
  Tenants tenants;
  tenants.replace(file);
  EXPECT_EQ((*tenants.find(first.token))->tenant, "al");
  EXPECT_EQ((*tenants.find(second.token))->tenant, "al");
  EXPECT_EQ((*tenants.find(other.token))->tenant, "alice");
  const std::string diary = "a diary, the only copy\n";
  write(path, diary);
  EXPECT_EQ(add_token(path, "al", second).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(folder.read("tokens"), diary);
}

// --- authentication -----------------------------------------------------------------------------

TEST(Tenants, KnowsKeysByTheirHashOnly) {
  const NewToken alice = *new_token("alice");
  Tenants tenants;
  tenants.replace(parse_tokens(alice.line));
  EXPECT_EQ((*tenants.find(alice.token))->tenant, "alice");
  const Status unknown = tenants.find("or-never").status();
  EXPECT_EQ(unknown.code(), StatusCode::kUnauthenticated);
  for (const std::string& wrong : {std::string(), alice.token.substr(0, 20), alice.token + "x",
                                   std::string(1 << 20, 'a'), alice.line}) {
    EXPECT_EQ(tenants.find(wrong).status(), unknown) << "nothing is learnt";
  }
}

TEST(Tenants, AKeyThatLeavesTheFileIsRevokedForWhoIsInAndItsSuccessorIsLetIn) {
  const NewToken old_key = *new_token("alice");
  const NewToken new_key = *new_token("alice");
  Tenants tenants;
  tenants.replace(parse_tokens(old_key.line));
  const auto in = *tenants.find(old_key.token);
  tenants.replace(parse_tokens(old_key.line + new_key.line.substr(5)));
  EXPECT_FALSE(in->revoked.load());
  EXPECT_TRUE(tenants.find(new_key.token).ok());
  tenants.replace(parse_tokens(new_key.line));
  EXPECT_TRUE(in->revoked.load());
  EXPECT_FALSE(tenants.find(old_key.token).ok());
}

TEST(Tenants, WhoLeavesTheFileHasNeitherLimitsNorRightsAnyMore) {
  Tenants tenants;
  tenants.replace(parse_tokens("robot-7 certificate sessions=2 exact-times\n"));
  tenants.replace(parse_tokens("robot-8 certificate\n"));
  EXPECT_EQ(tenants.limits_of("robot-7"), TenantLimits());
}

// --- wrong keys ---------------------------------------------------------------------------------

class AuthFailureLimiterTest : public testing::Test {
 protected:
  void add(const std::string& host, int count) {
    for (int i = 0; i < count; ++i) auth_failures_.add(host, now_);
  }
  AuthFailureLimiter auth_failures_;
  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
};

TEST_F(AuthFailureLimiterTest, AnAddressHasABurstAndThenOneInTwoSeconds) {
  add("192.0.2.1", 19);
  EXPECT_FALSE(auth_failures_.too_many("192.0.2.1", now_));
  add("192.0.2.1", 1);
  EXPECT_TRUE(auth_failures_.too_many("192.0.2.1", now_));
  EXPECT_FALSE(auth_failures_.too_many("192.0.2.2", now_)) << "others are not concerned";
  now_ += AuthFailureLimiter::kRetryInterval;
  EXPECT_FALSE(auth_failures_.too_many("192.0.2.1", now_)) << "as it was told";
  add("192.0.2.1", 1);
  EXPECT_TRUE(auth_failures_.too_many("192.0.2.1", now_));
}

TEST_F(AuthFailureLimiterTest, ManyAddressesTakeBoundedMemoryAndTheWorstIsRemembered) {
  add("worst", 20);
  for (std::size_t i = 0; i < 2 * AuthFailureLimiter::kHosts; ++i) add(std::to_string(i), 1);
  EXPECT_LE(auth_failures_.hosts(), AuthFailureLimiter::kHosts);
  EXPECT_TRUE(auth_failures_.too_many("worst", now_));
  now_ += std::chrono::minutes(1);
  add("later", 1);
  EXPECT_EQ(auth_failures_.hosts(), 1u) << "of the others nothing is left to remember";
}

TEST(Authenticator, AfterTooManyWrongKeysTheRightOneIsNotLookedAtEither) {
  const NewToken alice = *new_token("alice");
  Tenants tenants;
  tenants.replace(parse_tokens(alice.line));
  Authenticator strict(tenants, true);
  Authenticator behind_proxy(tenants, false);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(strict.find("or-wrong", "a", Front::kGrpc).status().code(),
              StatusCode::kUnauthenticated);
    EXPECT_FALSE(behind_proxy.find("or-wrong", "a", Front::kGrpc).ok());
  }
  const Status later = strict.find(alice.token, "a", Front::kOpenAi).status();
  EXPECT_EQ(later.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(later.message(), HasSubstr("retry in 2 s"));
  EXPECT_TRUE(strict.find(alice.token, "b", Front::kOpenAi).ok());
  EXPECT_TRUE(behind_proxy.find(alice.token, "a", Front::kGrpc).ok());
  EXPECT_EQ(strict.refused(Front::kGrpc), 20u);
  EXPECT_EQ(strict.refused(Front::kOpenAi), 1u);
  EXPECT_EQ(strict.refused(Front::kMetrics), 0u);
}

// A host has a /64 of addresses, and its IPv4 address in more than one form.
TEST(Authenticator, WrongKeysOfOneHostCountTogetherWhateverAddressItTakes) {
  Tenants tenants;
  Authenticator strict(tenants, true);
  for (int i = 0; i < 20; ++i) {
    const std::string last = std::to_string(i);
    EXPECT_FALSE(strict.find("or-wrong", "2001:db8:0:7::" + last, Front::kGrpc).ok());
    EXPECT_FALSE(
        strict.find("or-wrong", i % 2 == 0 ? "192.0.2.1" : "::ffff:192.0.2.1", Front::kGrpc).ok());
  }
  for (const char* same : {"2001:db8:0:7:9::9", "192.0.2.1", "::ffff:192.0.2.1"}) {
    EXPECT_EQ(strict.find("or-wrong", same, Front::kOpenAi).status().code(),
              StatusCode::kResourceExhausted)
        << same;
  }
  for (const char* other : {"2001:db8:0:8::1", "192.0.2.2"}) {
    EXPECT_EQ(strict.find("or-wrong", other, Front::kOpenAi).status().code(),
              StatusCode::kUnauthenticated)
        << other;
  }
}

// A program that polls /metrics without a key does not guess.
TEST(Authenticator, WhoBringsNoKeyKeepsNobodyOut) {
  const NewToken alice = *new_token("alice");
  Tenants tenants;
  tenants.replace(parse_tokens(alice.line));
  Authenticator strict(tenants, true);
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(strict.find("", "a", Front::kMetrics).ok());
  EXPECT_TRUE(strict.find(alice.token, "a", Front::kGrpc).ok());
  EXPECT_EQ(strict.refused(Front::kMetrics), 100u);
}

TEST(Authenticator, AKeyThatReadsMetricsOpensNothingElse) {
  const NewToken watcher = *new_token("prometheus");
  const NewToken robot = *new_token("robot");
  Tenants tenants;
  tenants.replace(parse_tokens(watcher.line + " read-metrics\n" + robot.line +
                               "\nobserver certificate read-metrics\n"));
  Authenticator authenticator(tenants, true);
  EXPECT_TRUE(authenticator.find(watcher.token, "a", Front::kMetrics).ok());
  EXPECT_TRUE(authenticator.find(robot.token, "a", Front::kGrpc).ok());
  for (const Front front : {Front::kGrpc, Front::kOpenAi}) {
    const Status status = authenticator.find(watcher.token, "a", front).status();
    EXPECT_EQ(status.code(), StatusCode::kPermissionDenied);
    EXPECT_THAT(status.message(), HasSubstr("read-metrics"));
    EXPECT_EQ(authenticator.refused(front), 1u);
  }
  EXPECT_EQ(authenticator.find_certificate("observer", Front::kGrpc).status().code(),
            StatusCode::kPermissionDenied);
}

// --- quotas -------------------------------------------------------------------------------------

class QuotaTest : public testing::Test {
 protected:
  void limits(const std::string& words) {
    tenants_.replace(parse_tokens(new_token("alice")->line + " " + words));
  }
  Status admit(double prompt = 1) {
    AdmissionResult result = tenants_.admit("alice", std::to_string(next_++), prompt, now_);
    sessions_.push_back(result.session);
    return result.status;
  }
  void serve(std::size_t admitted) { tenants_.serve("alice", sessions_.at(admitted)); }
  void leave(std::size_t admitted) { tenants_.leave("alice", sessions_.at(admitted)); }
  void pass(double seconds) { now_ += from_ms(seconds * 1e3); }

  Tenants tenants_;
  int next_ = 0;
  std::vector<std::string> sessions_;
  TimePoint now_ = TimePoint{} + std::chrono::hours(1);
};

TEST_F(QuotaTest, SessionsAtOnce) {
  limits("sessions=2");
  EXPECT_TRUE(admit().ok());
  EXPECT_TRUE(admit().ok());
  EXPECT_EQ(admit().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(tenants_.admit("bob", "0", 1, now_).status.ok()) << "others are not concerned";
  EXPECT_TRUE(tenants_.admit("alice", "1", 1, now_).status.ok()) << "a reconnect replaces";
  leave(1);
  EXPECT_FALSE(admit().ok());
  leave(1);
  EXPECT_TRUE(admit().ok());
}

TEST_F(QuotaTest, WithoutAKeyEachIsASessionOfItsOwn) {
  limits("sessions=2 queued-requests=2");
  const AdmissionResult first = tenants_.admit("alice", "", 1, now_);
  const AdmissionResult second = tenants_.admit("alice", "", 1, now_);
  EXPECT_TRUE(second.status.ok());
  EXPECT_NE(first.session, second.session);
  EXPECT_EQ(tenants_.admit("alice", "", 1, now_).status.code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(tenants_.admit("alice", first.session, 1, now_).status.code(),
            StatusCode::kResourceExhausted)
      << "its name is nobody's key";
  tenants_.leave("alice", first.session);
  EXPECT_TRUE(tenants_.admit("alice", "", 1, now_).status.ok());
}

TEST_F(QuotaTest, PromptTokensFlowIn) {
  limits("prompt-tokens-per-minute=600");
  EXPECT_TRUE(admit(700).ok()) << "the last that fits may take more than is left";
  const AdmissionResult refused = tenants_.admit("alice", "x", 1, now_);
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_GE(refused.retry_after, std::chrono::seconds(10));
  EXPECT_LE(refused.retry_after, std::chrono::seconds(15));
  EXPECT_NE(tenants_.admit("alice", "y", 1, now_).retry_after, refused.retry_after);
  pass(9);
  EXPECT_FALSE(admit().ok());
  pass(1.1);
  EXPECT_TRUE(admit().ok());
}

TEST_F(QuotaTest, RowsArePaidWhenTheyAreKnown) {
  limits("rows-per-second=10");
  EXPECT_TRUE(admit().ok());
  tenants_.charge("alice", 700, now_);  // the bucket had 600
  EXPECT_FALSE(admit().ok());
  pass(10.1);
  EXPECT_TRUE(admit().ok());
}

TEST_F(QuotaTest, RequestsThatWaitForTheirFirstToken) {
  limits("queued-requests=2");
  EXPECT_TRUE(admit().ok());
  EXPECT_TRUE(admit().ok());
  EXPECT_TRUE(tenants_.admit("alice", "0", 1, now_).status.ok()) << "a reconnect replaces";
  const AdmissionResult refused = tenants_.admit("alice", "x", 1, now_);
  EXPECT_EQ(refused.status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refused.status.message(), HasSubstr("queued-requests"));
  EXPECT_GT(refused.retry_after, Duration{0});
  serve(0);
  EXPECT_TRUE(admit().ok());
  EXPECT_FALSE(admit().ok());
  leave(1);
  EXPECT_TRUE(admit().ok());
  tenants_.serve("bob", "never seen");
}

TEST_F(QuotaTest, WhoIsBeyondHisRowsHasMoreWhenTheyHaveFlownIn) {
  limits("rows-per-second=10");
  tenants_.charge("alice", 600, now_);  // the burst of a minute
  EXPECT_LE(tenants_.rows_ready_at("alice"), now_);
  tenants_.charge("alice", 50, now_);
  EXPECT_EQ(tenants_.rows_ready_at("alice"), now_ + std::chrono::seconds(5));
  EXPECT_LE(tenants_.rows_ready_at("bob"), now_);
  tenants_.charge("bob", 1e9, now_);
  EXPECT_LE(tenants_.rows_ready_at("bob"), now_) << "has no limit";
}

TEST_F(QuotaTest, RightsAreGivenByWords) {
  limits("sessions=2 exact-times");
  EXPECT_TRUE(tenants_.limits_of("alice").exact_times);
  EXPECT_FALSE(tenants_.limits_of("alice").read_metrics);
  EXPECT_EQ(check_tier(&tenants_, "alice", ServiceTier::kPriority).code(),
            StatusCode::kPermissionDenied);
  EXPECT_TRUE(check_tier(&tenants_, "alice", ServiceTier::kFlex).ok());
  EXPECT_TRUE(check_tier(nullptr, "", ServiceTier::kPriority).ok()) << "no key is asked for";
  limits("priority");
  EXPECT_TRUE(check_tier(&tenants_, "alice", ServiceTier::kPriority).ok());
  limits("read-metrics sessions=2");
  EXPECT_FALSE(tenants_.limits_of("alice").exact_times);
  EXPECT_TRUE(tenants_.limits_of("alice").read_metrics);
  EXPECT_EQ(tenants_.limits_of("bob"), TenantLimits());
}

TEST_F(QuotaTest, AShareOfTheMemoryIsReadAsSizesAre) {
  limits("kv-memory=2G");
  EXPECT_EQ(tenants_.limits_of("alice").kv_bytes, std::int64_t{2} << 30);
  EXPECT_EQ(tenants_.limits_of("bob").kv_bytes, 0);
  EXPECT_THAT(tenants_.with_less_kv_than(std::int64_t{3} << 30), testing::ElementsAre("alice"));
  EXPECT_THAT(tenants_.with_less_kv_than(1), testing::IsEmpty());
}

}  // namespace
}  // namespace outrider
