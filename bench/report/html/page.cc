// SPDX-License-Identifier: Apache-2.0
#include "bench/report/html/page.h"

#include <fmt/core.h>

#include <algorithm>

#include "bench/report/cell_report.h"
#include "bench/report/html/charts.h"
#include "bench/report/html/markup.h"

namespace outrider {
namespace {

std::string spread_cells(const std::optional<Spread>& spread, const char* format) {
  if (!spread) return "<td>–</td><td>–</td>";
  return "<td>" + fmt::format(fmt::runtime(format), spread->p50) + "</td><td>" +
         fmt::format(fmt::runtime(format), spread->p99) + "</td>";
}

std::string share_cell(const std::optional<Estimate>& share) {
  if (!share) return "–";
  std::string text = fmt::format("{:.2f}", share->value);
  if (share->interval) {
    text += fmt::format("<br><small>{:.2f}–{:.2f}</small>", share->interval->low,
                        share->interval->high);
  }
  return text;
}

std::string figures_table(const RunReport& report) {
  std::string table =
      "<table><thead><tr><th>setting</th><th>strategy</th><th>tokens/s</th><th>TTFT p50</th>"
      "<th>p99</th><th>TPOT p50</th><th>p99</th><th>E2EL "
      "p50</th><th>p99</th><th>accepted</th><th>exit hits</th>"
      "<th>speculation on</th><th>failed</th><th>late</th></tr></thead><tbody>";
  for (const CellReport& cell : report.cells) {
    table += "<tr><td>" + html_escaped(cell.setting->name) + "</td><td>" +
             html_escaped(cell.variant->name) + "</td>" +
             fmt::format("<td>{}</td>", cell.tokens_per_s
                                            ? fmt::format("{:.1f}", cell.tokens_per_s->value)
                                            : std::string("–")) +
             spread_cells(cell.ttft_ms, "{:.0f}") + spread_cells(cell.tpot_ms, "{:.1f}") +
             spread_cells(cell.e2el_ms, "{:.0f}") + "<td>" + share_cell(cell.acceptance) +
             "</td><td>" + share_cell(cell.exit_hit_rate) +
             fmt::format("</td><td>{:.0f} %</td><td>{}</td><td>{}</td></tr>",
                         100 * cell.speculation_on, cell.failures, cell.deadline_missed);
  }
  return table + "</tbody></table>";
}

std::string links_table(const RunReport& report) {
  std::string text;
  for (const auto& [network, figures] : report.run.measured_links.items()) {
    text += "<li><b>" + html_escaped(network) + "</b>: asked " +
            html_escaped(figures.value("asked", "")) + "; ";
    if (figures.contains("error")) {
      text += "could not be measured: " + html_escaped(figures.value("error", ""));
    } else {
      text +=
          fmt::format("over TCP {:.1f} ms, {:.3g} Mbit/s up, {:.3g} down ({})",
                      figures.value("rtt_p50_ms", 0.0), figures.value("up_mbit_s", 0.0),
                      figures.value("down_mbit_s", 0.0), html_escaped(figures.value("link", "")));
    }
    text += "</li>";
  }
  return text.empty() ? "" : "<h2>Links, asked and measured</h2><ul>" + text + "</ul>";
}

// A field in words; a dash if it is missing.
std::string field_text(const Json& object, const char* field) {
  const auto found = object.find(field);
  if (found == object.end() || found->is_null()) return "–";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

std::string how_made(const RunReport& report) {
  const RunDescription& run = report.run;
  std::string text = "<h2>How it was made</h2><ul>";
  const auto add = [&](const std::string& name, const std::string& value) {
    text += "<li>" + name + ": " + html_escaped(value) + "</li>";
  };
  add("made by", run.made_by);
  add("machine", fmt::format("{}, {} cores, {}", field_text(run.machine, "cpu"),
                             field_text(run.machine, "cores"), field_text(run.machine, "system")));
  for (const auto& [role, model] : run.models.items()) {
    add(role, fmt::format("{}, fingerprint {}", field_text(model, "path"),
                          field_text(model, "fingerprint")));
  }
  add("prompts",
      fmt::format("{} of {}, sha256 {}", run.num_prompts, run.prompts, run.prompts_hash));
  add("answers", fmt::format("{} repetition(s), at most {} tokens, seed {}", run.repetitions,
                             run.max_tokens, run.seed));
  if (run.exit_cost) add("exits", exit_cost_line(run));
  for (const Bar& bar : report.bars) add("bar", bar.to_string());
  return text + "</ul><details><summary>flags</summary><pre>" + html_escaped(run.command) +
         "</pre></details>";
}

std::string figures(const RunReport& report) {
  const std::string mark = mark_of(report);
  std::string text = to_html(
      {"What wins where", mark, win_map(report),
       "How many times faster than plain cloud decoding (ar) each strategy decodes, with 95 % "
       "intervals below; rows go from the shortest round trip to the longest. Green: the fastest, "
       "several if the intervals do not separate them. Red: slower than plain decoding, or a "
       "wrong text."});
  text += to_html({"How long an answer takes", mark, latency_charts(report),
                   "For each number of seconds, the share of the answers that were complete by "
                   "then: further left is faster, steeper is steadier."});
  text += to_html({"One answer as it arrived", mark, arrival_lanes(report),
                   "The first prompt: each bar is an arrival of tokens at the user, its height how "
                   "many; the seconds at the end are until the last one."});
  const std::string both_sides = answer_timeline(report);
  if (!both_sides.empty()) {
    text +=
        to_html({"One answer on both sides", mark, both_sides,
                 "How the first prompt's answer begins on the edge and in the cloud, in seconds "
                 "since the request, at the setting whose round trip is in the middle. Where a "
                 "pass follows another at once, its round was there before the verdict; a gap is "
                 "a wait. The server's clock is not read: a pass is placed by when its verdict "
                 "was heard, half the measured round trip, and the times in the verdict."});
  }
  text += to_html({"How much of the draft stands", mark, acceptance_chart(report),
                   "The share of the rounds of this depth whose token at that position was "
                   "the target's own choice."});
  const std::string over_rtt = round_trip_charts(report);
  if (!over_rtt.empty()) {
    text += to_html({"Distance", mark, over_rtt,
                     "Speed-up (times plain decoding) and bytes per token over the link's round "
                     "trip in ms, each point one network."});
  }
  text += cost_section(report);
  return text +
         to_html({"All figures", mark, figures_table(report),
                  "Milliseconds; TTFT: to the first token, TPOT: per token behind it, E2EL: "
                  "to the last. Accepted: share of the drafted tokens; exit hits: share of the "
                  "verdicts "
                  "whose "
                  "next round was there, both with 95 % intervals. Late: beyond the deadline, "
                  "if one was set."});
}

int refresh_seconds() {
  return static_cast<int>(to_seconds(kPageRefresh));
}

std::string progress_line(const AnswersSoFar& so_far) {
  const double percent = 100.0 * static_cast<double>(so_far.done) /
                         static_cast<double>(std::max<std::size_t>(so_far.all, 1));
  return fmt::format(
      "<p class=\"progress\"><progress value=\"{0}\" max=\"{1}\" "
      "aria-label=\"Answers\"></progress> "
      "{2:.0f} %: {0} of {1} answers. This page fills while the run goes on, and is read anew "
      "every {3} seconds.</p>\n",
      so_far.done, so_far.all, percent, refresh_seconds());
}

}  // namespace

std::string report_page(const RunReport& report) {
  std::string page =
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"
      "<link rel=\"icon\" href=\"data:,\"><title>Outrider: what edge drafting "
      "brings</title>";
  if (report.so_far) {
    page += fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">", refresh_seconds());
  }
  page += "<style>";
  page += page_style();
  page += "</style></head><body>\n<h1>What edge drafting brings</h1>\n";
  if (report.so_far) page += progress_line(*report.so_far);
  if (!report.valid) {
    page +=
        "<p class=\"invalid\"><b>This run is invalid.</b> Some answers differ from what the target "
        "alone writes; the cells with them are marked.</p>\n";
  }
  page += "<p class=\"lead\">" + html_escaped(result_line(report)) + "</p>\n<p class=\"soft\">" +
          html_escaped(mark_of(report)) + "; " +
          (report.valid ? "every text is plain decoding's, token by token." : "") + "</p>\n";
  page += figures(report) + links_table(report) + how_made(report);
  return page + "</body></html>\n";
}

}  // namespace outrider
