// SPDX-License-Identifier: Apache-2.0
#include "edge_client/main/report.h"

#include <fmt/core.h>

#include <string_view>

#include "common/base/json.h"
#include "edge_client/metrics/predraft_report.h"

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

const char* ending_name(Ending ending) {
  switch (ending) {
    case Ending::kStopToken:
      return "stop_token";
    case Ending::kStopString:
      return "stop_string";
    case Ending::kLength:
      return "length";
    case Ending::kContextFull:
      return "context_full";
    case Ending::kCancelled:
      return "cancelled";
    case Ending::kLinkLost:
      return "link_lost";
    case Ending::kFailed:
      return "failed";
  }
  return "failed";
}

Json json_number(std::optional<double> value) {
  return value ? Json(*value) : Json();
}

Json traffic_json(const AnswerReport& report) {
  if (!report.traffic) return Json();
  const LinkTraffic& traffic = *report.traffic;
  return {{"payload_up", traffic.payload_up},
          {"payload_down", traffic.payload_down},
          {"framed_up", traffic.framed_up},
          {"framed_down", traffic.framed_down},
          {"per_token_up", json_number(per_token(traffic.framed_up, report.stats))},
          {"per_token_down", json_number(per_token(traffic.framed_down, report.stats))}};
}

}  // namespace

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
  add_line(block, "stopped by", why_stopped(report));
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
  if (stats.reconnects > 0) {
    add_line(block, "reconnects", std::to_string(stats.reconnects));
  }
  add_line(block, "speculation", report.speculation);
  return block;
}

std::string stats_json(const AnswerReport& report) {
  const DecodingStats& stats = report.stats;
  const Json json = {{"text", report.text},
                     {"ids", report.ids},
                     {"stop_reason", ending_name(report.finish.ending)},
                     {"stopped_by", why_stopped(report)},
                     {"strategy", report.strategy},
                     {"speculation", report.speculation},
                     {"target", report.target},
                     {"draft", report.draft.empty() ? Json() : Json(report.draft)},
                     {"prompt_tokens", stats.prompt_tokens},
                     {"cached_tokens", stats.usage ? Json(stats.usage->cached_tokens) : Json()},
                     {"completion_tokens", stats.completion_tokens},
                     {"ttft_ms", json_number(stats.ttft_ms())},
                     {"tpot_ms", json_number(stats.tpot_ms())},
                     {"decode_ms", json_number(stats.decode_ms())},
                     {"first_verdict",
                      {{"tokens", stats.first_tokens},
                       {"rows", stats.first_rows},
                       {"compute_ms", to_ms(stats.first_compute)}}},
                     {"tokens_per_s", json_number(stats.tokens_per_s())},
                     {"target_passes", stats.passes},
                     {"target_rows", stats.rows},
                     {"target_compute_ms", to_ms(stats.target_compute)},
                     {"target_queued_ms", to_ms(stats.target_queued)},
                     {"tokens_per_pass", json_number(stats.tokens_per_pass())},
                     {"spec_decode_num_drafts", stats.num_drafts},
                     {"spec_decode_num_draft_tokens", stats.num_draft_tokens},
                     {"spec_decode_num_accepted_tokens", stats.num_accepted_tokens},
                     {"spec_decode_acceptance_rate", json_number(stats.acceptance_rate())},
                     {"spec_decode_acceptance_length", json_number(stats.acceptance_length())},
                     {"spec_decode_per_position_acceptance_rates", acceptance_per_position(stats)},
                     {"draft_steps", stats.draft_steps},
                     {"draft_ms", to_ms(stats.draft_compute)},
                     {"draft_pace_emulated", report.paced},
                     {"rtt_ms", json_number(stats.rtt_ms())},
                     {"reconnects", stats.reconnects},
                     {"bytes", traffic_json(report)},
                     {"predraft", predraft_json(stats.predraft)},
                     {"time_spent_ms", time_spent_json(stats.time_spent)},
                     {"plan_changes", plan_changes_json(stats)}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace outrider
