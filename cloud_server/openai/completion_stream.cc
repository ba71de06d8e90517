// SPDX-License-Identifier: Apache-2.0
#include "cloud_server/openai/completion_stream.h"

#include <utility>
#include <variant>

#include "cloud_server/openai/refusal.h"

namespace outrider {

AdmissionResult CompletionStream::begin(Tenants* tenants, StreamOwner owner) {
  EdgeMessage open = answer_.open();
  const auto prompt = static_cast<double>(std::get<Open>(open.body).prefix.size());
  AdmissionResult admitted = place_.take(tenants, owner.tenant, client_.name.id, prompt);
  if (!admitted.status.ok()) return admitted;
  traffic_->add_up(client_.bytes_up);
  owner.traffic = traffic_;
  // No event comes before the first message, so stream_ is there by then.
  stream_ =
      engine_.connect([self = shared_from_this()](VerifierEvent event) { self->on_event(event); },
                      std::move(owner));
  engine_.post(stream_, std::move(open));
  return admitted;
}

void CompletionStream::on_event(const VerifierEvent& event) {
  if (const auto* message = std::get_if<ServerMessage>(&event)) return on_message(*message);
  const auto& ended = std::get<StreamEnded>(event);
  const Status told = faults_.end(client_.who, ended.status, ended.for_the_log);
  if (!told_) respond_error(told);
}

void CompletionStream::on_message(const ServerMessage& message) {
  if (told_) return;
  if (const Status status = check_not_revoked(client_.key.get()); !status.ok()) {
    faults_.refuse(client_.who, status);
    respond_error(status);
    engine_.post(stream_, {.body = Cancel{}});
    return;
  }
  if (std::holds_alternative<Verdict>(message)) place_.serve();
  const auto* notice = std::get_if<Notice>(&message);
  if (notice != nullptr && notice->kind == Notice::Kind::kOverloaded) {
    retry_after_ = notice->retry_after;
  }
  on_step(answer_.on_message(message));
}

void CompletionStream::on_step(PlainAnswer::Step step) {
  if (client_.exchange->client_is_gone()) return abandon();
  if (client_.stream && (!step.pieces.empty() || step.end)) begin_stream();
  if (client_.stream && !step.pieces.empty() && !write(text_event(client_.name, step.pieces))) {
    return abandon();
  }
  if (step.reply) engine_.post(stream_, *std::move(step.reply));
  if (step.end) respond_end(*step.end);
}

bool CompletionStream::write(const std::string& bytes) {
  traffic_->add_down(bytes.size());
  return client_.exchange->write(bytes);
}

// The client is gone, or reads too slowly.
void CompletionStream::abandon() {
  told_ = true;
  client_.exchange->end();
  engine_.post(stream_, {.body = Cancel{}});
}

void CompletionStream::begin_stream() {
  if (std::exchange(begun_, true)) return;
  client_.exchange->begin({.status = 200,
                           .body = first_event(client_.name),
                           .content_type = "text/event-stream",
                           .headers = {{"Cache-Control", "no-cache"}}});
}

void CompletionStream::respond_end(const AnswerEnd& end) {
  told_ = true;
  if (!client_.stream) {
    std::string body = whole_answer(client_.name, answer_.text(), end);
    traffic_->add_down(body.size());
    client_.exchange->respond(
        {.status = 200, .body = std::move(body), .content_type = "application/json"});
    return;
  }
  write(last_events(client_.name, end, client_.stream_usage));
  client_.exchange->end();
}

void CompletionStream::respond_error(const Status& status) {
  told_ = true;
  const Status error = status.ok() ? unavailable("the answer ended before its end") : status;
  if (!begun_) return client_.exchange->respond(refusal_of(error, retry_after_));
  client_.exchange->write(error_event(error));
  client_.exchange->end();
}

}  // namespace outrider
