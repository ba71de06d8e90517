// SPDX-License-Identifier: Apache-2.0
#include "edge_client/verifiers/remote_probe.h"

#include <chrono>
#include <utility>

#include "edge_client/verifiers/remote_channel.h"

namespace outrider {

namespace {

// Whether a new connection comes as far as HTTP/2's greeting.
std::function<bool(Duration)> greets(const RemoteOptions& options) {
  return [channels = std::make_shared<ChannelSource>(options)](Duration patience) {
    return channels->make()->WaitForConnected(
        std::chrono::system_clock::now() +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(patience));
  };
}

}  // namespace

RemoteProbe::RemoteProbe(const RemoteOptions& options) : RemoteProbe(greets(options)) {}
RemoteProbe::RemoteProbe(std::function<bool(Duration patience)> connects)
    : connects_(std::move(connects)), thread_([this] { work(); }) {}

RemoteProbe::~RemoteProbe() {
  {
    const MutexLock lock(mu_);
    stopping_ = true;
    done_ = nullptr;
  }
  wake_.notify_one();
  thread_.join();
}

void RemoteProbe::probe(Duration patience, Done done) {
  {
    const MutexLock lock(mu_);
    patience_ = patience;
    done_ = std::move(done);
    asked_ = true;
  }
  wake_.notify_one();
}

void RemoteProbe::stop() {
  const MutexLock lock(mu_);
  done_ = nullptr;
  asked_ = false;
}

void RemoteProbe::work() {
  while (true) {
    Duration patience{0};
    {
      const MutexLock lock(mu_);
      while (!stopping_ && !asked_) wake_.wait(mu_);
      if (stopping_) return;
      asked_ = false;
      patience = patience_;
    }
    const LinkProbed probed = connect(patience);
    const MutexLock lock(mu_);  // so that stop() waits for a call that is under way
    if (done_ && !asked_) std::exchange(done_, nullptr)(probed);
  }
}

LinkProbed RemoteProbe::connect(Duration patience) {
  const TimePoint began = std::chrono::steady_clock::now();
  const bool good = connects_(patience);
  return {.good = good, .took = std::chrono::steady_clock::now() - began};
}

}  // namespace outrider
