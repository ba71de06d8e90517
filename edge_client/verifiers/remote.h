// The verifier in the data centre: one gRPC stream per generation (proto/outrider/v1).
//
//   RemoteVerifier verifier({.server = *parse_address("127.0.0.1:8001")});
//   verifier.start(1, sink);
//   verifier.send({.body = Open{..}});           // connects; failure arrives as StreamEnded
//
// describe() may come before, and its connection serves the stream that follows. A channel that
// carried a stream to its end serves the next one. A stream that failed takes its
// channel with it, so that each start() after a failure is one fresh attempt: waiting between
// attempts is the session's business, never gRPC's.
//
// Errors (StreamEnded): UNAVAILABLE for a link or server that is away, with the address and the
// reason; INTERNAL for a peer that does not speak the protocol; else what the server said. A full
// server's delay arrives before it as Notice{kOverloaded}.
//
// Thread rule: as Verifier says; events come on gRPC's threads, one at a time. stop() waits for the
// event in delivery, so a sink must not call it. describe() and the counts of bytes are for any
// thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "common/base/address.h"
#include "common/base/mutex.h"
#include "common/base/request_headers.h"
#include "common/decoding/protocol/target_description.h"
#include "common/decoding/protocol/verifier.h"

namespace grpc {
class Channel;
}

namespace outrider {

class ChannelSource;
class RemoteCall;

// The messages that a link has carried, and their bytes. With gRPC's and HTTP/2's framing, but
// without headers, TCP and IP: payload + kFramingBytes * messages.
struct LinkBytes {
  std::uint64_t messages_up = 0;
  std::uint64_t payload_up = 0;
  std::uint64_t messages_down = 0;
  std::uint64_t payload_down = 0;

  std::uint64_t framed_up() const;
  std::uint64_t framed_down() const;
};

// Counts them. Thread rule: any thread.
class LinkCounters final {
 public:
  void add_up(std::size_t bytes) {
    messages_up_.fetch_add(1, std::memory_order_relaxed);
    payload_up_.fetch_add(bytes, std::memory_order_relaxed);
  }
  void add_down(std::size_t bytes) {
    messages_down_.fetch_add(1, std::memory_order_relaxed);
    payload_down_.fetch_add(bytes, std::memory_order_relaxed);
  }
  LinkBytes bytes() const {
    return {messages_up_.load(std::memory_order_relaxed),
            payload_up_.load(std::memory_order_relaxed),
            messages_down_.load(std::memory_order_relaxed),
            payload_down_.load(std::memory_order_relaxed)};
  }

 private:
  std::atomic<std::uint64_t> messages_up_{0};
  std::atomic<std::uint64_t> payload_up_{0};
  std::atomic<std::uint64_t> messages_down_{0};
  std::atomic<std::uint64_t> payload_down_{0};
};

struct RemoteOptions {
  Address server;
  Duration connect_timeout = std::chrono::seconds(5);  // name look-up, TCP and HTTP/2 together
  // Files in PEM form. ca: the authorities that are trusted, "system" for those that this
  // machine trusts; empty: plaintext. cert and key: shown to the server; empty: none.
  std::string tls_ca = {};
  std::string tls_cert = {};
  std::string tls_key = {};
  bool pad_frames = false;  // messages of one size, and as many for each pass, either way
  std::string token = {};   // the key that goes with every call; empty: none
};

// The texts of an edge's TLS files, each checked.
struct TlsTexts {
  std::string authorities;
  std::string certificates;  // with key; empty: none is shown
  std::string key;
};

// An error that names the file and the remedy, if one of TLS cannot be used.
Result<TlsTexts> read_tls_texts(const RemoteOptions& options);

class RemoteVerifier final : public Verifier {
 public:
  explicit RemoteVerifier(RemoteOptions options);
  // An error that names the file and the remedy, if one of TLS cannot be used.
  static Status check_files(const RemoteOptions& options);
  ~RemoteVerifier() override;
  RemoteVerifier(const RemoteVerifier&) = delete;
  RemoteVerifier& operator=(const RemoteVerifier&) = delete;

  void start(std::uint32_t epoch, EventSink sink) override;
  void send(EdgeMessage message) override;
  void stop() override;
  // After stop(): the next stream has a connection of its own.
  void disconnect();
  // Blocks, and returns the server's description of its target. UNIMPLEMENTED by a server that is
  // older than this, or has no tokenizer; CANCELLED; INTERNAL for an answer that is no description;
  // else the errors of calls.
  Result<TargetDescription> describe(const std::stop_token& stop);

  // Sets x-request-id, the trace's context and the prefix by which proxies route, for the streams
  // of the next answer; empty: none is sent. On the thread of start().
  void name_request(std::string id, TraceHeaders trace = {}, std::string prefix = {}) {
    request_id_ = std::move(id);
    trace_ = std::move(trace);
    prefix_ = std::move(prefix);
    attempt_ = 0;
  }

  // The bytes of streams, and of describe().
  LinkBytes link_bytes() const { return counters_.bytes(); }
  LinkBytes described_bytes() const { return described_.bytes(); }

 private:
  std::shared_ptr<grpc::Channel> shared_channel();
  void drop_if_lost(const std::shared_ptr<grpc::Channel>& channel, const Status& status);

  const RemoteOptions options_;
  LinkCounters counters_;
  LinkCounters described_;
  std::string request_id_;
  TraceHeaders trace_;
  std::string prefix_;
  int attempt_ = 0;  // streams of this answer that no server took
  Mutex mu_;
  const std::unique_ptr<ChannelSource> channels_ OUTRIDER_GUARDED_BY(mu_);
  std::shared_ptr<grpc::Channel> channel_ OUTRIDER_GUARDED_BY(mu_);  // null: none, or it failed
  std::unique_ptr<RemoteCall> call_;  // null before the first start()
  bool started_ = false;              // call_: its first message was sent
};

}  // namespace outrider
