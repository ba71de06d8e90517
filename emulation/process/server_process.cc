// SPDX-License-Identifier: Apache-2.0
#include "emulation/process/server_process.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

namespace outrider {

double overrun_share(const PaceCounts& counts) {
  if (counts.passes == 0) return 0;
  return static_cast<double>(counts.overruns) / static_cast<double>(counts.passes);
}

PaceCounts operator+(const PaceCounts& one, const PaceCounts& other) {
  return {one.passes + other.passes, one.overruns + other.overruns};
}

Json to_json(const PaceCounts& counts) {
  return {{"passes", counts.passes}, {"overruns", counts.overruns}};
}

std::string overrun_line(const std::string& whose, const PaceCounts& counts) {
  return fmt::format(
      "{}: {} of {} passes were slower than the emulated pace, at most {:.0f} % may be. Remedy: a "
      "quieter machine",
      whose, counts.overruns, counts.passes, 100 * kMaxOverruns);
}

namespace {

// The word after `key` at the beginning of a line of the start block; empty: there is none.
std::string value_of(const std::string& text, const std::string& key) {
  const std::size_t line = text.find("\n  " + key + " ");
  if (line == std::string::npos) return "";
  const std::size_t begin = text.find_first_not_of(' ', line + 3 + key.size());
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

}  // namespace

std::optional<PaceCounts> parse_overruns(const std::string& text) {
  long long overruns = 0, passes = 0;
  const std::size_t line = text.find("  overruns ");
  if (line == std::string::npos ||
      std::sscanf(text.c_str() + line, "  overruns %lld of %lld passes", &overruns, &passes) != 2) {
    return std::nullopt;
  }
  return PaceCounts{passes, overruns};
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(
    const std::vector<std::string>& arguments, std::optional<int> core, const NetworkSide& side) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string program, sibling_program("outrider-lab-server"));
  std::vector<std::string> all = arguments;
  const bool says = std::ranges::any_of(
      all, [](const std::string& flag) { return flag.starts_with("--draft-source"); });
  if (!says) all.emplace_back("--draft-source=none");
  return start_program(program, all, core, side);
}

Result<std::unique_ptr<ServerProcess>> ServerProcess::start_program(
    const std::string& program, const std::vector<std::string>& arguments, std::optional<int> core,
    const NetworkSide& side) {
  ProcessOptions options;
  options.program = program;
  // Measurements and comparisons set their sampling themselves.
  options.arguments = {"--host", side.host, "--port", "0", "--generation-config", "none"};
  if (!is_loopback(side.host)) options.arguments.push_back("--insecure");
  options.arguments.insert(options.arguments.end(), arguments.begin(), arguments.end());
  options.core = core;
  options.network_namespace = side.network_namespace;
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return unavailable("cannot make a pipe");
  UniqueFd out(ends[0]);
  UniqueFd theirs(ends[1]);
  OUTRIDER_ASSIGN_OR_RETURN(const pid_t pid, spawn_process(options, theirs.get(), -1));
  theirs.reset();
  std::unique_ptr<ServerProcess> server(new ServerProcess(pid, std::move(out)));
  OUTRIDER_RETURN_IF_ERROR(server->read_start());
  return server;
}

std::optional<PaceCounts> ServerProcess::stop() {
  if (pid_ == 0) return std::nullopt;
  kill(pid_, SIGTERM);
  std::string last;  // short enough to fit into the pipe until the server has ended
  waitpid(std::exchange(pid_, 0), nullptr, 0);
  std::array<char, 1024> some;
  for (ssize_t got = 0; (got = read(out_.get(), some.data(), some.size())) > 0;) {
    last.append(some.data(), static_cast<std::size_t>(got));
  }
  return parse_overruns(last);
}

// The pipe closes when the process ends, so this loop always ends.
Status ServerProcess::read_start() {
  std::string text = "\n";
  while (value_of(text, "ready").empty()) {
    std::array<char, 1024> some;
    const ssize_t got = read(out_.get(), some.data(), some.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0)
      return unavailable("outrider-server ended before it listened; its messages are above");
    text.append(some.data(), static_cast<std::size_t>(got));
  }
  start_block_ = text;
  OUTRIDER_ASSIGN_OR_RETURN(address_, parse_address(value_of(text, "listening")));
  return {};
}

std::string ServerProcess::start_value(const std::string& key) const {
  return value_of(start_block_, key);
}

}  // namespace outrider
