// Whether the server can be reached, and who decides: from what an answer's streams bring, from how
// long they have been silent, and between answers from a probe, which is sent when somebody asks
// and what is known is old.
//
//   (on_connect on_event*)* on_finish        of each answer
//
// Thread rule: look() and look_fresh() from one thread, lost_since() and target() from any; on_..()
// from the thread of the answers' loop, one at a time; the probe calls back from its own.
// Ownership: probe and clock outlive it. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/enum_names.h"
#include "common/base/mutex.h"
#include "common/decoding/protocol/link_probe.h"
#include "edge_client/failover/failover_options.h"
#include "edge_client/failover/link_monitor.h"
#include "edge_client/session/events.h"

namespace outrider {

enum class LinkState : std::uint8_t {
  kNone,      // there is no server: this device's target alone decides
  kUnknown,   // nothing has been heard yet
  kOnline,    // the server speaks
  kDegraded,  // an answer has lost its stream and tries again, or hears nothing
  kOffline,   // it is not used: out of reach, too slow, or its bytes are spent
};

template <>
inline constexpr auto enum_names<LinkState> =
    std::to_array<EnumName<LinkState>>({{LinkState::kNone, "none"},
                                        {LinkState::kUnknown, "unknown"},
                                        {LinkState::kOnline, "online"},
                                        {LinkState::kDegraded, "degraded"},
                                        {LinkState::kOffline, "offline"}});

class LinkWatch final {
 public:
  // The age at which a finding counts as old.
  static constexpr Duration kFresh = std::chrono::seconds(5);

  struct View {
    LinkState link = LinkState::kUnknown;
    bool device_decides = false;  // this device's target: now, or as the last answer ended
    bool can_answer = false;      // a request that comes now finds a target
  };

  // probe: null if nobody may ask the server between answers, or there is none.
  LinkWatch(Mode mode, LinkProbe* probe, const Clock& clock);
  ~LinkWatch();
  LinkWatch(const LinkWatch&) = delete;
  LinkWatch& operator=(const LinkWatch&) = delete;

  void on_connect(const Connect& connect);
  void on_event(const SessionEvent& event);
  void on_finish(const Finish& finish);

  // The current findings; a probe is sent if they are old.
  View look();
  // Calls back once: at once if what is known is fresh, else when the probe has ended, from its
  // thread.
  void look_fresh(std::function<void(const View&)> done);
  // Since when an answer has been without a target: its server is lost, and nobody else decides.
  // Nothing: it has one.
  std::optional<TimePoint> lost_since();
  // How long the server of an answer has said nothing, if that is longer than usual.
  std::optional<Duration> silence();
  // The name of the last that opened a stream; empty: none has.
  std::string target();

 private:
  void learn(LinkState link) OUTRIDER_REQUIRES(mu_);
  void note_target(const VerifierEvent& event) OUTRIDER_REQUIRES(mu_);
  void note_verdict(const VerifierEvent& event) OUTRIDER_REQUIRES(mu_);
  void on_probed(const LinkProbed& probed);
  bool is_probe_due();
  bool is_silent() const OUTRIDER_REQUIRES(mu_);
  void notice_silence() OUTRIDER_REQUIRES(mu_);
  View view() const OUTRIDER_REQUIRES(mu_);

  const Mode mode_;
  LinkProbe* const probe_;
  const Clock& clock_;

  Mutex mu_;
  LinkState link_ OUTRIDER_GUARDED_BY(mu_);
  std::optional<TimePoint> learnt_at_ OUTRIDER_GUARDED_BY(mu_);
  Connect stream_ OUTRIDER_GUARDED_BY(mu_);  // the last
  std::string target_ OUTRIDER_GUARDED_BY(mu_);
  bool answering_ OUTRIDER_GUARDED_BY(mu_) = false;
  LinkMonitor monitor_ OUTRIDER_GUARDED_BY(mu_);       // of that stream
  bool has_decided_ OUTRIDER_GUARDED_BY(mu_) = false;  // that stream has brought a verdict
  bool probing_ OUTRIDER_GUARDED_BY(mu_) = false;
  std::optional<TimePoint> lost_since_ OUTRIDER_GUARDED_BY(mu_);
  std::vector<std::function<void(const View&)>> waiting_ OUTRIDER_GUARDED_BY(mu_);
};

}  // namespace outrider
