// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/remote.h"

#include <utility>

#include "edge_client/verifiers/remote_call.h"
#include "edge_client/verifiers/remote_channel.h"
#include "proto/codec.h"

namespace outrider {

std::uint64_t LinkBytes::framed_up() const {
  return payload_up + kFramingBytes * messages_up;
}
std::uint64_t LinkBytes::framed_down() const {
  return payload_down + kFramingBytes * messages_down;
}

RemoteVerifier::RemoteVerifier(RemoteOptions options) : options_(std::move(options)) {}

RemoteVerifier::~RemoteVerifier() {
  stop();
}

Status RemoteVerifier::check_files(const RemoteOptions& options) {
  return check_channel_files(options);
}

void RemoteVerifier::start(std::uint32_t epoch, EventSink sink) {
  stop();
  if (channel_ == nullptr || (call_ != nullptr && !call_->channel_is_good())) {
    channel_ = make_channel(options_);
  }
  call_ = std::make_unique<RemoteCall>(
      options_.server.to_string(),
      [epoch, sink = std::move(sink)](VerifierEvent event) {
        sink({epoch, std::move(event)});
      },
      counters_, options_.pad_frames);
  started_ = false;
}

// The first message is Open, whose key goes with the call's headers.
void RemoteVerifier::send(EdgeMessage message) {
  if (call_ == nullptr) return;
  if (!std::exchange(started_, true)) {
    auto* open = std::get_if<Open>(&message.body);
    if (open != nullptr) open->pad_frames = options_.pad_frames;
    call_->start(channel_, {.session_key = open != nullptr ? open->session_key : std::string(),
                            .token = options_.token,
                            .request_id = request_id_});
  }
  call_->send(message);
}

void RemoteVerifier::stop() {
  if (call_ != nullptr && std::exchange(started_, true)) call_->stop();
}

void RemoteVerifier::disconnect() {
  stop();
  call_.reset();
  channel_.reset();
}

}  // namespace outrider
