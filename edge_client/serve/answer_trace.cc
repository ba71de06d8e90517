// SPDX-License-Identifier: Apache-2.0
#include "edge_client/serve/answer_trace.h"

#include <utility>
#include <variant>

namespace outrider {
namespace {

const char* verifier_at(Route route) {
  return route == Route::kOnline ? "server" : "device";
}

std::int64_t whole(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

}  // namespace

AnswerTrace::~AnswerTrace() {
  if (!ended_) end(cancelled("it was not answered"), SystemClock().now());
}

void AnswerTrace::begin(TimePoint now) {
  TraceSpan wait = Tracer::child_of(request_, "queue", request_.begin);
  wait.end = now;
  tracer_.add(std::move(wait));
}

void AnswerTrace::on_connect(const Connect& connect, TimePoint now) {
  if (stream_ != nullptr && connect.route != route_) {
    failover_ = Tracer::child_of(request_, "failover", now);
    failover_->set("outrider.from", verifier_at(route_));
    failover_->set("outrider.to", verifier_at(connect.route));
  }
  stream_.reset();  // ends its span
  epoch_ = connect.epoch;
  route_ = connect.route;
  TraceSpan stream = Tracer::child_of(request_, "stream", now);
  stream.set("outrider.verifier", verifier_at(route_));
  stream_ = std::make_unique<StreamSpans>(tracer_, std::move(stream), "round");
}

void AnswerTrace::on_event(const SessionEvent& event, TimePoint now) {
  const auto* from = std::get_if<FromVerifier>(&event);
  if (from == nullptr || stream_ == nullptr || from->epoch != epoch_) return;
  stream_->on(from->event, now);
  const auto* message = std::get_if<ServerMessage>(&from->event);
  if (!failover_ || message == nullptr || !std::holds_alternative<Verdict>(*message)) return;
  failover_->end = now;
  tracer_.add(*std::exchange(failover_, std::nullopt));
}

void AnswerTrace::end(const Result<AnswerReport>& report, TimePoint now) {
  ended_ = true;
  stream_.reset();
  request_.end = now;
  if (failover_) {
    failover_->end = now;
    tracer_.add(*std::exchange(failover_, std::nullopt));
  }
  if (!report.ok()) {
    request_.error = report.status().message();
    return tracer_.add(std::move(request_));
  }
  if (!report->finish.status.ok()) request_.error = report->finish.status.message();
  const AnswerRecord& record = report->record;
  request_.set("gen_ai.response.model", record.target);
  request_.set("gen_ai.usage.input_tokens", whole(record.stats.prompt_tokens));
  request_.set("gen_ai.usage.output_tokens", whole(record.stats.completion_tokens));
  request_.set("gen_ai.response.finish_reasons",
               std::vector<std::string>{name_of(report->finish.ending)});
  request_.set("outrider.strategy", record.strategy);
  request_.set("outrider.target_passes", whole(record.stats.passes));
  request_.set("outrider.draft_tokens", whole(record.stats.num_draft_tokens));
  request_.set("outrider.accepted_tokens", whole(record.stats.num_accepted_tokens));
  request_.set("outrider.reconnects", whole(record.stats.reconnects));
  if (record.draft) request_.set("outrider.draft_model", *record.draft);
  tracer_.add(std::move(request_));
}

}  // namespace outrider
