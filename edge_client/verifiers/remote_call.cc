// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/remote_call.h"

#include <grpcpp/generic/generic_stub.h>

#include <array>
#include <ctime>
#include <optional>

#include "common/base/request_headers.h"
#include "edge_client/verifiers/remote_channel.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/frame_padding.h"
#include "proto/grpc_order.h"
#include "proto/grpc_status.h"

namespace outrider {
namespace {

// The most messages that may wait for a link that does not move. An honest session owes far less:
// it waits for verdicts, and its living nodes are limited.
constexpr std::size_t kMaxWaitingMessages = 4096;

}  // namespace

// OpenSSL reports an expired certificate as it reports one of an unknown authority; a device
// without a battery for its clock boots in 1970. A server that finds something else than TLS, or
// TLS where it has none, resets the connection, as one that ends does.
std::string remedy_of(const Status& status, const RemoteOptions& options) {
  const auto says = [&](const char* words) {
    return status.message().find(words) != std::string::npos;
  };
  if (says("Connection reset") || says("Socket closed") || says("Broken pipe")) {
    return options.tls_ca.empty()
               ? ". Remedy: if the server has TLS, --tls-ca names its certificate's authority"
               : ". Remedy: if the server has no TLS, leave --tls-ca out";
  }
  if (!says("certificate verify failed")) return {};
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> date{};
  std::strftime(date.data(), date.size(), "%Y-%m-%d %H:%M UTC", &utc);
  return std::string(
             ". Remedy: --tls-ca names the authority of the server's certificate; and is "
             "this machine's clock right, which says ") +
         date.data() + "?";
}

std::string PaddedMessages::serialize(const EdgeMessage& message) {
  std::string bytes = outrider::serialize(message);
  ++of_pass_;
  last_acknowledged_.acked_position = message.acked_position;
  last_acknowledged_.acked_reports = message.acked_reports;
  if (on_) pad_frame(bytes);
  return bytes;
}

std::vector<std::string> PaddedMessages::fill_up() {
  std::vector<std::string> lacking;
  while (on_ && of_pass_ < kPaddedMessagesPerPass) lacking.push_back(serialize(last_acknowledged_));
  of_pass_ = 0;
  return lacking;
}

RemoteCall::~RemoteCall() {
  stop();
  cancel();
}

void RemoteCall::start(const std::shared_ptr<grpc::Channel>& channel, const Metadata& metadata) {
  {
    const MutexLock lock(mu_);
    started_ = true;
  }
  add_header(context_, kSessionMetadata, metadata.session_key);
  add_header(context_, kPrefixMetadata, metadata.prefix);
  if (metadata.attempt > 0) {
    add_header(context_, kAttemptMetadata, std::to_string(metadata.attempt));
  }
  add_key(context_, metadata.token);
  add_header(context_, kRequestIdHeader, metadata.request_id);
  add_header(context_, kTraceparentHeader, metadata.trace.parent);
  add_header(context_, kTracestateHeader, metadata.trace.state);
  grpc::GenericStub(channel).PrepareBidiStreamingCall(&context_, kGenerateMethod,
                                                      grpc::StubOptions(), this);
  AddHold();  // send() starts writes from outside gRPC's reactions
  release_to_grpc(&read_buffer_);
  StartRead(&read_buffer_);
  StartCall();
}

void RemoteCall::send(const EdgeMessage& message) {
  MutexLock lock(mu_);
  const std::string bytes = messages_.serialize(message);
  counters_.add_up(bytes.size());
  if (closed_ || complete_) return;
  if (waiting_.size() >= kMaxWaitingMessages) {
    fault_ = unavailable("the link to " + name_of_server(options_.server) + " stands still: " +
                         std::to_string(waiting_.size()) + " messages wait to be sent");
    lock.unlock();
    context_.TryCancel();
    return;
  }
  waiting_.push_back(to_buffer(bytes));
  const bool writes = take_next_write();
  lock.unlock();
  if (writes) start_write();
}

void RemoteCall::fill_up_pass() {
  MutexLock lock(mu_);
  if (closed_) return;
  for (const std::string& bytes : messages_.fill_up()) {
    counters_.add_up(bytes.size());
    waiting_.push_back(to_buffer(bytes));
  }
  const bool writes = take_next_write();
  lock.unlock();
  if (writes) start_write();
}

void RemoteCall::stop() {
  MutexLock lock(mu_);
  stopped_ = true;
  while (delivering_) changed_.wait(mu_);
  const bool ends_by_itself = complete_;
  lock.unlock();
  if (!ends_by_itself) cancel();
}

void RemoteCall::cancel() {
  {
    const MutexLock lock(mu_);
    if (!started_ || done_) return;
  }
  context_.TryCancel();
  const MutexLock lock(mu_);
  while (!done_) changed_.wait(mu_);
}

bool RemoteCall::channel_is_good() {
  const MutexLock lock(mu_);
  return !done_ || ended_well_;
}

bool RemoteCall::was_turned_away() {
  const MutexLock lock(mu_);
  return turned_away_;
}

void RemoteCall::OnReadDone(bool ok) {
  acquire_from_grpc(&read_buffer_);
  if (!ok) {
    close();
    return;
  }
  const std::string bytes = to_bytes(read_buffer_);
  counters_.add_down(bytes.size());
  // Where what came is no gRPC, such as a proxy's page, gRPC 1.51 hands over an empty message; the
  // status that follows says why.
  if (!bytes.empty() && !is_filler(bytes) && !take(bytes)) return;
  release_to_grpc(&read_buffer_);
  StartRead(&read_buffer_);
}

// False if the stream cannot go on.
bool RemoteCall::take(std::string_view bytes) {
  Result<ServerMessage> message = parse_server_message(bytes);
  if (!message.ok()) {
    {
      const MutexLock lock(mu_);
      fault_ = internal_error(name_of_server(options_.server) +
                              " broke the protocol: " + message.status().message());
    }
    context_.TryCancel();
    close();
    return false;
  }
  note(*message);
  if (std::holds_alternative<Verdict>(*message)) fill_up_pass();
  const bool is_last = std::holds_alternative<Usage>(*message);
  deliver(*std::move(message));
  if (is_last) complete();
  return true;
}

// Keeps what decides how the stream's end is reported.
void RemoteCall::note(const ServerMessage& message) {
  if (const auto* opened = std::get_if<Opened>(&message)) {
    const MutexLock lock(mu_);
    opened_ = true;
    if (opened->pad_frames) messages_.turn_on();
  }
  const auto* notice = std::get_if<Notice>(&message);
  saw_overloaded_ =
      saw_overloaded_ || (notice != nullptr && notice->kind == Notice::Kind::kOverloaded);
}

// Nothing that comes after Usage matters to the answer. What waits is still written, as padding
// fixes the number of messages.
void RemoteCall::complete() {
  MutexLock lock(mu_);
  if (std::exchange(complete_, true)) return;
  const bool writes = !closed_ && take_next_write();
  lock.unlock();
  if (writes) start_write();
  deliver(StreamEnded{});
}

void RemoteCall::OnWriteDone(bool ok) {
  after_write(ok);
}

void RemoteCall::OnWritesDoneDone(bool ok) {
  after_write(ok);
}

void RemoteCall::after_write(bool ok) {
  acquire_from_grpc(&write_buffer_);
  MutexLock lock(mu_);
  writing_ = false;
  const bool releases = closed_ && take_hold();
  // A failed write is followed by a failed read, which closes.
  const bool writes = !closed_ && ok && take_next_write();
  lock.unlock();
  if (writes) start_write();
  if (releases) RemoveHold();
}

void RemoteCall::OnDone(const grpc::Status& grpc_status) {
  acquire_from_grpc(&read_buffer_);
  acquire_from_grpc(&write_buffer_);
  const std::optional<Duration> delay = retry_delay(grpc_status);
  if (delay && !saw_overloaded_) {
    deliver(ServerMessage(Notice{Notice::Kind::kOverloaded, *delay}));
  }
  const Status status = end_status(grpc_status);
  deliver(StreamEnded{status});
  const MutexLock lock(mu_);
  ended_well_ = status.ok() || stopped_;
  turned_away_ = !opened_ && !stopped_;
  done_ = true;
  changed_.notify_all();
}

// Nothing after the end.
void RemoteCall::deliver(VerifierEvent event) {
  {
    const MutexLock lock(mu_);
    if (stopped_ || ended_) return;
    ended_ = std::holds_alternative<StreamEnded>(event);
    delivering_ = true;
  }
  sink_(std::move(event));
  const MutexLock lock(mu_);
  delivering_ = false;
  changed_.notify_all();
}

// True if write_buffer_ is to be written now. gRPC allows one write at a time.
void RemoteCall::start_write() {
  release_to_grpc(&write_buffer_);
  if (half_closed_) {
    StartWritesDone();
  } else {
    StartWrite(&write_buffer_);
  }
}

bool RemoteCall::take_next_write() {
  if (writing_ || half_closed_ || (waiting_.empty() && !complete_)) return false;
  writing_ = true;
  if (waiting_.empty()) {
    half_closed_ = true;
  } else {
    write_buffer_ = waiting_.front();  // shares the bytes
    waiting_.pop_front();
  }
  return true;
}

// No read will come: no further write may start, and the one on its way is waited for.
void RemoteCall::close() {
  MutexLock lock(mu_);
  closed_ = true;
  waiting_.clear();
  const bool releases = take_hold();
  lock.unlock();
  if (releases) RemoveHold();
}

// True once, when closed and no write is on its way: then the hold is to be removed.
bool RemoteCall::take_hold() {
  return !writing_ && std::exchange(held_, false);
}

Status RemoteCall::end_status(const grpc::Status& grpc_status) {
  bool opened = false;
  {
    const MutexLock lock(mu_);
    opened = opened_;
    if (complete_) return {};
    if (!fault_.ok()) return fault_;
  }
  const std::string server = name_of_server(options_.server);
  if (grpc_status.ok()) {
    return unavailable(server + " ended the stream before the answer was complete");
  }
  const Status ended = ended_call(grpc_status);
  const std::string remedy = opened ? "" : remedy_of(ended, options_);
  const Status status = Status(ended.code(), ended.message() + remedy).with_detail(ended.detail());
  if (status.code() != StatusCode::kUnavailable) return status.with_context(server);
  return status.with_context((opened ? "lost the link to " : "cannot reach a server at ") + server);
}

}  // namespace outrider
