// Other programs of ours, run as processes of their own.
//
// Thread rule: one thread (cores are given by moving the caller there for a moment).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace outrider {

// Where in the network a program runs.
struct NetworkSide {
  std::string host = "127.0.0.1";             // its own address there
  std::optional<int> network_namespace = {};  // a file descriptor; nothing: our own
};

struct ProcessOptions {
  std::string program;  // a path
  std::vector<std::string> arguments;
  std::optional<int> core = {};  // runs on this CPU alone
  // Runs in this network namespace, and is killed when the thread that started it ends: what stayed
  // would hold the namespace.
  std::optional<int> network_namespace = {};
};

// The path of a program that stands beside this one.
Result<std::string> sibling_program(const std::string& name);

// err < 0: our own stderr. Both stay the caller's.
Result<pid_t> spawn_process(const ProcessOptions& options, int out, int err);

struct FinishedProcess {
  int exit_code = 0;  // 128 + the signal that ended it
  std::string out;
  std::string err;
  std::optional<Duration> first_out = {};  // from its start to its first byte on stdout
  // The most memory it held; at least what this process held when it was started.
  std::int64_t peak_bytes = 0;
};

// Runs it to its end. DEADLINE_EXCEEDED, and it is killed, if that takes longer than timeout.
// on_out: called on this thread with what its stdout brings, as it comes; empty: nobody looks.
Result<FinishedProcess> run_process(const ProcessOptions& options, Duration timeout,
                                    const std::function<void(std::string_view)>& on_out = {});

}  // namespace outrider
