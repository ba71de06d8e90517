// An outrider-server of our own, as a process of its own on a free port of the loopback.
// Thread rule: one thread. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/process/process.h"
#include "bench/process/unique_fd.h"
#include "common/base/address.h"
#include "common/base/status.h"

namespace outrider {

class ServerProcess final {
 public:
  // Starts the outrider-server that stands beside this program, waits until it listens. What it
  // logs goes to our stderr. core: the only CPU it runs on.
  static Result<std::unique_ptr<ServerProcess>> start(const std::vector<std::string>& arguments,
                                                      std::optional<int> core = std::nullopt);
  // SIGTERM, and waits for its end.
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  const Address& address() const { return address_; }
  // The tokenizer hash that it shows at its start.
  const std::string& tokenizer_hash() const { return tokenizer_hash_; }

 private:
  ServerProcess(pid_t pid, UniqueFd out) : pid_(pid), out_(std::move(out)) {}

  Status read_start();

  const pid_t pid_;
  const UniqueFd out_;  // its stdout
  Address address_;
  std::string tokenizer_hash_;
};

}  // namespace outrider
