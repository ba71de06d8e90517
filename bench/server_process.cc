// SPDX-License-Identifier: Apache-2.0
#include "bench/server_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

extern char** environ;

namespace outrider {
namespace {

// The word after `key` at the beginning of a line of the start block.
std::string value_of(const std::string& text, const std::string& key) {
  const std::size_t line = text.find("\n  " + key + " ");
  if (line == std::string::npos) return "";
  const std::size_t begin = text.find_first_not_of(' ', line + 3 + key.size());
  return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

Result<pid_t> spawn(const std::string& program, const std::vector<std::string>& arguments,
                    int out) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, program.c_str(), &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return unavailable("cannot start " + program + ": " + std::strerror(error));
  return pid;
}

}  // namespace

Result<std::unique_ptr<ServerProcess>> ServerProcess::start(
    const std::vector<std::string>& arguments) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string program = (self.parent_path() / "outrider-server").string();
  std::array<int, 2> ends;
  if (error || pipe2(ends.data(), O_CLOEXEC) != 0) return unavailable("cannot make a pipe");
  std::vector<std::string> all = {"--host", "127.0.0.1", "--port", "0"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const Result<pid_t> pid = spawn(program, all, ends[1]);
  close(ends[1]);
  if (!pid.ok()) {
    close(ends[0]);
    return pid.status();
  }
  std::unique_ptr<ServerProcess> server(new ServerProcess(*pid, ends[0]));
  OUTRIDER_RETURN_IF_ERROR(server->read_start());
  return server;
}

ServerProcess::~ServerProcess() {
  kill(pid_, SIGTERM);
  waitpid(pid_, nullptr, 0);
  close(out_);
}

// Its end closes the pipe, so this ends whatever happens to it.
Status ServerProcess::read_start() {
  std::string text = "\n";
  while (value_of(text, "ready").empty()) {
    std::array<char, 1024> some;
    const ssize_t got = read(out_, some.data(), some.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return unavailable("outrider-server ended before it listened; see above");
    text.append(some.data(), static_cast<std::size_t>(got));
  }
  tokenizer_hash_ = value_of(text, "tokenizer");
  OUTRIDER_ASSIGN_OR_RETURN(address_, parse_address(value_of(text, "listening")));
  return {};
}

}  // namespace outrider
