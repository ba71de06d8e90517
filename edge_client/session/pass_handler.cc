// SPDX-License-Identifier: Apache-2.0
#include "edge_client/session/pass_handler.h"

#include <algorithm>
#include <utility>

#include "edge_client/metrics/verified_round.h"
#include "edge_client/session/exit_reports.h"

namespace outrider {

Status PassHandler::on_started(const Started& started, TimePoint now) {
  Status checked = check_started(started, view());
  if (!checked.ok()) return checked;
  context_.stream.started = started;
  context_.speculator.on_pass_started(started, now);
  return {};
}

Result<std::optional<Ending>> PassHandler::on_verdict(const Verdict& verdict, TimePoint now) {
  Status checked = check_verdict(verdict, view());
  if (!checked.ok()) return checked;
  const std::optional<Ending> ending = commit(verdict, now);
  context_.stream.started.reset();
  ++context_.stream.next_pass;
  return ending;
}

std::optional<Ending> PassHandler::commit(const Verdict& verdict, TimePoint now) {
  const auto& [drafter, opened, stream, answer, speculator, observers, outbox] = context_;
  const VerifiedRound round = verified_round(drafter.tree(), *stream.started, verdict.tokens);
  Answer::Taken taken = answer.take(verdict.tokens);
  SpeculationActions actions;
  const Speculator::Committed committed = speculator.on_verdict(verdict, round, now, actions);
  outbox.add(std::exchange(actions, {}), now);
  outbox.add(std::move(taken.emit));
  const VerdictRecord record{.verdict = verdict,
                             .round = round,
                             .answer_tokens = answer.ids().size(),
                             .round_trip = speculator.round_trip(),
                             .request_round_trip = committed.request_round_trip,
                             .sent_unused = committed.sent_unused,
                             .evicted = drafter.evicted() - evicted_before_};
  observers.notify(&SessionObserver::on_verdict, record, now);
  if (taken.stopped) return Ending::kStopString;
  if (const auto ending = answer.natural_ending(opened.stop_ids)) return ending;
  speculator.on_answer_continues(now, actions);
  outbox.add(std::move(actions), now);
  return std::nullopt;
}

void PassHandler::on_exit_report(const ExitReport& report, TimePoint now) {
  StreamState& stream = context_.stream;
  const std::optional<ExitAdvice> advice = read_report(report, stream.reports_seen, view());
  stream.reports_seen = std::max(stream.reports_seen, report.seq);
  const bool taken = advice && context_.speculator.on_exit_report(*advice);
  context_.observers.notify(&SessionObserver::on_exit_report, report, taken, now);
}

StreamView PassHandler::view() const {
  return {context_.drafter.tree(), context_.opened, context_.answer.end_position(),
          context_.stream.next_pass, context_.stream.started};
}

}  // namespace outrider
