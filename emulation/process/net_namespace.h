// Network namespaces held by file descriptors. They have no names, so nothing is left behind when
// the process ends in any way.
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
  // A new namespace whose only interface is loopback. FAILED_PRECONDITION without the rights.
  static Result<NetNamespace> create();

  int fd() const { return fd_.get(); }

 private:
  explicit NetNamespace(UniqueFd fd) : fd_(std::move(fd)) {}

  UniqueFd fd_;
};

// While this object lives the calling thread is in the namespace: its sockets and the programs it
// starts belong there.
class InNamespace final {
 public:
  static Result<InNamespace> enter(int fd);
  ~InNamespace();
  InNamespace(InNamespace&&) noexcept = default;
  InNamespace& operator=(InNamespace&&) = delete;

 private:
  explicit InNamespace(UniqueFd home) : home_(std::move(home)) {}

  UniqueFd home_;  // the namespace to which the thread returns
};

}  // namespace outrider
