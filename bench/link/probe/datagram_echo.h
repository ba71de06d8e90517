// Sends every datagram back at once: the far end of a round trip probe.
//
// Thread rule: one thread of its own, as real-time as it may be.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <thread>
#include <utility>

#include "bench/process/process.h"
#include "common/base/address.h"
#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

class DatagramEcho final {
 public:
  static Result<std::unique_ptr<DatagramEcho>> start(const NetworkSide& side);
  ~DatagramEcho();
  DatagramEcho(const DatagramEcho&) = delete;
  DatagramEcho& operator=(const DatagramEcho&) = delete;

  const Address& address() const { return address_; }

 private:
  DatagramEcho(UniqueFd socket, Address address)
      : socket_(std::move(socket)), address_(std::move(address)) {}

  void run() const;

  const UniqueFd socket_;
  const Address address_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace outrider
