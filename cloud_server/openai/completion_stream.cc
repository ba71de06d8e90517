// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/openai/completion_stream.h"

#include <utility>
#include <variant>

#include "common/base/json_record.h"
#include "common/serving/telemetry/log.h"

namespace outrider {

AdmissionResult CompletionStream::begin(Tenants* tenants, StreamOwner owner) {
  const auto prompt = static_cast<double>(answer_.prompt_tokens());
  AdmissionResult admitted = place_.take(tenants, owner.tenant, client_.responder->id(), prompt);
  if (!admitted.status.ok()) return admitted;
  traffic_->add_up(client_.bytes_up);
  owner.traffic = traffic_;
  owner_ = std::move(owner);
  connect();
  return admitted;
}

// No event comes before the first message, so stream_ is there by then. After that the stream's
// events may come on another thread, so nothing of this object is touched here.
void CompletionStream::connect() {
  const std::uint32_t part = ++part_;
  stream_ = engine_.connect(
      [self = shared_from_this(), part](VerifierEvent event) { self->on_event(part, event); },
      owner_);
  engine_.post(stream_, answer_.open());
}

void CompletionStream::on_event(std::uint32_t part, const VerifierEvent& event) {
  if (part != part_) return;
  if (client_.spans != nullptr) client_.spans->on(event, clock_.now());
  if (const auto* message = std::get_if<ServerMessage>(&event)) return on_message(*message);
  const auto& ended = std::get<StreamEnded>(event);
  Status told = faults_.end(client_.who, ended.status, ended.for_the_log);
  // An engine that is overloaded has said when to come back. Else the request itself is too large.
  if (told.code() == StatusCode::kResourceExhausted && !retry_after_) {
    told = failed_precondition(told.message());
  }
  if (!told_) fail(told);
}

void CompletionStream::on_message(const ServerMessage& message) {
  if (told_) return;
  if (const Status status = check_not_revoked(client_.key.get()); !status.ok()) {
    faults_.refuse(client_.who, status);
    fail(status);
    engine_.post(stream_, {.body = Cancel{}});
    return;
  }
  if (std::holds_alternative<Verdict>(message)) {
    place_.serve();
    if (!first_at_) first_at_ = clock_.now();
  }
  // It is admitted: a client that streams now gets the head.
  if (std::holds_alternative<Opened>(message)) client_.responder->begin();
  if (std::holds_alternative<Progress>(message)) client_.responder->keep_alive(client_.keep_alive);
  const auto* notice = std::get_if<Notice>(&message);
  if (notice != nullptr && notice->kind == Notice::Kind::kOverloaded) {
    retry_after_ = notice->retry_after;
  }
  on_step(answer_.on_message(message));
}

void CompletionStream::on_step(PlainAnswer::Step step) {
  CompletionResponder& client = *client_.responder;
  client.show_prompt(step.prompt_logprobs);
  if (client.client_is_gone() || !client.show(step.pieces)) return abandon();
  if (step.reply) engine_.post(stream_, *std::move(step.reply));
  if (!step.failure.ok()) fail(step.failure);
  if (step.end) {
    told_ = true;
    note_level(*step.end);
    keep_record(step.record);
    client.end(*step.end);
  }
  traffic_->add_down(client.take_bytes_sent());
  if (step.level) connect();
}

// Which level answered, what was expected, and what it took.
void CompletionStream::note_level(AnswerEnd& end) {
  if (!client_.level || !first_at_) return;
  LevelRecord record;
  record.ttft_ms = to_ms(*first_at_ - came_at_);
  record.time_ms = to_ms(clock_.now() - came_at_);
  // The time to the first token has other sessions' passes in it, so it says nothing of a prompt.
  const auto said = static_cast<std::int64_t>(end.usage.completion_tokens);
  client_.levels->note(*client_.level, answer_.switches(), {.said = said}, record);
  end.level = write_json(record);
}

void CompletionStream::keep_record(const RecordLines& record) {
  if (client_.recorder == nullptr) return;
  const Status kept = client_.recorder->append(record);
  if (!kept.ok())
    log(LogLevel::kError, "no more answers are recorded", {{"reason", kept.message()}});
}

// The client has disconnected, or reads too slowly.
void CompletionStream::abandon() {
  told_ = true;
  client_.responder->abandon();
  engine_.post(stream_, {.body = Cancel{}});
}

void CompletionStream::fail(const Status& status) {
  told_ = true;
  client_.responder->fail(
      status.ok() ? unavailable("the answer was cut off; repeat the request") : status,
      retry_after_);
}

}  // namespace outrider
