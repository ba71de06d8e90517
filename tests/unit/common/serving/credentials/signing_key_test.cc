// SPDX-License-Identifier: Apache-2.0
#include "common/serving/credentials/signing_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::HasSubstr;

// RFC 8032, section 7.1, test 3.
TEST(SigningKey, ChecksTheRfcsExample) {
  const std::string key = "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025";
  const std::string signature =
      "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
      "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a";
  EXPECT_TRUE(is_signed_by(key, "\xaf\x82", signature));
  EXPECT_FALSE(is_signed_by(key, "\xaf\x83", signature));
  EXPECT_FALSE(is_signed_by(std::string(64, '0'), "\xaf\x82", signature));
  EXPECT_FALSE(is_signed_by(key, "\xaf\x82", signature.substr(2)));
  EXPECT_FALSE(is_signed_by("key", "\xaf\x82", signature));
}

class SigningKeyTest : public testing::Test {
 protected:
  std::string path(const std::string& name) const { return directory_.path() + "/" + name; }
  TestDirectory directory_;
};

TEST_F(SigningKeyTest, AWrittenKeyIsItsOwnersAloneAndSigns) {
  const Result<std::string> written = write_new_signing_key(path("key"));
  ASSERT_TRUE(written.ok()) << written.status().to_string();
  struct stat about {};
  ASSERT_EQ(stat(path("key").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600u);
  const Result<SigningKey> key = SigningKey::read(path("key"));
  ASSERT_TRUE(key.ok()) << key.status().to_string();
  EXPECT_EQ(key->public_key(), *written);
  EXPECT_TRUE(is_signed_by(*written, "text", key->sign("text")));
  EXPECT_FALSE(is_signed_by(*written, "texts", key->sign("text")));
  EXPECT_FALSE(is_signed_by(SigningKey::make()->public_key(), "text", key->sign("text")));
  EXPECT_THAT(write_new_signing_key(path("key")).status().message(), HasSubstr("is there already"));
}

TEST_F(SigningKeyTest, AKeyThatOthersMayUseIsRefused) {
  ASSERT_TRUE(write_new_signing_key(path("key")).ok());
  for (const mode_t mode : {0640u, 0660u, 0604u}) {
    ASSERT_EQ(chmod(path("key").c_str(), mode), 0);
    const Status status = SigningKey::read(path("key")).status();
    EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition) << mode;
    EXPECT_THAT(status.message(), HasSubstr("Remedy: chmod"));
  }
}

TEST_F(SigningKeyTest, OtherFilesAreNoKeys) {
  std::ofstream(path("text")) << "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
  ASSERT_EQ(chmod(path("text").c_str(), 0600), 0);
  EXPECT_THAT(SigningKey::read(path("text")).status().message(), HasSubstr("no Ed25519 key"));
  EXPECT_FALSE(SigningKey::read(path("none")).ok());
}

TEST_F(SigningKeyTest, APublicKeyIsDigitsOrAFileOfThem) {
  const std::string key(64, 'a');
  EXPECT_EQ(*read_public_key(key), key);
  std::ofstream(path("public")) << key << "\n";
  EXPECT_EQ(*read_public_key(path("public")), key);
  EXPECT_THAT(read_public_key("abc").status().message(), HasSubstr("'abc' is no public key"));
  EXPECT_FALSE(read_public_key(std::string(64, 'A')).ok());
}

}  // namespace
}  // namespace outrider
