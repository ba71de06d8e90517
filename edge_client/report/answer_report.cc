// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/answer_report.h"

#include <fmt/core.h>

#include <string_view>

#include "common/base/json.h"

namespace outrider {

// --- drafting ahead, and the time ---------------------------------------------------------------

namespace {

std::string line(const char* name, const std::string& value) {
  return fmt::format("  {:22}{}\n", name, value);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  const double share = whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
  return fmt::format("{:.0f} %", share * 100);
}

std::string time_line(const char* name, Duration part, Duration total) {
  const double share = total > Duration{0} ? to_seconds(part) / to_seconds(total) : 0;
  return line(name, fmt::format("{:9.1f} ms  {:4.1f} %", to_ms(part), share * 100));
}

std::string course_of(const PlanChange& change) {
  const std::string most =
      change.wait_for > 0 ? fmt::format(" (at most {:.0f} ms)", to_ms(change.patience)) : "";
  return fmt::format("rounds of {}, waits for {} after a miss{}, fan-out {}, exits {}",
                     change.gamma, change.wait_for, most, change.fan_out,
                     change.exits ? "on" : "off");
}

}  // namespace

std::string predraft_lines(const PredraftStats& stats) {
  const bool tried = stats.misses < stats.verdicts || stats.ahead_nodes + stats.reports > 0;
  if (!tried) return "";
  std::string named = std::to_string(stats.hits_by_guess) + " by the draft";
  for (std::size_t exit = 0; exit < stats.hits_by_exit.size(); ++exit) {
    if (stats.hits_by_exit[exit] == 0) continue;
    named += ", " + std::to_string(stats.hits_by_exit[exit]) + " by " +
             stats.exit_name(static_cast<std::int32_t>(exit));
  }
  std::string lines =
      line("drafted ahead", percent(stats.hits, stats.verdicts) + " hits, " +
                                percent(stats.partial_hits, stats.verdicts) + " partial, " +
                                percent(stats.late_hits, stats.verdicts) + " late, " +
                                percent(stats.misses, stats.verdicts) + " misses") +
      line("hits named", named);
  if (stats.ahead_nodes > 0) {
    lines += line("sent ahead", std::to_string(stats.ahead_nodes) + " nodes, " +
                                    std::to_string(stats.ahead_dead) +
                                    " died unused; no wait for a round after " +
                                    percent(stats.synced, stats.verdicts) + " of the verdicts");
  }
  if (stats.reports + stats.ignored_reports > 0) {
    lines += line("exit reports", std::to_string(stats.reports) + " taken, " +
                                      std::to_string(stats.ignored_reports) + " ignored");
  }
  return lines;
}

std::string explain_block(const DecodingStats& stats) {
  const TimeSpent& spent = stats.time_spent;
  const Duration total = spent.total();
  std::string block =
      "\nwhere the time went\n" + time_line("to the first verdict", spent.first, total) +
      time_line("target at work", spent.target, total) +
      time_line("target busy elsewhere", spent.queued, total) +
      time_line("waiting for the draft", spent.drafting, total) +
      time_line("waiting for the link", spent.link, total) + time_line("other", spent.other, total);
  for (const PlanChange& change : stats.plan_changes) {
    const std::string how = change.speculates ? course_of(change) : "speculation off";
    block += "  token " + std::to_string(change.token) + ": " + how + ", because " + change.reason +
             "\n";
  }
  return block;
}

// --- what was assumed ----------------------------------------------------------------------------

namespace {

std::string costs_text(const PassCosts& costs) {
  std::string text;
  for (const PassCosts::Point& point : costs.points) {
    text += fmt::format("{}{:.1f} ms of {} row{}", text.empty() ? "passes take " : ", ",
                        to_ms(point.time), point.rows, point.rows == 1 ? "" : "s");
  }
  if (costs.exits_percent > 0) text += fmt::format("; exits add {} %", costs.exits_percent);
  return text;
}

std::string learnt_text(const PairProfile& learnt) {
  std::string text = fmt::format("{} answer{}", learnt.answers, learnt.answers == 1 ? "" : "s");
  if (!learnt.tried.empty() && learnt.tried.front() > 0) {
    text += fmt::format(": the first guess stands in {:.0f} %",
                        100 * learnt.stood.front() / learnt.tried.front());
  }
  if (learnt.step_ms > 0) text += fmt::format(", a draft step takes {:.1f} ms", learnt.step_ms);
  if (learnt.rtt_ms > 0) text += fmt::format(", the round trip {:.1f} ms", learnt.rtt_ms);
  return text + (learnt.speculates ? ", speculation paid" : ", speculation did not pay");
}

}  // namespace

std::string assumed_text(const Opened& opened, const PairProfiles& learnt) {
  std::string text;
  if (!opened.pass_costs.points.empty()) {
    text += "assumed, as the server says: " + costs_text(opened.pass_costs) + "\n";
  }
  const auto found = learnt.find(opened.fingerprint);
  if (found != learnt.end() && found->second.answers > 0) {
    text += "assumed, from earlier answers: " + learnt_text(found->second) + "\n";
  }
  return text;
}

// --- the whole answer ----------------------------------------------------------------------------

namespace {

// Empty if the figure is not known.
std::string known(fmt::format_string<double&> pattern, std::optional<double> value) {
  return value ? fmt::format(pattern, *value) : "";
}

void add_line(std::string& block, std::string_view name, const std::string& value) {
  if (!value.empty()) block += fmt::format("  {:22}{}\n", name, value);
}

std::string acceptance_text(const DecodingStats& stats) {
  std::string text = fmt::format("{:.1f} % of {} drafted; by position",
                                 *stats.acceptance_rate * 100, stats.num_draft_tokens);
  for (const double rate : stats.acceptance_per_position) text += fmt::format(" {:.2f}", rate);
  return text;
}

// All that ran on these processors meanwhile is in it.
std::string energy_text(double joules, const DecodingStats& stats) {
  if (stats.completion_tokens == 0) return fmt::format("{:.2f} J", joules);
  return fmt::format("{:.2f} J, {:.3f} J a token", joules,
                     joules / static_cast<double>(stats.completion_tokens));
}

std::string cost_text(const Bill& bill) {
  std::string text;
  const auto add = [&text](const char* what, std::optional<double> dollars) {
    if (dollars) text += fmt::format("{}${:.6f} {}", text.empty() ? "" : ", ", *dollars, what);
  };
  add("by an API's prices", bill.api);
  add("of a rented device", bill.device);
  add("of the link", bill.link);
  add("of power", bill.power);
  return text + " (prices of " + bill.prices_of + ")";
}

std::string deadline_text(const UnverifiedRecord& given) {
  if (!given.after_ms) return given.outcome ? "the whole answer, verified" : "";
  return fmt::format("{} after {:.1f} ms, {} tokens of it verified: {}",
                     given.whole ? "a whole answer" : "a part of the answer", *given.after_ms,
                     given.verified_tokens,
                     given.outcome ? name_of(*given.outcome) : "never confirmed");
}

std::string streamed_line(const StreamedRecord& streamed) {
  const auto percent = [&](Duration part) {
    return streamed.length > Duration{0} ? to_seconds(part) / to_seconds(streamed.length) * 100 : 0;
  };
  return fmt::format(
      "  {:22}{:9.1f} ms: reading {:.1f} %, computing {:.1f} %, waiting for reads {:.1f} %, disk "
      "idle {:.1f} % ({} passes, {:.1f} MB read)\n",
      "a streamed pass", to_ms(streamed.length) / static_cast<double>(streamed.passes),
      percent(streamed.reading), percent(streamed.computing), percent(streamed.waiting),
      percent(streamed.disk_idle), streamed.passes, static_cast<double>(streamed.bytes_read) / 1e6);
}

}  // namespace

std::string explanation(const AnswerReport& report) {
  std::string text = report.assumed + explain_block(report.record.stats);
  if (report.record.streamed) text += streamed_line(*report.record.streamed);
  return text;
}

std::string why_stopped(const AnswerReport& report) {
  switch (report.finish.ending) {
    case Ending::kStopToken:
      return "the target's stop token";
    case Ending::kStopString:
      return "the stop string " +
             Json(report.stop_string).dump(-1, ' ', false, Json::error_handler_t::replace);
    case Ending::kLength:
      return "as many tokens as asked for (-n)";
    case Ending::kContextFull:
      return "the context is full";
    case Ending::kCancelled:
      return "cancelled";
    case Ending::kLinkLost:
      return "the link was lost: " + report.finish.status.message();
    case Ending::kFailed:
      return report.finish.status.message();
  }
  return "";
}

std::string stats_block(const AnswerReport& report) {
  const AnswerRecord& record = report.record;
  const DecodingStats& stats = record.stats;
  std::string block = "\n";
  // An error has a line of its own, behind the block.
  const Ending ending = report.finish.ending;
  const bool has_failed = ending == Ending::kLinkLost || ending == Ending::kFailed;
  add_line(block, "stopped by", has_failed ? "an error" : why_stopped(report));
  add_line(block, "tokens",
           fmt::format("{} answered, {} prompt", stats.completion_tokens, stats.prompt_tokens) +
               (stats.cached_tokens.value_or(0) > 0
                    ? fmt::format(" ({} from the cache)", *stats.cached_tokens)
                    : ""));
  add_line(block, "time to first token", known("{:.1f} ms", stats.ttft_ms));
  add_line(block, "time per output token", known("{:.2f} ms", stats.tpot_ms));
  add_line(block, "tokens/s", known("{:.1f}", stats.tokens_per_s));
  add_line(block, "target passes",
           std::to_string(stats.passes) + known(", {:.2f} tokens each", stats.tokens_per_pass));
  if (stats.num_drafts > 0) {
    add_line(block, "acceptance rate", acceptance_text(stats));
    add_line(block, "acceptance length", known("{:.2f}", stats.acceptance_length));
  }
  if (stats.draft_steps > 0) {
    add_line(block, "drafting",
             fmt::format("{} steps, {:.2f} ms each{}", stats.draft_steps,
                         to_ms(stats.draft_compute) / static_cast<double>(stats.draft_steps),
                         record.draft_paced ? " (emulated pace)" : ""));
  }
  block += predraft_lines(stats.predraft);
  if (record.traffic) {
    const char* how = stats.round_trips.empty() ? " (of the opening)" : "";
    if (stats.rtt_ms) add_line(block, "round trip", fmt::format("{:.2f} ms{}", *stats.rtt_ms, how));
    add_line(block, "bytes/token",
             known("{:.1f} up", record.traffic->per_token_up) +
                 known(", {:.1f} down", record.traffic->per_token_down));
  }
  if (record.joules) add_line(block, "energy", energy_text(*record.joules, stats));
  if (record.bill) add_line(block, "cost", cost_text(*record.bill));
  if (stats.reconnects > 0) {
    add_line(block, "reconnects", std::to_string(stats.reconnects));
  }
  if (record.mode == Mode::kAuto) {
    const FailoverFigures& failover = record.failover;
    add_line(block, "offline",
             fmt::format("{:.1f} s; {} failovers, {} failbacks", failover.offline_seconds,
                         failover.failovers, failover.failbacks));
  }
  if (record.unverified) add_line(block, "by the deadline", deadline_text(*record.unverified));
  if (record.arithmetic == kForeignArithmetic) add_line(block, "target", record.target);
  add_line(block, "speculation", record.speculation);
  if (record.seed) {
    add_line(block, "seed", fmt::format("{0}; --seed {0} repeats this answer", *record.seed));
  }
  return block;
}

AnswerRecord record_of(const AnswerReport& report) {
  AnswerRecord record = report.record;
  record.ending = report.finish.ending;
  record.stopped_by = why_stopped(report);
  return record;
}

}  // namespace outrider
