// SPDX-License-Identifier: Apache-2.0
#include "bench/check.h"

#include <unistd.h>

#include <cstdio>

#include "common/serving/cli/program.h"

namespace outrider {

void CheckOutcome::mark_inconclusive(const std::string& reason) {
  if (inconclusive.empty()) inconclusive = reason;
}

void CheckOutcome::hold(std::span<const Bar> bars) {
  if (bars.empty()) mark_inconclusive("there is no bar to judge");
  for (const Bar& bar : bars) {
    std::fprintf(stderr, "%s\n", bar.to_string().c_str());
    passed = passed && bar.met();
    if (!bar.value.interval) {
      mark_inconclusive("\"" + bar.name + "\" has no confidence interval: one sample is too few");
    }
  }
  figures["bars"] = to_json(bars);
}

void CheckOutcome::hold_pace(const std::string& whose, const PaceCounts& counts) {
  figures["pace_overruns"][whose] = to_json(counts);
  if (kept_pace(counts)) return;
  passed = false;
  std::fprintf(stderr, "%s\n", overrun_line(whose, counts).c_str());
}

int CheckOutcome::exit_code() const {
  if (!passed) return kExitRuntime;
  if (regressed) return kExitRegression;
  return inconclusive.empty() ? kExitOk : kExitInconclusive;
}

std::string figures_for_people(const Json& line) {
  std::string text;
  for (const auto& [name, value] : line.items()) {
    if (value.is_structured()) continue;
    text += name + ": " + (value.is_string() ? value.get<std::string>() : value.dump()) + "\n";
  }
  return text + "All figures, as JSON: send stdout to a file or a pipe (> figures.json).\n";
}

CLI::App* CheckList::add(const std::string& name, const std::string& description, Body body) {
  CLI::App* command = app_.add_subcommand(name, description);
  checks_.emplace_back(command, std::move(body));
  return command;
}

Result<int> CheckList::run_chosen() const {
  for (const auto& [command, body] : checks_) {
    if (!command->parsed()) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const CheckOutcome outcome, body());
    const int code = outcome.exit_code();
    Json line = {{"check", command->get_name()}, {"passed", code == kExitOk}};
    if (!outcome.inconclusive.empty()) {
      std::fprintf(stderr, "%s: inconclusive: %s\n", command->get_name().c_str(),
                   outcome.inconclusive.c_str());
      line["inconclusive"] = outcome.inconclusive;
    }
    line.update(outcome.figures);
    const bool for_people = isatty(STDOUT_FILENO) != 0 && !outcome.json_wanted;
    std::fputs((for_people ? figures_for_people(line) : line.dump() + "\n").c_str(), stdout);
    return code;
  }
  return invalid_argument("no check named");
}

}  // namespace outrider
