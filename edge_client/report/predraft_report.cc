// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/predraft_report.h"

#include <fmt/core.h>

namespace outrider {
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

}  // namespace outrider
