// Connects a PlainAnswer to the engine and to its client. A client that disconnects ends the
// stream.
//
// Thread rule: begin() from the HTTP server's thread; after that it runs on the engine's until the
// stream is over. Ownership: shared by the engine's sink; engine, tokenizer, fault log, clock and
// levels outlive it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "cloud_server/admission/tenant_place.h"
#include "cloud_server/faults/fault_log.h"
#include "cloud_server/openai/plain_answer.h"
#include "common/base/clock.h"
#include "common/decoding/levels/level_book.h"
#include "common/decoding/verify/scheduling/engine.h"
#include "common/serving/openai/completion_responder.h"
#include "common/serving/tracing/stream_spans.h"

namespace outrider {

class CompletionStream final : public std::enable_shared_from_this<CompletionStream> {
 public:
  struct Client {
    std::string who;                            // for the log
    std::shared_ptr<const TenantKey> key = {};  // of the request; null: none is required
    std::uint64_t bytes_up = 0;                 // of the request
    std::shared_ptr<CompletionResponder> responder;
    Duration keep_alive{0};                   // the longest silence towards the client
    std::optional<LevelChoice> level = {};    // that answers; nothing: the model has no levels
    LevelBook* levels = nullptr;              // in which it was chosen
    std::unique_ptr<StreamSpans> spans = {};  // null: the request is not traced
    Recorder* recorder = nullptr;             // into which its record goes; null: it has none
  };

  CompletionStream(VerifyEngine& engine, FaultLog& faults, const Clock& clock, PlainAnswer answer,
                   Client client)
      : engine_(engine),
        faults_(faults),
        clock_(clock),
        answer_(std::move(answer)),
        client_(std::move(client)) {}

  // owner: the tenant whose quota counts, if there are tenants. After an error nothing has begun,
  // and nothing was sent to the client.
  AdmissionResult begin(Tenants* tenants, StreamOwner owner);

 private:
  void connect();
  void on_event(std::uint32_t part, const VerifierEvent& event);
  void on_message(const ServerMessage& message);
  void on_step(PlainAnswer::Step step);
  void note_level(AnswerEnd& end);
  void keep_record(const RecordLines& record);
  void abandon();
  void fail(const Status& status);

  VerifyEngine& engine_;
  FaultLog& faults_;
  const Clock& clock_;
  PlainAnswer answer_;
  const Client client_;
  StreamOwner owner_;
  StreamId stream_ = 0;
  // The stream whose events count, by number: one that another level's replaces has some left, on
  // whichever thread.
  std::atomic<std::uint32_t> part_{0};
  TenantPlace place_;
  const std::shared_ptr<StreamTraffic> traffic_ = std::make_shared<StreamTraffic>();
  std::optional<Duration> retry_after_;  // if the engine says one
  const TimePoint came_at_ = clock_.now();
  std::optional<TimePoint> first_at_;  // of its first token
  bool told_ = false;                  // the client has the end, or is gone
};

}  // namespace outrider
