// SPDX-License-Identifier: Apache-2.0
#include "common/base/address.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

TEST(Address, ReadsNamesAndLiterals) {
  EXPECT_EQ(parse_address("robot.local:8001")->host, "robot.local");
  EXPECT_EQ(parse_address("robot.local:8001")->port, 8001);
  EXPECT_EQ(parse_address("[::1]:0")->host, "::1");
  EXPECT_EQ(parse_address("[::1]:65535")->to_string(), "[::1]:65535");
  EXPECT_EQ(parse_address("10.0.0.7:1")->to_string(), "10.0.0.7:1");
}

TEST(Address, RefusesWhatIsNotOne) {
  for (const char* text : {"", "host", ":8001", "host:", "host:70000", "host:-1", "host:80x",
                           "::1:8001", "[]:8001", "host: 80", "host:99999999999999"}) {
    Result<Address> address = parse_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.status().message().find("write HOST:PORT"), std::string::npos);
  }
}

TEST(Address, OnlyLiteralLoopbackIsLoopback) {
  for (const char* host : {"localhost", "127.0.0.1", "127.200.3.4", "::1"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "", "127.1"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace outrider
