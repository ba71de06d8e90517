// Other programs of ours as processes of their own. They are killed when the thread that started
// them ends in any way, so a killed bench leaves none behind.
//
// Thread rule: one thread (for a process on one core, that thread moves there for a moment).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// The last line that is not empty, without its line break.
inline std::string last_line(const std::string& text) {
  const std::size_t end = text.find_last_not_of("\r\n");
  if (end == std::string::npos) return "";
  const std::size_t newline = text.rfind('\n', end);
  const std::size_t begin = newline == std::string::npos ? 0 : newline + 1;
  return text.substr(begin, end - begin + 1);
}

// The error message of outrider-edge or outrider-lab-edge, or else its last line.
inline std::string last_error_line(const std::string& err) {
  for (const char* const program : {"outrider-lab-edge: ", "outrider-edge: "}) {
    const std::size_t begin = err.rfind(program);
    if (begin != std::string::npos) return err.substr(begin, err.find('\n', begin) - begin);
  }
  return last_line(err);
}

// Where in the network a program runs.
struct NetworkSide {
  std::string host = "127.0.0.1";             // its own address there
  std::optional<int> network_namespace = {};  // a file descriptor; nothing: our own namespace
};

struct ProcessOptions {
  std::string program;  // a path
  std::vector<std::string> arguments;
  std::optional<int> core = {};               // runs on this CPU alone
  std::optional<int> network_namespace = {};  // the namespace in which it runs
};

// The path of a program in the folder of this one.
Result<std::string> sibling_program(const std::string& name);

// err, in < 0: our own stderr and stdin. The caller keeps all.
Result<pid_t> spawn_process(const ProcessOptions& options, int out, int err, int in = -1);

struct FinishedProcess {
  int exit_code = 0;  // 128 + the signal that ended it
  std::string out;
  std::string err;
  std::optional<Duration> first_out = {};  // from its start to its first byte on stdout
  // The most memory it held; at least what this process held at the start.
  std::int64_t peak_bytes = 0;
};

// Runs it to its end. DEADLINE_EXCEEDED, after killing it, if that takes longer than timeout.
// on_out is called on this thread with each piece of its stdout; it may be empty.
Result<FinishedProcess> run_process(const ProcessOptions& options, Duration timeout,
                                    const std::function<void(std::string_view)>& on_out = {});

}  // namespace outrider
