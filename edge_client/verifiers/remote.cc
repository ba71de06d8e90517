// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/remote.h"

#include <utility>

#include "edge_client/verifiers/remote_call.h"
#include "edge_client/verifiers/remote_channel.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"

namespace outrider {

std::uint64_t LinkBytes::framed_up() const {
  return payload_up + kFramingBytes * messages_up;
}
std::uint64_t LinkBytes::framed_down() const {
  return payload_down + kFramingBytes * messages_down;
}

RemoteVerifier::RemoteVerifier(RemoteOptions options)
    : options_(std::move(options)), channels_(std::make_unique<ChannelSource>(options_)) {}

RemoteVerifier::~RemoteVerifier() {
  stop();
}

Status RemoteVerifier::check_files(const RemoteOptions& options) {
  return read_tls_texts(options).status();
}

std::shared_ptr<grpc::Channel> RemoteVerifier::shared_channel() {
  const MutexLock lock(mu_);
  if (channel_ == nullptr) channel_ = channels_->make();
  return channel_;
}

void RemoteVerifier::start(std::uint32_t epoch, EventSink sink) {
  stop();
  if (call_ != nullptr && call_->was_turned_away()) ++attempt_;
  if (call_ != nullptr && !call_->channel_is_good()) disconnect();
  call_ = std::make_unique<RemoteCall>(
      options_,
      [epoch, sink = std::move(sink)](VerifierEvent event) {
        sink({epoch, std::move(event)});
      },
      counters_);
  started_ = false;
}

// The first message is Open, whose key goes with the call's headers.
void RemoteVerifier::send(EdgeMessage message) {
  if (call_ == nullptr) return;
  if (!std::exchange(started_, true)) {
    auto* open = std::get_if<Open>(&message.body);
    if (open != nullptr) open->pad_frames = options_.pad_frames;
    call_->start(shared_channel(),
                 {.session_key = open != nullptr ? open->session_key : std::string(),
                  .prefix = prefix_,
                  .attempt = attempt_,
                  .token = options_.token,
                  .request_id = request_id_,
                  .trace = trace_});
  }
  call_->send(message);
}

void RemoteVerifier::stop() {
  if (call_ != nullptr && std::exchange(started_, true)) call_->stop();
}

void RemoteVerifier::disconnect() {
  stop();
  call_.reset();
  const MutexLock lock(mu_);
  channel_.reset();
}

// Does not wait for gRPC's own attempts to connect again: the next attempt is a fresh one.
void RemoteVerifier::drop_if_lost(const std::shared_ptr<grpc::Channel>& channel,
                                  const Status& status) {
  const bool lost =
      status.code() == StatusCode::kUnavailable || status.code() == StatusCode::kDeadlineExceeded;
  const MutexLock lock(mu_);
  if (lost && channel_ == channel) channel_.reset();
}

Result<TargetDescription> RemoteVerifier::describe(const std::stop_token& stop) {
  // A file that is being renewed is whole at the next try.
  if (const Status files = read_tls_texts(options_).status(); !files.ok()) {
    return unavailable(files.message());
  }
  const std::shared_ptr<grpc::Channel> channel = shared_channel();
  grpc::GenericStub stub(channel);
  const UnaryCall call{
      .method = kDescribeMethod, .token = options_.token, .timeout = 2 * options_.connect_timeout};
  described_.add_up(0);  // an empty message
  Result<grpc::ByteBuffer> reply = call_once(stub, call, to_buffer(std::string()), stop);
  const std::string server = name_of_server(options_.server);
  if (!reply.ok()) {
    drop_if_lost(channel, reply.status());
    const Status& told = reply.status();
    const Status status =
        Status(told.code(), told.message() + remedy_of(told, options_)).with_detail(told.detail());
    return status.with_context(
        status.code() == StatusCode::kUnavailable ? "cannot reach a server at " + server : server);
  }
  described_.add_down(reply->Length());
  Result<TargetDescription> target = parse_target_description(to_bytes(*reply));
  if (target.ok()) return target;
  return internal_error("the server at " + server +
                        " does not speak this protocol: " + target.status().message());
}

}  // namespace outrider
