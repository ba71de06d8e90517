// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/virtual_answer.h"

#include <utility>

#include "edge_client/report/answer_report.h"

namespace outrider {
namespace {

LinkTraffic traffic_of(const VirtualAnswer& answer) {
  return {.payload_up = answer.bytes_up,
          .payload_down = answer.bytes_down,
          .framed_up = answer.bytes_up,
          .framed_down = answer.bytes_down};
}

}  // namespace

AnswerRecord record_of(VirtualAnswer answer, Strategy strategy, const std::string& name,
                       const std::string& draft) {
  AnswerReport report;
  report.ids = std::move(answer.ids);
  report.stats = std::move(answer.stats);
  report.finish = answer.finish;
  report.traffic = traffic_of(answer);
  report.target = answer.target;
  report.strategy = strategy;
  report.paced = true;
  const bool drafts = strategy != Strategy::kAr;
  if (drafts) report.draft = draft;
  report.speculation = drafts ? "ON (" + name + ")" : "OFF because --strategy ar was chosen";
  if (answer.speculation_ended)
    report.speculation += ", then OFF because " + *answer.speculation_ended;
  return record_of(report);
}

}  // namespace outrider
