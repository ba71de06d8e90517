// One edge's stream: posts received messages to the engine and sends the engine's events. Decides
// nothing.
//
// The engine learns of a stream when its Open arrives. A stream that is opened and reset, or sends
// nothing, costs the engine nothing; it ends after `open_timeout`.
//
// Thread rule: gRPC's reactions, the alarm and the engine's sink run concurrently; mu_ guards what
// they share. Nothing here blocks. It deletes itself when gRPC, the alarm and the engine have all
// released it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "cloud_server/admission/tenant_place.h"
#include "cloud_server/rpc/call_canceller.h"
#include "cloud_server/rpc/caller.h"
#include "cloud_server/rpc/send_queue.h"
#include "cloud_server/rpc/shell_state.h"
#include "common/base/mutex.h"
#include "common/engine/sampling/constraint.h"
#include "common/serving/tracing/stream_spans.h"

namespace outrider {

class StreamReactor final : public grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  // Both outlive the stream.
  StreamReactor(grpc::CallbackServerContext& context, ShellState& shell);

 private:
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  void on_event(VerifierEvent event);
  void on_message(const ServerMessage& message);
  Status take(EdgeMessage message, bool& reads_on);
  Status constrain(EdgeMessage open, bool& reads_on);
  void on_constraint(EdgeMessage open, Result<AnswerConstraint> compiled);
  void read_on();
  Status admit(const Open& open);
  void begin_trace(const Open& open);
  bool gets_coarse_times(const std::string& tenant) const;
  void refuse(const Status& status);
  void fail(const Status& status);
  void open_too_late();
  void release();
  void end(const grpc::Status& status) OUTRIDER_REQUIRES(mu_);
  void finish_with(const grpc::Status& status) OUTRIDER_REQUIRES(mu_);
  void advance() OUTRIDER_REQUIRES(mu_);
  void wait_for_close() OUTRIDER_REQUIRES(mu_);

  grpc::CallbackServerContext& context_;
  ShellState& shell_;
  const std::string peer_;
  const std::string network_;  // the address whose bounds it counts for
  const std::string who_;      // with the request's id, for the log
  const Result<Caller> caller_;
  grpc::Alarm open_alarm_;
  grpc::Alarm
      farewell_alarm_;  // runs from the end of the stream: a dead reader must not keep it open
  grpc::Alarm close_alarm_;
  std::atomic<int> holders_{1};  // gRPC until OnDone, each set alarm until its callback

  // Used by gRPC's reactions only.
  grpc::ByteBuffer read_buffer_;
  std::optional<StreamId> stream_;  // none before Open
  bool counted_ = false;            // in the shell's bounds
  TenantPlace place_;
  const std::shared_ptr<StreamTraffic> traffic_ = std::make_shared<StreamTraffic>();
  // Made before the engine's first event, and used by those; null: the stream is not traced.
  std::unique_ptr<StreamSpans> spans_;

  Mutex mu_;
  SendQueue queue_ OUTRIDER_GUARDED_BY(mu_);
  grpc::ByteBuffer write_buffer_ OUTRIDER_GUARDED_BY(mu_);  // used by gRPC while writing_
  std::optional<Duration> retry_after_ OUTRIDER_GUARDED_BY(mu_);
  std::optional<grpc::Status> end_ OUTRIDER_GUARDED_BY(mu_);  // set once; later events are dropped
  bool writing_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool edge_has_closed_ OUTRIDER_GUARDED_BY(mu_) = false;  // its sending side
  bool waits_for_close_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool waited_for_close_ OUTRIDER_GUARDED_BY(mu_) = false;
  bool finished_ OUTRIDER_GUARDED_BY(mu_) = false;  // Finish() was called; no operation may start
  CallCanceller canceller_;
};

}  // namespace outrider
