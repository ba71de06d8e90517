// The flags of a program with HTTP pages that say which hosts and web pages may use them.
//
// Thread rule: main thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "common/serving/cli/program.h"

namespace outrider {

// --allowed-hosts stands in the group, --allowed-origins among what is rarely needed of it.
inline void add_web_flags(CLI::App& command, std::vector<std::string>& hosts,
                          std::vector<std::string>& origins, const std::string& group) {
  command
      .add_option("--allowed-hosts", hosts,
                  "Names, beside localhost and addresses, by which browsers (and on this machine "
                  "all programs) may reach its HTTP pages, as NAME,NAME; *: any")
      ->delimiter(',')
      ->default_str("")
      ->group(group);
  command
      .add_option("--allowed-origins", origins,
                  "Other sites whose web pages may use its HTTP pages (CORS), as "
                  "https://app.example,http://localhost:3000; *: any")
      ->delimiter(',')
      ->default_str("")
      ->group(group + kRarelyNeeded);
}

// --otlp-traces-endpoint stands among what is rarely needed of the group.
inline void add_traces_flag(CLI::App& command, std::string& endpoint, const std::string& group) {
  command
      .add_option("--otlp-traces-endpoint", endpoint,
                  "Send traces of requests to this OpenTelemetry collector, as "
                  "http://collector:4317; OTEL_* variables choose protocol, sampler and names "
                  "[OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT]")
      ->default_str("")
      ->group(group + kRarelyNeeded);
}

}  // namespace outrider
