// Network namespaces held by file descriptors: nothing has a name, so nothing is left behind when
// the process ends, however it ends.
//
// Thread rule: a namespace is a value with one owner; InNamespace belongs to the thread that made
// it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include "common/base/posix.h"
#include "common/base/status.h"

namespace outrider {

class NetNamespace final {
 public:
  // A new one in which nothing but its loopback is up. FAILED_PRECONDITION without the rights.
  static Result<NetNamespace> create();

  int fd() const { return fd_.get(); }

 private:
  explicit NetNamespace(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// While this lives the calling thread is in the namespace: sockets that it opens belong there, and
// programs that it starts begin there.
class InNamespace final {
 public:
  static Result<InNamespace> enter(int fd);
  ~InNamespace();
  InNamespace(InNamespace&&) noexcept = default;
  InNamespace& operator=(InNamespace&&) = delete;

 private:
  explicit InNamespace(UniqueFd home) : home_(std::move(home)) {}

  UniqueFd home_;  // where the thread goes back to
};

}  // namespace outrider
