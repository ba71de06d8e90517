// SPDX-License-Identifier: Apache-2.0
#include "bench/check.h"

#include <cstdio>

namespace outrider {

CLI::App* CheckList::add(const std::string& name, const std::string& description, Body body) {
  CLI::App* command = app_.add_subcommand(name, description);
  checks_.emplace_back(command, std::move(body));
  return command;
}

Result<bool> CheckList::run_chosen() const {
  for (const auto& [command, body] : checks_) {
    if (!command->parsed()) continue;
    OUTRIDER_ASSIGN_OR_RETURN(const CheckOutcome outcome, body());
    Json line = {{"check", command->get_name()}, {"passed", outcome.passed}};
    line.update(outcome.figures);
    std::printf("%s\n", line.dump().c_str());
    return outcome.passed;
  }
  return invalid_argument("no check named");
}

}  // namespace outrider
