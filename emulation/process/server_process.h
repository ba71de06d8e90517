// An outrider-lab-server as a process of its own, on a free port.
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/base/address.h"
#include "common/base/json.h"
#include "common/base/posix.h"
#include "common/base/status.h"
#include "common/engine/model/model_pacer.h"
#include "emulation/process/process.h"

namespace outrider {

// How well emulated paces were kept. A pass that takes longer than its pace is not shortened. If
// there are many such passes, the run does not represent the named device.

// Counts passes of a target or steps of a draft.
inline constexpr double kMaxOverruns = 0.01;

double overrun_share(const PaceCounts& counts);

inline bool kept_pace(const PaceCounts& counts) {
  return overrun_share(counts) <= kMaxOverruns;
}

PaceCounts operator+(const PaceCounts& one, const PaceCounts& other);

// {"passes": .., "overruns": ..}
Json to_json(const PaceCounts& counts);

// A message for people about a pace that was not kept; whose: "draft at rtx-68m-7b".
std::string overrun_line(const std::string& whose, const PaceCounts& counts);

// The counts of its emulated pace in a server's last line; nothing if it has none.
std::optional<PaceCounts> parse_overruns(const std::string& text);

class ServerProcess final {
 public:
  // Starts the outrider-lab-server in the folder of this program and waits until it listens. It
  // logs to our stderr. Unless the arguments have --draft-source it drafts nothing itself, so that
  // plain decoding is plain. core: the only CPU on which it runs. side: where it listens.
  static Result<std::unique_ptr<ServerProcess>> start(const std::vector<std::string>& arguments,
                                                      std::optional<int> core = std::nullopt,
                                                      const NetworkSide& side = {});
  // The same with the program at that path.
  static Result<std::unique_ptr<ServerProcess>> start_program(
      const std::string& program, const std::vector<std::string>& arguments,
      std::optional<int> core, const NetworkSide& side);
  ~ServerProcess() { stop(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const Address& address() const { return address_; }
  // Sends SIGTERM and waits for its end. Returns its counts of the emulated pace; nothing if it has
  // no pace or was already stopped.
  std::optional<PaceCounts> stop();

  // The tokenizer hash that it prints at its start.
  std::string tokenizer_hash() const { return start_value("tokenizer"); }
  // The word behind another key of its start block: "openai", "metrics". Empty: there is none.
  std::string start_value(const std::string& key) const;

 private:
  ServerProcess(pid_t pid, UniqueFd out) : pid_(pid), out_(std::move(out)) {}

  Status read_start();

  pid_t pid_;           // 0: stopped
  const UniqueFd out_;  // its stdout
  Address address_;
  std::string start_block_;
};

}  // namespace outrider
