// outrider-link: puts an emulated link in front of a server. Lines on stdin change it while it
// runs. SPDX-License-Identifier: Apache-2.0
#include <csignal>
#include <iostream>
#include <string>

#include "common/base/json_record.h"
#include "common/serving/cli/program.h"
#include "emulation/link/proxy_link.h"
#include "emulation/path/link_spec.h"

namespace outrider {
namespace {

constexpr const char* kCommands =
    "Commands, one a line:\n"
    "  reset          connections are reset, new ones refused\n"
    "  silence        half open: nothing is carried, and neither side is notified\n"
    "  silence up     the same, only towards the server\n"
    "  restore        held data arrives, new connections are accepted\n"
    "  garble         one bit flips in the next data from the server on each connection\n"
    "  to HOST:PORT   new connections go to this server\n"
    "  from ADDRESS   new connections come from this address in 127.0.0.0/8\n"
    "  profile LINK   another profile from now on, such as lte+loss=2%\n"
    "  counts         one line of JSON: what happened to the pieces it carried\n"
    "The link answers each with one line: ok, the counts, or an error. It ends with its "
    "input.";

struct LinkProgramOptions {
  std::string to;
  std::string profile = "delay=0ms";
  std::uint64_t seed = 0;
};

std::string obey(const std::string& line, ProxyLink& link, LinkFaults& faults) {
  const std::size_t space = line.find(' ');
  const std::string command = line.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : line.substr(space + 1);
  if (command == "counts") return write_json(link.counts()).dump();
  if (command == "garble") {
    link.garble();
    return "ok";
  }
  if (command == "profile") {
    const Result<LinkProfile> profile = parse_link(argument);
    if (!profile.ok()) return profile.status().message();
    link.become(*profile);
    return "ok";
  }
  if (command == "reset") {
    faults.refuses = true;
  } else if (command == "silence") {
    faults.holds_up = true;
    faults.holds_down = argument != "up";
  } else if (command == "restore") {
    faults = {.source = faults.source, .server = faults.server};
  } else if (command == "from") {
    faults.source = argument;
  } else if (command == "to") {
    const Result<Address> server = parse_address(argument);
    if (!server.ok()) return server.status().message();
    faults.server = *server;
  } else {
    return "unknown command '" + line + "'. Remedy: see --help";
  }
  link.impose(faults);
  return "ok";
}

Status run(const LinkProgramOptions& options) {
  OUTRIDER_ASSIGN_OR_RETURN(const Address to, parse_address(options.to));
  OUTRIDER_ASSIGN_OR_RETURN(LinkProfile profile, parse_link(options.profile));
  ProxyLink link(std::move(profile), options.seed);
  OUTRIDER_ASSIGN_OR_RETURN(const Address address, link.route(to));
  std::cout << "listening " << address.to_string() << std::endl;
  LinkFaults faults;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << obey(line, link, faults) << std::endl;
  }
  return {};
}

}  // namespace
}  // namespace outrider

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  outrider::Program program("outrider-link",
                            "An emulated link in front of a server on this machine.");
  outrider::LinkProgramOptions options;
  CLI::App& app = program.app();
  app.footer(outrider::kCommands);
  app.add_option("--to", options.to, "HOST:PORT of the server, a numeric IPv4 address")->required();
  app.add_option("--profile", options.profile, "The link: lte, starlink+loss=2%, trace:FILE");
  app.add_option("--seed", options.seed, "Seed of its jitter and losses");
  if (const std::optional<int> code = program.parse(argc, argv)) return *code;
  return program.finish(outrider::run(options));
}
