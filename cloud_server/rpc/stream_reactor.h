// One edge's stream: bytes in, posted to the engine; the engine's events out. Decides nothing.
//
// Thread rule: gRPC's reactions and the engine's sink run at the same time; mu_ guards what both
// touch. Nothing here blocks. gRPC deletes it in OnDone, after the engine promised silence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <mutex>
#include <optional>
#include <string>

#include "cloud_server/rpc/send_queue.h"
#include "cloud_server/rpc/shell_state.h"

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
  void refuse(const Status& status);
  void end(const grpc::Status& status);
  void advance();

  grpc::CallbackServerContext& context_;
  ShellState& shell_;
  const std::string peer_;
  StreamId stream_ = 0;           // constant after construction
  grpc::ByteBuffer read_buffer_;  // gRPC's reactions only
  bool heard_ = false;            // likewise: a whole message came

  std::mutex mu_;  // guards what follows
  SendQueue queue_;
  grpc::ByteBuffer write_buffer_;  // gRPC's while writing_
  std::optional<Duration> retry_after_;
  std::optional<grpc::Status> end_;  // set once; no event passes after
  bool writing_ = false;
  bool finished_ = false;  // Finish() is called; no operation may start
};

}  // namespace outrider
