// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/fault_injector.h"

#include <gtest/gtest.h>

namespace outrider {
namespace {

constexpr int kKinds = 7;
constexpr double kChancePerKind = 0.15;

}  // namespace

InjectedFaults& InjectedFaults::operator+=(const InjectedFaults& other) {
  failed_passes += other.failed_passes;
  drains += other.drains;
  restarts += other.restarts;
  crashes += other.crashes;
  stalls += other.stalls;
  overflows += other.overflows;
  partitions += other.partitions;
  limited_messages += other.limited_messages;
  cuts += other.cuts;
  return *this;
}

void expect_harsh(const InjectedFaults& counts, std::uint64_t runs) {
  EXPECT_GT(counts.failed_passes, runs / 20);
  EXPECT_GT(counts.drains, runs / 20);
  EXPECT_GT(counts.restarts, runs / 20);
  EXPECT_GT(counts.crashes, runs / 40);
  EXPECT_GT(counts.stalls, runs / 20);
  EXPECT_GT(counts.overflows, runs / 100);
  EXPECT_GT(counts.partitions, runs / 20);
  EXPECT_GT(counts.limited_messages, runs);
}

FaultInjector::FaultInjector(Simulation& simulation, SimServer& server, const Links& links)
    : simulation_(simulation), random_(simulation.random()), server_(server), links_(links) {
  for (int kind = 0; kind < kKinds; ++kind) {
    if (random_.chance(kChancePerKind)) kinds_.push_back(static_cast<Fault>(kind));
  }
  left_ = kinds_.empty() ? 0 : static_cast<int>(random_.between(1, 8));
}

void FaultInjector::begin() {
  inject_later();
}

InjectedFaults FaultInjector::counts() const {
  InjectedFaults counts = counts_;
  counts.failed_passes = static_cast<std::uint64_t>(server_.failed_passes());
  for (const auto& link : links_) {
    counts.overflows += link->counts().overflows;
    counts.limited_messages += link->counts().limited;
    counts.cuts += link->counts().cuts;
  }
  return counts;
}

void FaultInjector::inject_later() {
  if (left_-- <= 0) return;
  simulation_.after(random_.between(from_ms(1), from_ms(600)), [this] {
    inject(kinds_[random_.below(kinds_.size())]);
    inject_later();
  });
}

void FaultInjector::inject(Fault fault) {
  SimLink& link = *links_[random_.below(links_.size())];
  switch (fault) {
    case Fault::kFailingPass:
      return server_.fail_next_pass(unavailable("the device is lost"));
    case Fault::kFatalPass:
      fatal_passes_ = true;
      return server_.fail_next_pass(resource_exhausted("no memory"));
    case Fault::kDrain:
      return drain();
    case Fault::kRestart:
      return restart();
    case Fault::kCrash:
      return crash();
    case Fault::kStalledReader:
      return stall(link);
    case Fault::kPartition:
      return partition(link);
  }
}

// A drained server ends sooner or later, and another one takes its place.
void FaultInjector::drain() {
  counts_.drains += server_.scheduler().stats().sessions_open > 0 ? 1 : 0;
  server_.drain();
  simulation_.after(random_.between(Duration{0}, from_ms(2000)), [this] { restart(); });
}

void FaultInjector::restart() {
  const Duration down = random_.between(Duration{0}, from_ms(1000));
  counts_.restarts += server_.restart(down) > 0 ? 1 : 0;
}

// The edges notice by their links.
void FaultInjector::crash() {
  for (const auto& link : links_)
    link->cut(random_.between(Duration{0}, from_ms(500)), Duration{0});
  const Duration down = random_.between(Duration{0}, from_ms(1000));
  counts_.crashes += server_.restart(down) > 0 ? 1 : 0;
}

void FaultInjector::stall(SimLink& link) {
  const Duration how_long = random_.between(from_ms(1), from_ms(3000));
  link.stall_reader(how_long);
  simulation_.after(how_long, [this, &link, before = link.counts().unread] {
    counts_.stalls += link.counts().unread > before ? 1 : 0;
  });
}

// A partition that lasts breaks the stream before it heals.
void FaultInjector::partition(SimLink& link) {
  const Duration how_long = random_.between(from_ms(1), from_ms(3000));
  if (random_.chance(0.5)) {
    link.partition_up(how_long);
  } else {
    link.partition_down(how_long);
  }
  const bool breaks = random_.chance(0.3);
  simulation_.after(how_long, [this, &link, breaks, before = link.counts().held] {
    counts_.partitions += link.counts().held > before ? 1 : 0;
    if (breaks) link.cut(random_.between(Duration{0}, from_ms(500)), Duration{0});
  });
}

}  // namespace outrider
