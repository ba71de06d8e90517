// Vectors: FIPS 180-4 examples (NIST). SPDX-License-Identifier: Apache-2.0
#include "common/base/sha256.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

std::string sha256(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish_hex();
}

TEST(Sha256, GivesTheStandardsDigests) {
  EXPECT_EQ(sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, DoesNotDependOnHowTheBytesAreCut) {
  std::string bytes;
  for (int i = 0; i < 200; ++i) bytes += static_cast<char>(i);
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    Sha256 hash;
    hash.update(std::string_view(bytes).substr(0, cut));
    hash.update(std::string_view(bytes).substr(cut));
    EXPECT_EQ(hash.finish_hex(), sha256(bytes)) << cut;
  }
}

}  // namespace
}  // namespace outrider
