// SPDX-License-Identifier: Apache-2.0
#include "bench/rows/arm_rows.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <vector>

namespace outrider {
namespace {

constexpr const char* kEmulator = "qemu-aarch64";
constexpr const char* kLibraries = "/usr/aarch64-linux-gnu";  // of Debian's cross compiler

bool on_path(const std::string& program) {
  const char* path = std::getenv("PATH");
  std::string folders = path == nullptr ? "" : path;
  for (std::size_t begin = 0; begin <= folders.size();) {
    const std::size_t end = std::min(folders.find(':', begin), folders.size());
    std::string candidate = folders.substr(begin, end - begin);
    candidate.append("/").append(program);
    if (access(candidate.c_str(), X_OK) == 0) return true;
    begin = end + 1;
  }
  return false;
}

std::vector<std::string> command_of(const ArmRowsRequest& request) {
  std::vector<std::string> command;
#if !defined(__aarch64__)
  command = {kEmulator, "-L", kLibraries};
#endif
  command.insert(command.end(),
                 {request.tool, "--model", request.model, "--dtype", request.dtype, "--kv-dtype",
                  request.kv_dtype, "--kernel", request.kernel, "--cases",
                  std::to_string(request.cases), "--context", std::to_string(request.context)});
  return command;
}

// The output of the command; its exit status goes to `exit_status`.
Result<std::string> output_of(std::vector<std::string> command, int& exit_status) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (std::string& part : command) arguments.push_back(part.data());
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  if (pipe(ends.data()) != 0) return internal_error("pipe() failed");
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return internal_error("fork() failed");
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  close(ends[1]);
  std::string output;
  std::array<char, 4096> buffer{};
  for (ssize_t count = 0; (count = read(ends[0], buffer.data(), buffer.size())) > 0;) {
    output.append(buffer.data(), static_cast<std::size_t>(count));
  }
  close(ends[0]);
  waitpid(child, &exit_status, 0);
  return output;
}

// "name hash" per line.
Result<std::map<std::string, std::uint64_t>> parse_rows(const std::string& output) {
  std::map<std::string, std::uint64_t> rows;
  for (std::size_t begin = 0; begin < output.size();) {
    const std::size_t end = std::min(output.find('\n', begin), output.size());
    const std::string line = output.substr(begin, end - begin);
    const std::size_t space = line.rfind(' ');
    std::uint64_t hash = 0;
    if (space == std::string::npos ||
        std::from_chars(line.data() + space + 1, line.data() + line.size(), hash, 16).ec !=
            std::errc()) {
      return data_loss("outrider-rows printed '" + line + "', which is not a row");
    }
    rows[line.substr(0, space)] = hash;
    begin = end + 1;
  }
  return rows;
}

}  // namespace

Result<std::map<std::string, std::uint64_t>> run_arm_rows(const ArmRowsRequest& request) {
  if (!std::filesystem::exists(request.tool)) {
    return not_found(request.tool + " is not built. Remedy: ./run build aarch64");
  }
  const std::vector<std::string> command = command_of(request);
  if (!on_path(command.front()) && command.front() != request.tool) {
    return not_found(command.front() + " is not installed. Remedy: ./run build aarch64");
  }
  int exit_status = 0;
  OUTRIDER_ASSIGN_OR_RETURN(const std::string output, output_of(command, exit_status));
  if (exit_status != 0) {
    return internal_error(request.tool + " failed; its message is above");
  }
  return parse_rows(output);
}

}  // namespace outrider
