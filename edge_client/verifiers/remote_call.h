// One gRPC stream of the remote verifier, from StartCall to OnDone.
//
//   start  send*  stop
//
// gRPC's reactions deliver events in order, as each read is asked for after the last one was
// handled. The owner's thread destroys it: were a gRPC thread to let go of the channel last, it
// would wait for its own end.
//
// The last message is Usage. This side then closes its half, so that the server's end meets a
// stream on which nothing is under way: a server that ends first has to reset the stream, and some
// proxies (HAProxy 2.6) then drop what they have not passed on yet. The answer does not wait for
// the round trip that this takes: StreamEnded follows Usage at once, and the call ends by itself,
// behind stop().
//
// Thread rule: start, send, stop, channel_is_good and the destructor from one thread; the sink is
// called on gRPC's threads, one at a time, and must not call stop(). Ownership: the counters
// outlive it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/decoding/protocol/verifier.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {

// A stream's messages as bytes, padded if the edge or its server wants that: all of one size, and
// at least kPaddedMessagesPerPass for each pass (proto/frame_padding.h).
// Thread rule: owned by its stream's lock.
class PaddedMessages final {
 public:
  explicit PaddedMessages(bool on) : on_(on) {}

  // From the next message on.
  void turn_on() { on_ = true; }

  std::string serialize(const EdgeMessage& message);

  // At a verdict: what its pass lacks in messages. They only acknowledge, once more.
  std::vector<std::string> fill_up();

 private:
  bool on_;
  int of_pass_ = 0;  // since the last verdict
  EdgeMessage last_acknowledged_;
};

// A remedy for the status of a call that ended before its server answered anything: a sentence to
// append, or empty.
std::string remedy_of(const Status& status, const RemoteOptions& options);

class RemoteCall final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  using Sink = std::function<void(VerifierEvent)>;

  RemoteCall(RemoteOptions options, Sink sink, LinkCounters& counters)
      : options_(std::move(options)),
        sink_(std::move(sink)),
        counters_(counters),
        messages_(options_.pad_frames) {}
  // Cancels a stream that has not ended yet, and waits for its end.
  ~RemoteCall() override;
  RemoteCall(const RemoteCall&) = delete;
  RemoteCall& operator=(const RemoteCall&) = delete;

  // The fields that go with the call's headers; empty ones do not.
  struct Metadata {
    // By these proxies route (proto/byte_buffer.h).
    std::string session_key;
    std::string prefix;
    int attempt = 0;
    std::string token;
    std::string request_id;  // for the server's log
    TraceHeaders trace;
  };
  void start(const std::shared_ptr<grpc::Channel>& channel, const Metadata& metadata);
  void send(const EdgeMessage& message);
  // Ends the stream, and waits for the event in delivery; none follows.
  void stop();
  // False once the stream failed: its channel should not be used again.
  bool channel_is_good();
  // Whether it ended before the server had taken the answer.
  bool was_turned_away();

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnWritesDoneDone(bool ok) override;
  void OnDone(const grpc::Status& grpc_status) override;

  bool take(std::string_view bytes);
  void note(const ServerMessage& message);
  void fill_up_pass();
  void deliver(VerifierEvent event);
  void complete();
  void cancel();
  void start_write();
  void after_write(bool ok);
  bool take_next_write() OUTRIDER_REQUIRES(mu_);
  void close();
  bool take_hold() OUTRIDER_REQUIRES(mu_);
  Status end_status(const grpc::Status& grpc_status);

  const RemoteOptions options_;
  const Sink sink_;
  LinkCounters& counters_;
  grpc::ClientContext context_;

  // gRPC's reactions only.
  grpc::ByteBuffer read_buffer_;
  bool saw_overloaded_ = false;

  Mutex mu_;
  CondVar changed_;  // delivering_ or done_
  PaddedMessages messages_ OUTRIDER_GUARDED_BY(mu_);
  std::deque<grpc::ByteBuffer> waiting_ OUTRIDER_GUARDED_BY(mu_);
  grpc::ByteBuffer write_buffer_;  // under mu_; gRPC's while writing_
  // Found by this side; stands before gRPC's.
  Status fault_ OUTRIDER_GUARDED_BY(mu_);
  bool writing_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool half_closed_ = false;  // as write_buffer_: the write on its way is the end of all writes
  bool held_ OUTRIDER_GUARDED_BY(mu_) = true;
  bool closed_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool opened_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool complete_ OUTRIDER_GUARDED_BY(mu_) = false;  // Usage came
  bool ended_ OUTRIDER_GUARDED_BY(mu_) = false;     // StreamEnded was delivered
  bool delivering_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool started_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool stopped_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool ended_well_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool turned_away_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool done_ OUTRIDER_GUARDED_BY(mu_) = false;
};

}  // namespace outrider
