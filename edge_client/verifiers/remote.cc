// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/remote.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/grpc_status.h"

namespace outrider {
namespace {

// What may wait for a link that does not move. An honest session owes far less: it waits for
// verdicts, and its living nodes are limited.
constexpr std::size_t kMaxWaitingMessages = 4096;

int to_millis(Duration duration) {
  return static_cast<int>(to_ms(duration));
}

std::shared_ptr<grpc::Channel> make_channel(const RemoteOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(kKeepaliveTime.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(kKeepaliveTimeout.count()));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes));
  arguments.SetInt(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, static_cast<int>(kMaxMessageBytes));
  // gRPC's name for the time one attempt to connect may take.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, to_millis(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_DNS_ARES_QUERY_TIMEOUT_MS, to_millis(options.connect_timeout));
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a new channel is a new connection
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);             // a stream is resumed by its session
  if (is_loopback(options.server.host)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(options.server.to_string(), grpc::InsecureChannelCredentials(),
                                   arguments);
}

}  // namespace

std::uint64_t LinkBytes::framed_up() const {
  return payload_up + kFramingBytes * messages_up;
}
std::uint64_t LinkBytes::framed_down() const {
  return payload_down + kFramingBytes * messages_down;
}

// One stream. gRPC's reactions deliver events in order, as each read is asked for after the last
// one was handled. The owner's thread destroys it, after stop(): were a gRPC thread to let go of
// the channel last, it would wait for its own end.
class RemoteVerifier::Call final
    : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Call(std::string server, EventSink sink, Counters& counters)
      : server_(std::move(server)), sink_(std::move(sink)), counters_(counters) {}

  void start(const std::shared_ptr<grpc::Channel>& channel) {
    grpc::GenericStub(channel).PrepareBidiStreamingCall(&context_, kGenerateMethod,
                                                        grpc::StubOptions(), this);
    AddHold();  // send() starts writes from outside gRPC's reactions
    StartRead(&read_buffer_);
    StartCall();
  }

  void send(const EdgeMessage& message) {
    grpc::ByteBuffer buffer;
    {
      const std::string bytes = serialize(message);
      counters_.messages_up.fetch_add(1, std::memory_order_relaxed);
      counters_.payload_up.fetch_add(bytes.size(), std::memory_order_relaxed);
      buffer = to_buffer(bytes);
    }
    std::unique_lock lock(mu_);
    if (closed_) return;
    if (waiting_.size() >= kMaxWaitingMessages) {
      fault_ = unavailable("the link to " + server_ + " stands still: " +
                           std::to_string(waiting_.size()) + " messages wait to be sent");
      lock.unlock();
      context_.TryCancel();
      return;
    }
    waiting_.push_back(std::move(buffer));
    write_next(std::move(lock));
  }

  // Ends the stream and waits until its last event is delivered or dropped.
  void stop() {
    {
      const std::lock_guard lock(mu_);
      stopped_ = true;
    }
    context_.TryCancel();
    std::unique_lock lock(mu_);
    done_changed_.wait(lock, [this] { return done_; });
  }

  // False once the stream failed: its channel should not be used again.
  bool channel_is_good() {
    const std::lock_guard lock(mu_);
    return !done_ || ended_well_;
  }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) {
      close();
      return;
    }
    const std::string bytes = to_bytes(read_buffer_);
    counters_.messages_down.fetch_add(1, std::memory_order_relaxed);
    counters_.payload_down.fetch_add(bytes.size(), std::memory_order_relaxed);
    Result<ServerMessage> message = parse_server_message(bytes);
    if (!message.ok()) {
      {
        const std::lock_guard lock(mu_);
        fault_ = internal_error(server_ + " broke the protocol: " + message.status().message());
      }
      context_.TryCancel();
      close();
      return;
    }
    saw_opened_ = saw_opened_ || std::holds_alternative<Opened>(*message);
    saw_usage_ = saw_usage_ || std::holds_alternative<Usage>(*message);
    const auto* notice = std::get_if<Notice>(&*message);
    saw_overloaded_ =
        saw_overloaded_ || (notice != nullptr && notice->kind == Notice::Kind::kOverloaded);
    deliver(*std::move(message));
    StartRead(&read_buffer_);
  }

  void OnWriteDone(bool ok) override {
    std::unique_lock lock(mu_);
    writing_ = false;
    if (closed_ || !ok) {
      // A failed write is followed by a failed read, which closes.
      if (closed_) release_hold(std::move(lock));
      return;
    }
    write_next(std::move(lock));
  }

  void OnDone(const grpc::Status& grpc_status) override {
    const std::optional<Duration> delay = retry_delay(grpc_status);
    if (delay && !saw_overloaded_) {
      deliver(ServerMessage(Notice{Notice::Kind::kOverloaded, *delay}));
    }
    const Status status = end_status(grpc_status);
    deliver(StreamEnded{status});
    const std::lock_guard lock(mu_);
    ended_well_ = status.ok() || stopped_;
    done_ = true;
    done_changed_.notify_all();
  }

  void deliver(VerifierEvent event) {
    {
      const std::lock_guard lock(mu_);
      if (stopped_) return;
    }
    sink_(std::move(event));
  }

  // Takes the lock over. gRPC allows one write at a time.
  void write_next(std::unique_lock<std::mutex> lock) {
    if (writing_ || waiting_.empty()) return;
    write_buffer_ = waiting_.front();  // shares the bytes
    waiting_.pop_front();
    writing_ = true;
    lock.unlock();
    StartWrite(&write_buffer_);
  }

  // No read will come: no further write may start, and the one on its way is waited for.
  void close() {
    std::unique_lock lock(mu_);
    closed_ = true;
    waiting_.clear();
    release_hold(std::move(lock));
  }

  // Once, when closed and no write is on its way.
  void release_hold(std::unique_lock<std::mutex> lock) {
    if (writing_ || !std::exchange(held_, false)) return;
    lock.unlock();
    RemoveHold();
  }

  Status end_status(const grpc::Status& grpc_status) {
    {
      const std::lock_guard lock(mu_);
      if (!fault_.ok()) return fault_;
    }
    if (saw_usage_) return {};
    if (grpc_status.ok()) {
      return unavailable(server_ + " ended the stream before the answer was complete");
    }
    const Status status = from_grpc(grpc_status);
    if (status.code() != StatusCode::kUnavailable) return status.with_context(server_);
    return status.with_context(saw_opened_ ? "lost the link to " + server_
                                           : "cannot reach a server at " + server_);
  }

  const std::string server_;
  const EventSink sink_;
  Counters& counters_;
  grpc::ClientContext context_;

  // gRPC's reactions only.
  grpc::ByteBuffer read_buffer_;
  bool saw_opened_ = false;
  bool saw_usage_ = false;
  bool saw_overloaded_ = false;

  std::mutex mu_;  // guards what follows
  std::condition_variable done_changed_;
  std::deque<grpc::ByteBuffer> waiting_;
  grpc::ByteBuffer write_buffer_;  // gRPC's while writing_
  Status fault_;                   // found by this side; stands before gRPC's
  bool writing_ = false;
  bool held_ = true;
  bool closed_ = false;
  bool stopped_ = false;
  bool ended_well_ = false;
  bool done_ = false;
};

RemoteVerifier::RemoteVerifier(RemoteOptions options) : options_(std::move(options)) {}

RemoteVerifier::~RemoteVerifier() {
  stop();
}

void RemoteVerifier::start(EventSink sink) {
  stop();
  if (channel_ == nullptr || (call_ != nullptr && !call_->channel_is_good())) {
    channel_ = make_channel(options_);
  }
  call_ = std::make_unique<Call>(options_.server.to_string(), std::move(sink), counters_);
  call_->start(channel_);
}

void RemoteVerifier::send(EdgeMessage message) {
  if (call_ != nullptr) call_->send(message);
}

void RemoteVerifier::stop() {
  if (call_ != nullptr) call_->stop();
}

LinkBytes RemoteVerifier::link_bytes() const {
  return {counters_.messages_up.load(std::memory_order_relaxed),
          counters_.payload_up.load(std::memory_order_relaxed),
          counters_.messages_down.load(std::memory_order_relaxed),
          counters_.payload_down.load(std::memory_order_relaxed)};
}

}  // namespace outrider
