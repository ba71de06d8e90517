// Which files of certificates and keys are accepted, and which never reach TLS.
// SPDX-License-Identifier: Apache-2.0
#include "common/serving/credentials/certificates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class CertificateTest : public testing::Test {
 protected:
  // Written by the openssl program.
  void make(const std::string& name, int days = 2) {
    const std::string at = path(name);
    const std::string command =
        "(openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=localhost "
        "-keyout " +
        at + ".key -out " + at + ".csr && openssl x509 -req -in " + at + ".csr -signkey " + at +
        ".key -days " + std::to_string(days) + " -out " + at + ".pem) 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
    chmod((at + ".key").c_str(), 0600);
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  TlsFiles files(const std::string& cert, const std::string& key) const {
    return {.cert = path(cert), .key = path(key), .client_ca = {}};
  }

  const TestDirectory folder_;
};

TEST_F(CertificateTest, APairThatFitsIsFine) {
  make("a");
  EXPECT_EQ(check_tls_files(files("a.pem", "a.key")), Status());
  TlsFiles mutual = files("a.pem", "a.key");
  mutual.client_ca = path("a.pem");
  EXPECT_EQ(check_tls_files(mutual), Status());
  EXPECT_EQ(check_tls_files({}), Status()) << "no TLS";
}

// No handshake would succeed with it.
TEST_F(CertificateTest, AShortKeyIsRefused) {
  const std::string command = "cd " + folder_.path() +
                              " && openssl req -x509 -newkey rsa:1024 -nodes -subj /CN=x -days 2 "
                              "-keyout weak.key -out weak.pem 2>/dev/null && chmod 600 weak.key";
  ASSERT_EQ(std::system(command.c_str()), 0);
  EXPECT_THAT(check_tls_files(files("weak.pem", "weak.key")).message(),
              AllOf(HasSubstr("weak.pem"), HasSubstr("RSA with 2048 bits")));
}

TEST_F(CertificateTest, WhatDoesNotFitIsNamed) {
  make("a");
  make("b");
  EXPECT_THAT(check_tls_files(files("a.pem", "b.key")).message(), HasSubstr("is not the key of"));
  EXPECT_THAT(check_tls_files({.cert = path("a.pem"), .key = {}, .client_ca = {}}).message(),
              HasSubstr("belong together"));
  EXPECT_THAT(check_tls_files(files("none.pem", "a.key")).message(), HasSubstr("none.pem"));
  EXPECT_THAT(check_tls_files(files("a.key", "a.key")).message(), HasSubstr("no certificate"));
  chmod(path("a.pem").c_str(), 0600);
  EXPECT_THAT(check_tls_files(files("a.pem", "a.pem")).message(), HasSubstr("no private key"));
  chmod(path("a.key").c_str(), 0644);
  EXPECT_THAT(check_tls_files(files("a.pem", "a.key")).message(), HasSubstr("chmod o-r"));
}

TEST_F(CertificateTest, AnExpiredOneIsRefusedAtTheStart) {
  make("old", -1);
  EXPECT_THAT(check_tls_files(files("old.pem", "old.key")).message(), HasSubstr("expired"));
}

class AuthoritiesTest : public CertificateTest {
 protected:
  AuthoritiesTest() { make("a"); }
  std::string pem() const {
    std::ifstream in(path("a.pem"));
    return std::string(std::istreambuf_iterator<char>(in), {});
  }
  Result<std::string> read(const std::string& text) const {
    std::ofstream(path("ca.pem")) << text;
    return read_authorities(path("ca.pem"));
  }
};

TEST_F(AuthoritiesTest, OneOrMoreWholeCertificatesAreTaken) {
  EXPECT_EQ(*read(pem()), pem());
  EXPECT_TRUE(read("our authority\n" + pem() + "\nand the next\n" + pem()).ok());
}

// gRPC would use the system's authorities for an empty text, and those before the damage.
TEST_F(AuthoritiesTest, AFileThatNamesNobodyOrIsDamagedIsRefused) {
  for (const char* text : {"", "\n", "no certificate\n", "\xEF\xBB\xBF"}) {
    EXPECT_THAT(read(text).status().message(),
                AllOf(HasSubstr("ca.pem"), HasSubstr("holds no certificate")));
  }
  const std::string torn = pem().substr(0, pem().size() / 2);
  EXPECT_THAT(read(torn).status().message(), HasSubstr("certificate 1 in it is damaged"));
  EXPECT_THAT(read(pem() + torn).status().message(), HasSubstr("certificate 2 in it is damaged"));
  std::string wrong = pem();
  wrong[wrong.size() / 2] = '*';
  EXPECT_FALSE(read(wrong).ok());
  std::ifstream key(path("a.key"));
  EXPECT_FALSE(read(std::string(std::istreambuf_iterator<char>(key), {})).ok());
  EXPECT_EQ(read_authorities(path("none.pem")).status().code(), StatusCode::kNotFound);
}

TEST_F(AuthoritiesTest, AFileThatEverybodyMayWriteIsRefused) {
  ASSERT_TRUE(read(pem()).ok());
  ASSERT_EQ(chmod(path("ca.pem").c_str(), 0646), 0);
  EXPECT_THAT(read_authorities(path("ca.pem")).status().message(), HasSubstr("chmod o-rw"));
}

TEST_F(AuthoritiesTest, AServerRefusesThemTooAndADamagedChain) {
  TlsFiles mutual = files("a.pem", "a.key");
  mutual.client_ca = path("ca.pem");
  ASSERT_TRUE(read(pem()).ok());
  EXPECT_EQ(check_tls_files(mutual), Status());
  ASSERT_FALSE(read("").ok());
  EXPECT_THAT(check_tls_files(mutual).message(), HasSubstr("holds no certificate"));
  ASSERT_FALSE(read(pem() + pem().substr(0, pem().size() / 2)).ok());
  EXPECT_THAT(check_tls_files(mutual).message(), HasSubstr("certificate 2"));
  EXPECT_THAT(check_tls_files(files("ca.pem", "a.key")).message(), HasSubstr("certificate 2"));
}

}  // namespace
}  // namespace outrider
