// SPDX-License-Identifier: Apache-2.0
#include "bench/report/run_report.h"

#include <fmt/core.h>
#include <sys/utsname.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <thread>

#include "bench/report/cost_report.h"
#include "bench/report/energy_report.h"
#include "common/base/files.h"
#include "common/base/posix.h"

namespace outrider {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(':');
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(line.find_first_not_of(' ', colon + 1));
    }
  }
  return "unknown";
}

Json limits_json(const ServiceLimits& limits) {
  const auto json_of = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  return {{"e2el_ms", json_of(limits.e2el_ms)},
          {"ttft_ms", json_of(limits.ttft_ms)},
          {"tpot_ms", json_of(limits.tpot_ms)}};
}

// The columns of the CSV, each a path into the JSON of a cell.
constexpr const char* kColumns[] = {"setting",
                                    "network",
                                    "pace",
                                    "temperature",
                                    "variant",
                                    "strategy",
                                    "spec_draft_n_max",
                                    "clock",
                                    "link",
                                    "rtt_p50_ms",
                                    "valid",
                                    "requests",
                                    "failed",
                                    "wrong_text",
                                    "deadline_missed",
                                    "goodput",
                                    "by_deadline/whole",
                                    "by_deadline/verified",
                                    "by_deadline/confirmed",
                                    "by_deadline/corrected",
                                    "ttft_ms/mean/value",
                                    "ttft_ms/p50",
                                    "ttft_ms/p99",
                                    "tpot_ms/mean/value",
                                    "tpot_ms/p50",
                                    "tpot_ms/p99",
                                    "inter_chunk_ms/p50",
                                    "inter_chunk_ms/p99",
                                    "e2el_ms/mean/value",
                                    "e2el_ms/p50",
                                    "e2el_ms/p99",
                                    "tokens_per_s/value",
                                    "over_ar/value",
                                    "over_ar/low",
                                    "over_ar/high",
                                    "acceptance/value",
                                    "acceptance/low",
                                    "acceptance/high",
                                    "exit_hit_rate/value",
                                    "exit_hit_rate/low",
                                    "exit_hit_rate/high",
                                    "speculation_on",
                                    "agreement",
                                    "target_passes",
                                    "target_rows",
                                    "tokens_per_pass",
                                    "wire_up_per_token",
                                    "wire_down_per_token",
                                    "round_trip_ms",
                                    "cost/api_stateless",
                                    "cost/api_by_the_pass",
                                    "cost/gpu_shared",
                                    "cost/gpu_reserved",
                                    "cost/link",
                                    "cost/device",
                                    "energy/joules_per_token/value",
                                    "energy/device_joules_per_token/value",
                                    "energy/joules_per_answer"};

std::string csv_field(const Json& value) {
  if (value.is_null()) return "";
  if (!value.is_string()) return value.dump();
  std::string quoted = "\"";
  for (const char c : value.get_ref<const std::string&>()) {
    quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  }
  return quoted + "\"";
}

std::string with_interval(const std::optional<Estimate>& estimate) {
  if (!estimate) return "–";
  if (!estimate->interval) return fmt::format("{:.2f}", estimate->value);
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", estimate->value, estimate->interval->low,
                     estimate->interval->high);
}

std::string cell_row(const CellReport& cell) {
  const AnswerFigures& sum = cell.sum;
  std::optional<double> bytes;
  if (sum.all_tokens > 0) bytes = sum.wire_up / sum.all_tokens;
  const auto median = [](const std::optional<Spread>& spread) {
    return spread ? std::optional(spread->p50) : std::nullopt;
  };
  std::string name = cell.variant->name;
  if (!cell.variant->best_of.empty()) name += fmt::format(" (γ={})", cell.gamma);
  if (cell.agreement) name += fmt::format(" (its own text, {:.0f} % as ar)", 100 * *cell.agreement);
  return fmt::format(
      "| {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", name,
      cell.valid() ? with_interval(cell.over_ar) : "invalid", with_interval(cell.tokens_per_s),
      number_or_dash(median(cell.ttft_ms), "{:.0f}"),
      number_or_dash(median(cell.tpot_ms), "{:.1f}"),
      number_or_dash(median(cell.e2el_ms), "{:.0f}"), with_interval(cell.acceptance),
      with_interval(cell.exit_hit_rate), number_or_dash(cell.speculation_on * 100, "{:.0f} %"),
      number_or_dash(bytes, "{:.0f}"));
}

// The answers that were there by the deadline; empty: nothing unverified was given.
std::string deadline_lines(const RunReport& report) {
  std::string lines;
  for (const CellReport& cell : report.cells) {
    if (!cell.by_deadline) continue;
    const ByDeadline& counts = *cell.by_deadline;
    lines += fmt::format(
        "- {}, {}: {} of {} answers are whole by {:g} ms: {} verified, {} unverified. Of these the "
        "target confirmed {} and corrected {}.\n",
        cell.setting->name, cell.variant->name, counts.whole(), cell.requests,
        report.run.limits.e2el_ms.value_or(0), counts.verified, counts.unverified(),
        counts.confirmed, counts.corrected);
  }
  return lines.empty() ? "" : "\n## By the deadline\n\n" + lines;
}

}  // namespace

Json about_machine() {
  utsname name{};
  uname(&name);
  return {{"cpu", cpu_name()},
          {"cores", std::thread::hardware_concurrency()},
          {"system", std::string(name.sysname) + " " + name.release}};
}

Json report_json(const RunReport& report) {
  const RunDescription& run = report.run;
  Json cells = Json::array();
  for (const CellReport& cell : report.cells) cells.push_back(to_json(cell, run.clock));
  Json stops = Json::array();
  for (const BreakEven& one : break_evens_of(report)) stops.push_back(to_json(one));
  return {{"schema", kReportSchema},
          {"made_by", run.made_by},
          {"command", run.command},
          {"models", run.models},
          {"setup", run.setup},
          {"exit_cost", run.exit_cost ? Json(*run.exit_cost) : Json()},
          {"exit_cost_measured", run.exit_cost_measured},
          {"inconclusive", report.inconclusive},
          {"machine", run.machine},
          {"measured_links", run.measured_links},
          {"clock", name_of(run.clock)},
          {"seed", run.seed},
          {"prompts",
           {{"file", run.prompts}, {"sha256", run.prompts_hash}, {"count", run.num_prompts}}},
          {"repetitions", run.repetitions},
          {"max_tokens", run.max_tokens},
          {"limits", limits_json(run.limits)},
          {"valid", report.valid},
          {"prices_of", report.prices ? Json(report.prices->date) : Json()},
          {"energy", to_json(report.energy)},
          {"break_even", std::move(stops)},
          {"bars", to_json(report.bars)},
          {"cells", std::move(cells)}};
}

std::string with_schema_first(const Json& report, std::string_view schema) {
  Json rest = report;
  rest.erase("schema");
  return "{\n \"schema\": \"" + std::string(schema) + "\"," + rest.dump(1).substr(1) + "\n";
}

std::string report_csv(const RunReport& report) {
  std::string text;
  for (const char* column : kColumns) {
    std::string name = column;
    for (char& c : name) c = c == '/' ? '_' : c;
    text += (text.empty() ? "" : ",") + name;
  }
  text += "\n";
  for (const CellReport& cell : report.cells) {
    const Json json = to_json(cell, report.run.clock);
    std::string line;
    for (const char* column : kColumns) {
      const Json::json_pointer path("/" + std::string(column));
      line += (line.empty() ? "" : ",") + (json.contains(path) ? csv_field(json[path]) : "");
    }
    text += line + "\n";
  }
  return text;
}

std::string exit_cost_line(const RunDescription& run) {
  if (!run.exit_cost) return "";
  return fmt::format("A pass with exits takes {:.3g} times as long ({}).", *run.exit_cost,
                     run.exit_cost_measured ? "measured on this machine" : "by --exit-cost");
}

std::string result_line(const RunReport& report) {
  if (report.inconclusive.empty()) return winners_line(report.cells);
  return "This run is inconclusive: " + report.inconclusive + ".";
}

std::string report_markdown(const RunReport& report) {
  const RunDescription& run = report.run;
  std::string text = fmt::format(
      "# Outrider run\n\n{} prompts of `{}`, {} repetition(s), at most {} tokens, seed {}, {} "
      "clock. "
      "{}{}\n\n{}\n",
      run.num_prompts, run.prompts, run.repetitions, run.max_tokens, run.seed, name_of(run.clock),
      report.valid ? "All texts are plain decoding's."
                   : "**INVALID: some texts differ from plain decoding's.**",
      run.exit_cost ? " " + exit_cost_line(run) : "", result_line(report));
  std::string setting;
  for (const CellReport& cell : report.cells) {
    if (cell.setting->name != setting) {
      setting = cell.setting->name;
      text += fmt::format(
          "\n## {}\n\nlink: {} ({}); devices: {}\n\n"
          "| strategy | over ar [95 %] | tokens/s [95 %] | TTFT p50, ms | TPOT p50, ms | "
          "E2EL p50, ms | acceptance [95 %] | exit hit rate [95 %] | speculation on | B up/token "
          "|\n"
          "|---|---|---|---|---|---|---|---|---|---|\n",
          setting, cell.setting->link.description(), cell.link_kind,
          cell.setting->pass.empty() ? "this machine" : "emulated, " + cell.setting->pace);
    }
    text += cell_row(cell);
  }
  text += deadline_lines(report);
  text += cost_markdown(report);
  text += energy_markdown(report.energy, report.cells);
  if (!report.bars.empty()) text += "\n## Bars\n\n";
  for (const Bar& bar : report.bars) text += "- " + bar.to_string() + "\n";
  return text;
}

namespace {

constexpr std::int64_t kMaxReportBytes = std::int64_t{1} << 30;

}  // namespace

Status check_report(const Json& report, const std::string& name) {
  const bool has_schema = report.is_object() && report.contains("schema");
  const std::string schema = has_schema ? report["schema"].dump() : "nothing";
  if (schema == Json(kReportSchema).dump() && report.contains("cells") &&
      report["cells"].is_array()) {
    return {};
  }
  return invalid_argument(name + ": its schema is " + schema + ", not \"" + kReportSchema +
                          "\", or it has no cells. Remedy: a report.json of outrider-bench run "
                          "--out of this version");
}

Result<Json> read_report(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxReportBytes));
  OUTRIDER_ASSIGN_OR_RETURN(Json report, parse_json(text, path));
  OUTRIDER_RETURN_IF_ERROR(check_report(report, path));
  return report;
}

}  // namespace outrider
