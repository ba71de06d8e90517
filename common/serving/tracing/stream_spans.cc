// SPDX-License-Identifier: Apache-2.0
#include "common/serving/tracing/stream_spans.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace outrider {
namespace {

std::int64_t whole(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

}  // namespace

const char* finish_reason(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      break;
  }
  return "error";
}

StreamSpans::StreamSpans(Tracer& tracer, TraceSpan stream, std::string pass)
    : tracer_(tracer),
      stream_(std::move(stream)),
      pass_name_(std::move(pass)),
      now_(stream_.begin) {}

StreamSpans::~StreamSpans() {
  end(opened_at_ ? "its client is gone" : "it was refused, or its client is gone");
}

void StreamSpans::on(const VerifierEvent& event, TimePoint now) {
  now_ = now;
  if (const auto* ended = std::get_if<StreamEnded>(&event)) {
    return end(ended->status.ok() ? "" : ended->status.message());
  }
  std::visit([this](const auto& message) { on_message(message); }, std::get<ServerMessage>(event));
}

// Where a level of an elastic target goes on with another's answer, it has waited for nothing.
void StreamSpans::on_message(const Opened& opened) {
  const bool goes_on = std::exchange(opened_at_, now_).has_value();
  stream_.set("gen_ai.response.model", opened.model_name);
  stream_.set("outrider.arithmetic_id", opened.arithmetic_id);
  if (goes_on) return;
  TraceSpan wait = Tracer::child_of(stream_, "wait", stream_.begin);
  wait.end = now_;
  tracer_.add(std::move(wait));
}

void StreamSpans::on_message(const Started&) {
  pass_began_ = now_;
}

void StreamSpans::on_message(const ExitReport& report) {
  if (passes_ >= kMaxPasses) return;
  exit_reports_.push_back({.name = "exit",
                           .at = now_,
                           .attributes = {{"outrider.exit", std::int64_t{report.exit}},
                                          {"outrider.confidence", report.confidence / 255.0}}});
}

void StreamSpans::on_message(const Verdict& verdict) {
  const bool is_first = passes_++ == 0;
  std::vector<TraceSpan::Event> reports = std::exchange(exit_reports_, {});
  const std::optional<TimePoint> began = std::exchange(pass_began_, std::nullopt);
  if (passes_ > kMaxPasses) return;
  const TimePoint computing = std::max(stream_.begin, now_ - verdict.timings.computed);
  TraceSpan pass =
      Tracer::child_of(stream_, is_first ? "prefill" : pass_name_,
                       is_first ? opened_at_.value_or(stream_.begin) : began.value_or(computing));
  pass.end = now_;
  pass.events = std::move(reports);
  pass.set("outrider.pass", std::int64_t{verdict.pass});
  pass.set("outrider.tokens", whole(verdict.tokens.size()));
  pass.set("outrider.rows", std::int64_t{verdict.rows});
  if (verdict.batch_rows > 0) pass.set("outrider.batch_rows", std::int64_t{verdict.batch_rows});
  pass.set("outrider.computed_ms", to_ms(verdict.timings.computed));
  pass.set("outrider.queued_ms", to_ms(verdict.timings.queued));
  tracer_.add(std::move(pass));
}

void StreamSpans::on_message(const Usage& usage) {
  stream_.set("gen_ai.usage.input_tokens", whole(usage.prompt_tokens));
  stream_.set("gen_ai.usage.output_tokens", whole(usage.completion_tokens));
  stream_.set("gen_ai.usage.cache_read.input_tokens", whole(usage.cached_tokens));
  stream_.set("gen_ai.response.finish_reasons",
              std::vector<std::string>{finish_reason(usage.reason)});
}

void StreamSpans::on_message(const Notice& notice) {
  const bool is_overload = notice.kind == Notice::Kind::kOverloaded;
  if (!is_overload && notice.kind != Notice::Kind::kReconnectSoon) return;
  stream_.events.push_back({.name = is_overload ? "overloaded" : "reconnect soon", .at = now_});
}

void StreamSpans::end(const std::string& error) {
  if (std::exchange(ended_, true)) return;
  stream_.end = now_;
  stream_.error = error;
  stream_.set("outrider.passes", whole(passes_));
  tracer_.add(std::move(stream_));
}

}  // namespace outrider
