// SPDX-License-Identifier: Apache-2.0
#include "bench/paces/device_pace.h"

#include <fmt/core.h>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/files.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxPaceBytes = 1 << 16;
constexpr double kMaxExitCost = 10;

std::string place_of(const std::string& path, const toml::node& node) {
  return path + ", line " + std::to_string(node.source().begin.line);
}

Status check_pace_keys(const std::string& path, const toml::table& table,
                       std::span<const std::string_view> known) {
  for (const auto& [key, node] : table) {
    if (std::ranges::find(known, key.str()) != known.end()) continue;
    return invalid_argument(place_of(path, node) + ": unknown key '" + std::string(key.str()) +
                            "'. Remedy: a file of outrider-bench measure-device");
  }
  return {};
}

Result<PaceCurve> read_curve(const std::string& path, const toml::table& table) {
  const toml::array* rows = table["rows"].as_array();
  const toml::array* ms = table["ms"].as_array();
  if (rows == nullptr || ms == nullptr || rows->empty() || rows->size() != ms->size()) {
    return invalid_argument(place_of(path, table) +
                            ": expected 'rows' and 'ms', lists of the same length");
  }
  std::vector<PaceCurve::Point> points;
  for (std::size_t i = 0; i < rows->size(); ++i) {
    const auto row = (*rows)[i].value<std::int64_t>();
    const auto time = (*ms)[i].value<double>();
    if (!row || !time || !(*time > 0)) {
      return invalid_argument(place_of(path, (*rows)[i]) +
                              ": 'rows' are whole numbers and 'ms' times above 0");
    }
    points.push_back({*row, *time});
  }
  Result<PaceCurve> curve = PaceCurve::create(std::move(points));
  if (!curve.ok()) return curve.status().with_context(place_of(path, table));
  return curve;
}

Result<std::optional<MeasuredTimes>> read_times(const std::string& path, const toml::table& root,
                                                const char* part) {
  const toml::node* node = root.get(part);
  if (node == nullptr) return std::optional<MeasuredTimes>();
  const toml::table* table = node->as_table();
  if (table == nullptr) return invalid_argument(place_of(path, *node) + ": expected a table");
  static constexpr std::array<std::string_view, 4> kKeys = {"model", "rows", "ms", "exit-cost"};
  OUTRIDER_RETURN_IF_ERROR(check_pace_keys(path, *table, kKeys));
  MeasuredTimes times;
  times.model = (*table)["model"].value_or(std::string());
  OUTRIDER_ASSIGN_OR_RETURN(times.ms, read_curve(path, *table));
  if (const toml::node* cost = table->get("exit-cost")) {
    times.exit_cost = cost->value<double>().value_or(0);
    if (!(times.exit_cost >= 1 && times.exit_cost <= kMaxExitCost)) {
      return invalid_argument(place_of(path, *cost) + ": 'exit-cost' must be from 1 to 10");
    }
  }
  return std::optional(std::move(times));
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string times_toml(const char* part, const std::optional<MeasuredTimes>& times) {
  if (!times) return "";
  std::string rows, ms;
  for (const PaceCurve::Point& point : times->ms.points()) {
    rows += fmt::format("{}{}", rows.empty() ? "" : ", ", point.rows);
    ms += fmt::format("{}{:.4f}", ms.empty() ? "" : ", ", point.ms);
  }
  std::string text = fmt::format("\n[{}]\nmodel = {}\nrows = [{}]\nms = [{}]\n", part,
                                 quoted(times->model), rows, ms);
  if (times->exit_cost != 1) text += fmt::format("exit-cost = {:.4f}\n", times->exit_cost);
  return text;
}

}  // namespace

std::string to_toml(const DevicePace& pace) {
  return "device = " + quoted(pace.device) + "\n" + times_toml("draft", pace.draft) +
         times_toml("target", pace.target);
}

Result<DevicePace> read_device_pace(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxPaceBytes));
  const toml::parse_result parsed = toml::parse(text, path);
  if (!parsed) {
    return invalid_argument(path + ", line " + std::to_string(parsed.error().source().begin.line) +
                            ": " + std::string(parsed.error().description()));
  }
  static constexpr std::array<std::string_view, 3> kKeys = {"device", "draft", "target"};
  OUTRIDER_RETURN_IF_ERROR(check_pace_keys(path, parsed.table(), kKeys));
  DevicePace pace;
  pace.device = parsed.table()["device"].value_or(std::string());
  OUTRIDER_ASSIGN_OR_RETURN(pace.draft, read_times(path, parsed.table(), "draft"));
  OUTRIDER_ASSIGN_OR_RETURN(pace.target, read_times(path, parsed.table(), "target"));
  if (!pace.draft && !pace.target) {
    return invalid_argument(path +
                            " has neither [draft] nor [target]. Remedy: a file of "
                            "outrider-bench measure-device");
  }
  return pace;
}

Result<PaperPace> pace_from_files(std::span<const std::string> paths) {
  PaperPace pace;
  pace.group = PaceGroup::kOther;
  const auto take = [](const std::optional<MeasuredTimes>& times, const std::string& path,
                       const char* part, PaceCurve& into) -> Status {
    if (!times) return {};
    if (!into.empty()) {
      return invalid_argument("--pace-from " + path + ": [" + part + "] stands twice");
    }
    into = times->ms;
    return {};
  };
  for (const std::string& path : paths) {
    OUTRIDER_ASSIGN_OR_RETURN(const DevicePace file, read_device_pace(path));
    OUTRIDER_RETURN_IF_ERROR(take(file.draft, path, "draft", pace.own_step));
    OUTRIDER_RETURN_IF_ERROR(take(file.target, path, "target", pace.own_pass));
    if (file.target) pace.own_exit_cost = file.target->exit_cost;
    pace.name += (pace.name.empty() ? "" : "+") + std::filesystem::path(path).stem().string();
  }
  for (const auto& [curve, part] :
       {std::pair(&pace.own_step, "draft"), {&pace.own_pass, "target"}}) {
    if (!curve->empty()) continue;
    return invalid_argument(std::string("--pace-from: no file has [") + part +
                            "]. Remedy: outrider-bench measure-device --" + part + " MODEL");
  }
  pace.step_ms = pace.own_step.ms(1);
  pace.pass_ms = pace.ar_ms = pace.own_pass.ms(1);
  return pace;
}

}  // namespace outrider
