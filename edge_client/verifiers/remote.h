// The verifier in the data centre: one gRPC stream per generation (proto/outrider/v1).
//
//   RemoteVerifier verifier({.server = *parse_address("127.0.0.1:8001")});
//   verifier.start(1, sink);
//   verifier.send({.body = Open{..}});           // connects; failure arrives as StreamEnded
//
// A channel that carried a stream to its end serves the next one. A stream that failed takes its
// channel with it, so that each start() after a failure is one fresh attempt: waiting between
// attempts is the session's business, never gRPC's.
//
// Errors (StreamEnded): UNAVAILABLE for a link or server that is away, with the address and the
// reason; INTERNAL for a peer that does not speak the protocol; else what the server said. A full
// server's delay arrives before it as Notice{kOverloaded}.
//
// Thread rule: as Verifier says; events come on gRPC's threads, one at a time. stop() waits for the
// event in delivery, so a sink must not call it. link_bytes() may be read from anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "common/base/address.h"
#include "common/protocol/verifier.h"
#include "edge_client/verifiers/link_bytes.h"

namespace grpc {
class Channel;
}

namespace outrider {

class RemoteCall;

struct RemoteOptions {
  Address server;
  Duration connect_timeout = std::chrono::seconds(5);  // name look-up, TCP and HTTP/2 together
  // Files in PEM form. ca: whose servers are believed, "system" for those that this machine
  // believes; empty: plaintext. cert and key: shown to the server; empty: none.
  std::string tls_ca = {};
  std::string tls_cert = {};
  std::string tls_key = {};
  bool pad_frames = false;  // messages of one size, and as many for each pass, either way
  std::string token = {};   // the key that goes with every call; empty: none
};

class RemoteVerifier final : public Verifier {
 public:
  explicit RemoteVerifier(RemoteOptions options);
  // An error that names the file, if one of TLS cannot be read.
  static Status check_files(const RemoteOptions& options);
  ~RemoteVerifier() override;
  RemoteVerifier(const RemoteVerifier&) = delete;
  RemoteVerifier& operator=(const RemoteVerifier&) = delete;

  void start(std::uint32_t epoch, EventSink sink) override;
  void send(EdgeMessage message) override;
  void stop() override;
  // After stop(): the next stream has a connection of its own.
  void disconnect();

  // What goes as x-request-id with the streams that start from now on; empty: nothing. On the
  // thread of start().
  void name_request(std::string id) { request_id_ = std::move(id); }

  LinkBytes link_bytes() const { return counters_.bytes(); }

 private:
  const RemoteOptions options_;
  LinkCounters counters_;
  std::string request_id_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<RemoteCall> call_;  // null before the first start()
  bool started_ = false;              // call_: its first message was sent
};

}  // namespace outrider
