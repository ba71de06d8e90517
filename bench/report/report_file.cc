// SPDX-License-Identifier: Apache-2.0
#include "bench/report/report_file.h"

#include <cstdint>

#include "bench/report/run_report.h"
#include "common/base/files.h"

namespace outrider {
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
