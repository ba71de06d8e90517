// Servers with TLS and keys, and their clients. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <fstream>

#include "cloud_server/admission/authenticator.h"
#include "cloud_server/admission/tenants.h"
#include "cloud_server/admission/token_file.h"
#include "tests/unit/cloud_server/rpc/server_fixture.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {

// An authority, and certificates that the openssl program makes for it.
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
    rpc_options_.tls_interval = std::chrono::milliseconds(100);
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
  RemoteOptions edge_in_clear(const std::string& token) const {
    return {.server = address(), .token = token};
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
  // Answers with its key as soon as the server has read it.
  Status answer_when_renewed(RemoteOptions options) {
    Status status = unavailable("not tried");
    for (int i = 0; i < 40 && status.code() == StatusCode::kUnavailable; ++i) {
      status = answer(options);
      clock_.sleep_until(clock_.now() + std::chrono::milliseconds(250));
    }
    return status;
  }
  // Replaces this authority's file `name` by another authority's.
  void take(const TestAuthority& other, const std::string& name) const {
    std::ofstream(authority_.path(name)) << std::ifstream(other.path(name)).rdbuf();
  }

  const TestAuthority authority_;
  const NewToken alice_ = *new_token("alice");
  const NewToken bob_ = *new_token("bob");
  Tenants tenants_;
  Authenticator authenticator_{tenants_, true};
};

}  // namespace outrider
