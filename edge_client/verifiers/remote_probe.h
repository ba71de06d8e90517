// Asks whether a server can be reached: by a connection of its own, as far as HTTP/2's greeting
// (and TLS's before it), which a server that hangs does not give.
//
// Thread rule: as link_probe.h. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "common/base/mutex.h"
#include "common/decoding/protocol/link_probe.h"
#include "edge_client/verifiers/remote.h"

namespace outrider {

class RemoteProbe final : public LinkProbe {
 public:
  explicit RemoteProbe(const RemoteOptions& options);
  // connects: whether a server answers within that time; called on the probe's thread.
  explicit RemoteProbe(std::function<bool(Duration patience)> connects);
  // Waits for the probe that is out.
  ~RemoteProbe() override;
  RemoteProbe(const RemoteProbe&) = delete;
  RemoteProbe& operator=(const RemoteProbe&) = delete;

  void probe(Duration patience, Done done) override;
  void stop() override;

 private:
  void work();
  LinkProbed connect(Duration patience);

  const std::function<bool(Duration patience)> connects_;
  Mutex mu_;
  CondVar wake_;
  Duration patience_ OUTRIDER_GUARDED_BY(mu_){0};
  Done done_ OUTRIDER_GUARDED_BY(mu_);           // of the probe that is out
  bool asked_ OUTRIDER_GUARDED_BY(mu_) = false;  // it has not begun
  bool stopping_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace outrider
