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
  EXPECT_EQ((Address{"[::1]", 1}.to_string()), "[::1]:1");
}

TEST(Address, RefusesWhatIsNotOne) {
  for (const char* text : {"", "host", ":8001", "host:", "host:70000", "host:-1", "host:80x",
                           "::1:8001", "[]:8001", "host: 80", "host:99999999999999"}) {
    Result<Address> address = parse_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_NE(address.status().message().find("write HOST:PORT"), std::string::npos);
  }
}

TEST(Address, SaysWhatDoesNotBelongToOne) {
  for (const char* text : {"http://127.0.0.1:8001", "https://robot", "dns:///robot:8001"}) {
    const std::string message = parse_address(text).status().message();
    EXPECT_NE(message.find("://', which does not belong"), std::string::npos) << message;
    EXPECT_EQ(message.find("IPv6 address without"), std::string::npos) << message;
  }
  for (const char* text : {"ro bot:1", "robot\n:1",
                           "r\xC3\xB6"
                           "bot:1",
                           "user@robot:1", "robot/x:1"}) {
    EXPECT_FALSE(parse_address(text).ok()) << text;
  }
  EXPECT_EQ(parse_address("[fe80::1%eth0]:1")->host, "fe80::1%eth0");
}

TEST(Address, AUnixSocketIsRefusedByName) {
  for (const char* text : {"unix:/run/outrider", "unix:///run/outrider", "unix-abstract:outrider",
                           "/run/outrider:8001"}) {
    const std::string message = parse_address(text).status().message();
    EXPECT_NE(message.find("Unix socket, and Outrider speaks TCP only"), std::string::npos)
        << message;
  }
}

TEST(Address, OnlyLiteralLoopbackIsLoopback) {
  for (const char* host :
       {"localhost", "LocalHost", "localhost.", "127.0.0.1", "127.200.3.4", "::1", "[::1]",
        "0:0:0:0:0:0:0:1", "::ffff:127.0.0.1", "[::ffff:127.0.0.1]"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "localhost.example.com", "", "127.1",
                           "::ffff:10.0.0.1", "[localhost", "localhost..", "."}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(Address, AHostIsItsIPv4AddressOrItsIPv6Network) {
  EXPECT_EQ(network_of("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(network_of("2001:db8:0:7::1"), "2001:db8:0:7::/64");
  EXPECT_EQ(network_of("2001:db8:0:7:1:2:3:4"), network_of("2001:DB8:0:7:ffff::9"));
  EXPECT_NE(network_of("2001:db8:0:7::1"), network_of("2001:db8:0:8::1"));
  for (const char* same : {"::ffff:192.0.2.1", "::ffff:c000:201", "64:ff9b::192.0.2.1"}) {
    EXPECT_EQ(network_of(same), "192.0.2.1") << same;
  }
  EXPECT_NE(network_of("::ffff:192.0.2.1"), network_of("::ffff:192.0.2.2"));
  EXPECT_EQ(network_of("::1"), "::1");
  EXPECT_EQ(network_of("fe80::1"), "fe80::1") << "all hosts of a link have its /64";
  for (const char* other : {"", "robot.local", "fe80::1%eth0", "1.2.3", "unix:/run/x"}) {
    EXPECT_EQ(network_of(other), other);
  }
}

}  // namespace
}  // namespace outrider
