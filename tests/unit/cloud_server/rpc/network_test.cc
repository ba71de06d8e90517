// A host has a /64 of IPv6: what bounds an address bounds all of that. In a network of its own, as
// the loopback has one such address only. SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <optional>
#include <thread>

#include "common/base/posix.h"
#include "emulation/process/net_namespace.h"
#include "proto/codec.h"
#include "tests/support/eventually.h"
#include "tests/unit/cloud_server/rpc/raw_socket.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"

namespace outrider {
namespace {

// Gives the loopback one more. As <linux/ipv6.h>, which does not go with the C library's headers.
bool add_to_loopback(const char* address) {
  struct {
    in6_addr address;
    std::uint32_t prefix_length;
    int interface;
  } request{
      .address = {}, .prefix_length = 64, .interface = static_cast<int>(if_nametoindex("lo"))};
  inet_pton(AF_INET6, address, &request.address);
  const UniqueFd any(socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!any.valid() || ioctl(any.get(), SIOCSIFADDR, &request) != 0) return false;
  sockaddr_in6 own{};
  own.sin6_family = AF_INET6;
  own.sin6_addr = request.address;
  for (int i = 0; i < 1000; ++i) {  // the kernel makes it usable a little later
    if (bind(any.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own) == 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

class NetworkTest : public ServerTest {
 protected:
  static constexpr const char* kOurs[] = {"fd00:7::1", "fd00:7::2", "fd00:7::9:0:1"};
  static constexpr const char* kOther = "fd00:0:0:8::1";

  void SetUp() override {
    const Result<NetNamespace> made = NetNamespace::create();
    if (!made.ok()) GTEST_SKIP() << made.status().message();
    there_.emplace(*InNamespace::enter(made->fd()));
    bool have_all = add_to_loopback(kOther);
    for (const char* address : kOurs) have_all = have_all && add_to_loopback(address);
    if (!have_all) GTEST_SKIP() << "there is no IPv6 here";
    rpc_options_.listen = {kOther, 0};
    engine_ = std::make_unique<VerifyEngine>(model_, scheduler_options_, clock_);
  }
  // Without a bystander, whose sockets are gRPC's own.
  void start() {
    Result<std::unique_ptr<RpcServer>> server = RpcServer::start(*engine_, faults_, rpc_options_);
    ASSERT_TRUE(server.ok()) << server.status().to_string();
    server_ = *std::move(server);
  }
  // Until `value` is so much.
  template <typename Value>
  void await(Value value, std::uint64_t wanted) {
    EXPECT_TRUE(eventually([&] { return value() == wanted; })) << value() << " of " << wanted;
  }
  // The beginning of a call that says no more.
  static std::string call_of(const char* path) {
    return http2::hello() +
           http2::frame(http2::Frame::kHeaders, http2::kEndHeaders, 1,
                        http2::header(":method", "POST") + http2::header(":scheme", "http") +
                            http2::header(":path", path) + http2::header(":authority", "here") +
                            http2::header("te", "trailers") +
                            http2::header("content-type", "application/grpc"));
  }

  std::optional<InNamespace> there_;
};

TEST_F(NetworkTest, ItsConnectionsAreBoundedTogether) {
  rpc_options_.max_connections_per_peer = 2;
  start();
  ASSERT_NE(server_, nullptr);
  RawSocket first(address(), kOurs[0]), second(address(), kOurs[1]), third(address(), kOurs[2]);
  ASSERT_TRUE(first.connected() && second.connected() && third.connected());
  EXPECT_EQ(third.read_until_closed(), "");
  RawSocket other(address(), kOther);
  await([this] { return server_->stats().connections.open; }, 3);
  EXPECT_EQ(server_->stats().connections.refused, 1u);
}

TEST_F(NetworkTest, ItsCallsOfEveryKindAreBoundedTogether) {
  rpc_options_.max_calls_per_peer = 2;
  start();
  ASSERT_NE(server_, nullptr);
  RawSocket first(address(), kOurs[0]), second(address(), kOurs[1]), other(address(), kOther);
  const auto calls = [this] { return server_->stats().calls_open; };
  ASSERT_TRUE(first.send(call_of(kGenerateMethod)));
  await(calls, 1);
  ASSERT_TRUE(second.send(call_of(kMeasureMethod)));
  await(calls, 2);
  for (const char* path : {kGenerateMethod, kMeasureMethod}) {
    RawSocket third(address(), kOurs[2]);
    ASSERT_TRUE(third.send(call_of(path)));
    EXPECT_TRUE(third.read_until("this address has as many open calls as allowed, 2")) << path;
  }
  ASSERT_TRUE(other.send(call_of(kGenerateMethod)));
  await(calls, 3);
}

}  // namespace
}  // namespace outrider
