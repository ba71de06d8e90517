// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/answer_report.h"

#include <fmt/core.h>

#include <string_view>

#include "common/base/json.h"
#include "edge_client/report/answer_ledger.h"
#include "edge_client/report/predraft_report.h"

namespace outrider {
namespace {

// Empty if the figure is not known.
std::string known(fmt::format_string<double&> pattern, std::optional<double> value) {
  return value ? fmt::format(pattern, *value) : "";
}

void add_line(std::string& block, std::string_view name, const std::string& value) {
  if (!value.empty()) block += fmt::format("  {:22}{}\n", name, value);
}

std::optional<double> per_token(std::uint64_t bytes, const DecodingStats& stats) {
  if (stats.completion_tokens == 0) return std::nullopt;
  return static_cast<double>(bytes) / static_cast<double>(stats.completion_tokens);
}

std::vector<double> acceptance_per_position(const DecodingStats& stats) {
  std::vector<double> rates;
  for (const std::uint64_t accepted : stats.accepted_per_position) {
    rates.push_back(static_cast<double>(accepted) / static_cast<double>(stats.num_drafts));
  }
  return rates;
}

std::string acceptance_text(const DecodingStats& stats) {
  std::string text = fmt::format("{:.1f} % of {} drafted; by position",
                                 *stats.acceptance_rate() * 100, stats.num_draft_tokens);
  for (const double rate : acceptance_per_position(stats)) text += fmt::format(" {:.2f}", rate);
  return text;
}

std::optional<TrafficRecord> traffic_record(const AnswerReport& report) {
  if (!report.traffic) return std::nullopt;
  return TrafficRecord{.bytes = *report.traffic,
                       .per_token_up = per_token(report.traffic->framed_up, report.stats),
                       .per_token_down = per_token(report.traffic->framed_down, report.stats)};
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
  std::string text = report.assumed + explain_block(report.stats);
  if (report.streamed) text += streamed_line(*report.streamed);
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
  const DecodingStats& stats = report.stats;
  std::string block = "\n";
  // An error has a line of its own, behind the block.
  const Ending ending = report.finish.ending;
  const bool has_failed = ending == Ending::kLinkLost || ending == Ending::kFailed;
  add_line(block, "stopped by", has_failed ? "an error" : why_stopped(report));
  add_line(block, "tokens",
           fmt::format("{} answered, {} prompt", stats.completion_tokens, stats.prompt_tokens) +
               (stats.usage && stats.usage->cached_tokens > 0
                    ? fmt::format(" ({} from the server's cache)", stats.usage->cached_tokens)
                    : ""));
  add_line(block, "time to first token", known("{:.1f} ms", stats.ttft_ms()));
  add_line(block, "time per output token", known("{:.2f} ms", stats.tpot_ms()));
  add_line(block, "tokens/s", known("{:.1f}", stats.tokens_per_s()));
  add_line(block, "target passes",
           std::to_string(stats.passes) + known(", {:.2f} tokens each", stats.tokens_per_pass()));
  if (stats.num_drafts > 0) {
    add_line(block, "acceptance rate", acceptance_text(stats));
    add_line(block, "acceptance length", known("{:.2f}", stats.acceptance_length()));
  }
  if (stats.draft_steps > 0) {
    add_line(block, "drafting",
             fmt::format("{} steps, {:.2f} ms each{}", stats.draft_steps,
                         to_ms(stats.draft_compute) / static_cast<double>(stats.draft_steps),
                         report.paced ? " (emulated pace)" : ""));
  }
  block += predraft_lines(stats.predraft);
  if (report.traffic) {
    const char* how = stats.round_trips.empty() ? " (of the opening)" : "";
    if (stats.rtt_ms()) {
      add_line(block, "round trip", fmt::format("{:.2f} ms{}", *stats.rtt_ms(), how));
    }
    add_line(block, "bytes/token",
             known("{:.1f} up", per_token(report.traffic->framed_up, stats)) +
                 known(", {:.1f} down", per_token(report.traffic->framed_down, stats)));
  }
  if (report.joules) add_line(block, "energy", energy_text(*report.joules, stats));
  if (report.bill) add_line(block, "cost", cost_text(*report.bill));
  if (stats.reconnects > 0) {
    add_line(block, "reconnects", std::to_string(stats.reconnects));
  }
  if (report.mode == Mode::kAuto) {
    const FailoverFigures& failover = report.failover;
    add_line(block, "offline",
             fmt::format("{:.1f} s; {} failovers, {} handbacks", to_seconds(failover.offline),
                         failover.failovers, failover.handbacks));
  }
  add_line(block, "speculation", report.speculation);
  return block;
}

AnswerRecord record_of(const AnswerReport& report) {
  const DecodingStats& stats = report.stats;
  AnswerRecord record;
  record.text = report.text;
  record.ids = report.ids;
  record.ending = report.finish.ending;
  record.stopped_by = why_stopped(report);
  record.strategy = report.strategy;
  record.speculation = report.speculation;
  record.target = report.target;
  if (!report.draft.empty()) record.draft = report.draft;
  record.prompt_tokens = stats.prompt_tokens;
  if (stats.usage) record.cached_tokens = stats.usage->cached_tokens;
  record.completion_tokens = stats.completion_tokens;
  record.ttft_ms = stats.ttft_ms();
  record.tpot_ms = stats.tpot_ms();
  record.decode_ms = stats.decode_ms();
  record.first_verdict = {stats.first_tokens, stats.first_rows, stats.first_compute};
  record.tokens_per_s = stats.tokens_per_s();
  record.chunk_at = stats.chunk_at;
  record.chunk_tokens = stats.chunk_tokens;
  record.passes = stats.passes;
  record.rows = stats.rows;
  if (stats.usage) record.rows_pruned = stats.usage->rows_pruned;
  record.rows_died = ledger_entry(report).rows_died;
  record.passes_by_rows = stats.passes_by_rows;
  record.exit_passes_by_rows = stats.exit_passes_by_rows;
  record.target_compute = stats.target_compute;
  record.target_queued = stats.target_queued;
  record.tokens_per_pass = stats.tokens_per_pass();
  record.num_drafts = stats.num_drafts;
  record.num_draft_tokens = stats.num_draft_tokens;
  record.num_accepted_tokens = stats.num_accepted_tokens;
  record.acceptance_rate = stats.acceptance_rate();
  record.acceptance_length = stats.acceptance_length();
  record.acceptance_per_position = acceptance_per_position(stats);
  record.drafted_per_position = stats.drafted_per_position;
  record.accepted_per_position = stats.accepted_per_position;
  record.drafted_per_branch = stats.drafted_per_branch;
  record.accepted_per_branch = stats.accepted_per_branch;
  record.draft_steps = stats.draft_steps;
  record.draft_compute = stats.draft_compute;
  record.draft_paced = report.paced;
  record.draft_overruns = report.pace_overruns;
  record.rtt_ms = stats.rtt_ms();
  record.reconnects = stats.reconnects;
  record.mode = report.mode;
  record.offline_seconds = to_seconds(report.failover.offline);
  record.failovers = report.failover.failovers;
  record.handbacks = report.failover.handbacks;
  record.traffic = traffic_record(report);
  record.streamed = report.streamed;
  record.joules = report.joules;
  record.bill = report.bill;
  record.predraft = stats.predraft;
  record.time_spent = stats.time_spent;
  record.plan_changes = stats.plan_changes;
  return record;
}

}  // namespace outrider
