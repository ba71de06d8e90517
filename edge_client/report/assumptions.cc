// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/assumptions.h"

#include <fmt/core.h>

namespace outrider {
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

}  // namespace outrider
