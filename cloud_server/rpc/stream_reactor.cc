// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/rpc/stream_reactor.h"

#include <algorithm>
#include <utility>

#include "common/base/address.h"
#include "proto/byte_buffer.h"
#include "proto/codec.h"
#include "proto/grpc_order.h"
#include "proto/grpc_status.h"

namespace outrider {
StreamReactor::StreamReactor(grpc::CallbackServerContext& context, ShellState& shell)
    : context_(context),
      shell_(shell),
      peer_(context.peer()),
      network_(network_of(host_of(peer_))),
      who_(name_in_log(peer_, request_id_of(context))),
      caller_(identify(context, shell.authenticator)),
      queue_(shell.max_waiting_messages) {
  shell_.calls.add();
  release_to_grpc(this);
  const Status bounded = shell_.bounds.enter(network_, "this address");
  counted_ = bounded.ok();
  if (!counted_ || !caller_.ok()) {
    const Status& why = counted_ ? caller_.status() : bounded;
    retry_after_ = shell_.delay_of(why);
    fail(why);
    return;
  }
  release_to_grpc(&read_buffer_);
  holders_.fetch_add(1);
  StartRead(
      &read_buffer_);  // its reaction comes only after the constructor, when gRPC knows the reactor
  open_alarm_.Set(std::chrono::system_clock::now() + shell.open_timeout, [this](bool rang) {
    acquire_from_grpc(this);
    if (rang) open_too_late();
    release();
  });
}

void StreamReactor::OnReadDone(bool ok) {
  acquire_from_grpc(&read_buffer_);
  if (!ok) {
    // The edge has closed its sending side, which is allowed after Open: it only cannot acknowledge
    // any more.
    if (!stream_) refuse(failed_precondition("the stream ended before its first message, Open"));
    const MutexLock lock(mu_);
    edge_has_closed_ = true;
    return advance();
  }
  traffic_->add_up(read_buffer_.Length());
  Result<EdgeMessage> message = parse_edge_message(to_bytes(read_buffer_));
  if (!message.ok()) return refuse(message.status());
  bool reads_on = true;
  if (Status status = take(*std::move(message), reads_on); !status.ok()) return refuse(status);
  if (reads_on) read_on();
}

void StreamReactor::read_on() {
  const MutexLock lock(mu_);
  if (finished_) return;
  release_to_grpc(&read_buffer_);
  StartRead(&read_buffer_);
}

// reads_on: false where it goes on later, when the answer's form is compiled.
Status StreamReactor::take(EdgeMessage message, bool& reads_on) {
  if (!stream_) {
    if (!std::holds_alternative<Open>(message.body)) {
      return failed_precondition("the first message of a stream must be Open");
    }
    open_alarm_.Cancel();
    OUTRIDER_RETURN_IF_ERROR(admit(std::get<Open>(message.body)));
    shell_.mark_authenticated(peer_);
    if (shell_.tracer != nullptr) begin_trace(std::get<Open>(message.body));
    const std::string& tenant = caller_->tenant;
    stream_ = shell_.engine.connect([this](VerifierEvent event) { on_event(std::move(event)); },
                                    {.tenant = tenant,
                                     .group = tenant.empty() ? network_ : tenant,
                                     .request_id = request_id_of(context_),
                                     .coarse_times = gets_coarse_times(tenant),
                                     .traffic = traffic_});
    if (std::get<Open>(message.body).settings.constraint.asks() && shell_.constraints.offers()) {
      return constrain(std::move(message), reads_on);
    }
  }
  shell_.engine.post(*stream_, std::move(message));
  return {};
}

// The form travels as its text. Until it is compiled nothing more is read, so that the Open stays
// the first message.
Status StreamReactor::constrain(EdgeMessage open, bool& reads_on) {
  AnswerConstraint& asked = std::get<Open>(open.body).settings.constraint;
  OUTRIDER_RETURN_IF_ERROR(validate(std::get<Open>(open.body).settings, 0));
  const std::string owner = caller_->tenant.empty() ? network_ : caller_->tenant;
  if (std::optional<AnswerConstraint> kept = shell_.constraints.find(asked.spec, owner)) {
    asked = *std::move(kept);
    shell_.engine.post(*stream_, std::move(open));
    return {};
  }
  holders_.fetch_add(1);
  const ConstraintSpec spec = asked.spec;
  const Status queued = shell_.constraints.add(
      spec, owner, [this, open = std::move(open)](Result<AnswerConstraint> compiled) mutable {
        acquire_from_grpc(this);
        on_constraint(std::move(open), std::move(compiled));
        release();
      });
  reads_on = false;
  if (!queued.ok()) release();  // gRPC holds it still
  return queued;
}

// On the constraints' thread, while nothing is read.
void StreamReactor::on_constraint(EdgeMessage open, Result<AnswerConstraint> compiled) {
  if (!compiled.ok()) return refuse(compiled.status().with_context("constraint"));
  std::get<Open>(open.body).settings.constraint = *std::move(compiled);
  shell_.engine.post(*stream_, std::move(open));
  read_on();
}

void StreamReactor::begin_trace(const Open& open) {
  const Trace trace = shell_.tracer->begin(trace_headers_of(context_));
  if (!trace.context.sampled) return;
  const TimePoint now = SystemClock().now();
  TraceSpan span{.context = trace.context,
                 .parent = trace.parent,
                 .name = "generate",
                 .kind = TraceSpan::Kind::kServer,
                 .begin = now,
                 .end = now};
  span.set("rpc.system", "grpc");
  span.set("rpc.method", "outrider.v1.Outrider/Generate");
  span.set("outrider.tenant", caller_->tenant);
  span.set("outrider.request_id", request_id_of(context_));
  span.set("outrider.service_tier", name_of(open.service_tier));
  spans_ = std::make_unique<StreamSpans>(*shell_.tracer, std::move(span), "pass");
}

Status StreamReactor::admit(const Open& open) {
  OUTRIDER_RETURN_IF_ERROR(check_tier(shell_.tenants, caller_->tenant, open.service_tier));
  const auto prompt =
      std::max(static_cast<double>(open.prefix.size()), static_cast<double>(open.prefix_length));
  const AdmissionResult admitted =
      place_.take(shell_.tenants, caller_->tenant, open.session_key, prompt);
  const MutexLock lock(mu_);
  if (!admitted.status.ok()) retry_after_ = admitted.retry_after;
  if (open.pad_frames || shell_.pad_frames) queue_.pad();
  return admitted.status;
}

// Where no keys are required, times are exact for all.
bool StreamReactor::gets_coarse_times(const std::string& tenant) const {
  return !tenant.empty() &&
         (shell_.tenants == nullptr || !shell_.tenants->limits_of(tenant).exact_times);
}

void StreamReactor::open_too_late() {
  const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(shell_.open_timeout);
  fail(deadline_exceeded("no Open came within " + std::to_string(limit.count()) + " ms"));
}

void StreamReactor::OnWriteDone(bool ok) {
  acquire_from_grpc(&write_buffer_);
  const MutexLock lock(mu_);
  writing_ = false;
  if (!ok) end(grpc::Status::CANCELLED);
  advance();
}

void StreamReactor::OnCancel() {
  acquire_from_grpc(this);
  const MutexLock lock(mu_);
  end(grpc::Status::CANCELLED);
  advance();
}

void StreamReactor::OnDone() {
  acquire_from_grpc(&read_buffer_);
  {
    const MutexLock lock(mu_);  // synchronises with all that other threads wrote
  }
  canceller_.finish();
  if (stream_) shell_.engine.disconnect(*stream_);
  open_alarm_.Cancel();
  farewell_alarm_.Cancel();
  close_alarm_.Cancel();
  release();
}

void StreamReactor::release() {
  if (holders_.fetch_sub(1) != 1) return;
  if (counted_) shell_.bounds.leave(network_);
  ShellState& shell = shell_;
  delete this;
  shell.calls.remove();  // the server may be destroyed from here on
}

void StreamReactor::on_event(VerifierEvent event) {
  if (spans_ != nullptr) spans_->on(event, SystemClock().now());
  if (const auto* message = std::get_if<ServerMessage>(&event)) return on_message(*message);
  const auto& ended = std::get<StreamEnded>(event);
  const Status told = shell_.faults.end(who_, ended.status, ended.for_the_log);
  const MutexLock lock(mu_);
  if (!end_) finish_with(to_grpc(told, retry_after_));  // after the queued messages
  advance();
}

void StreamReactor::on_message(const ServerMessage& message) {
  // The engine learns of the end when gRPC has ended the call.
  if (const Status status = check_not_revoked(caller_->key.get()); !status.ok())
    return fail(status);
  if (std::holds_alternative<Verdict>(message)) place_.serve();
  MutexLock lock(mu_);
  if (end_) return;
  const auto* notice = std::get_if<Notice>(&message);
  if (notice != nullptr && notice->kind == Notice::Kind::kOverloaded) {
    retry_after_ = notice->retry_after;
  }
  const bool fits = queue_.push(message);
  traffic_->set_down(queue_.bytes_taken());
  if (fits) return advance();
  const Status status = resource_exhausted(
      "the edge does not read: " + std::to_string(queue_.size()) + " messages are queued for it");
  end(to_grpc(status));
  lock.unlock();
  shell_.stalled.fetch_add(1, std::memory_order_relaxed);
  shell_.faults.refuse(who_, status);
  context_.TryCancel();  // the pending write may never end by itself
}

// A fault of the edge: ends the stream, and frees its session at once. In gRPC's reactions only.
void StreamReactor::refuse(const Status& status) {
  fail(status);
  if (stream_) shell_.engine.disconnect(*stream_);
}

void StreamReactor::fail(const Status& status) {
  {
    const MutexLock lock(mu_);
    if (end_) return;
    end(to_grpc(status, retry_after_));
  }
  shell_.faults.refuse(who_, status);  // logged before the peer gets the answer
  const MutexLock lock(mu_);
  advance();
}

// Drops queued messages.
void StreamReactor::end(const grpc::Status& status) {
  queue_.clear();
  if (!end_) finish_with(status);
}

void StreamReactor::finish_with(const grpc::Status& status) {
  end_ = status;
  holders_.fetch_add(1);
  farewell_alarm_.Set(std::chrono::system_clock::now() + shell_.farewell_timeout,
                      [this](bool rang) {
                        // A reader that does not take the last messages keeps no call open.
                        if (rang) canceller_.cancel(context_);
                        release();
                      });
}

// Starts the next write, or finishes when nothing is left to write. gRPC allows one write at a time
// and never runs a reaction within a call of ours.
void StreamReactor::advance() {
  if (writing_ || finished_) return;
  if (std::optional<std::string> bytes = queue_.pop()) {
    write_buffer_ = to_buffer(*bytes);
    writing_ = true;
    release_to_grpc(&write_buffer_);
    StartWrite(&write_buffer_);
  } else if (end_ && (edge_has_closed_ || !end_->ok() || waited_for_close_)) {
    finished_ = true;
    Finish(*end_);
  } else if (end_ && !std::exchange(waits_for_close_, true)) {
    wait_for_close();
  }
}

// The answer is complete, and the edge closes its half when it has read that. Were the stream to
// end before, gRPC would reset it, and a proxy between may drop what it has not passed on yet.
void StreamReactor::wait_for_close() {
  holders_.fetch_add(1);
  close_alarm_.Set(std::chrono::system_clock::now() + shell_.close_timeout, [this](bool rang) {
    if (rang) {
      const MutexLock lock(mu_);
      waited_for_close_ = true;
      advance();
    }
    release();
  });
}

}  // namespace outrider
