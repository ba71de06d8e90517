// The host's device runs work in any order that its events allow: what lacks a wait is found.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cuda/fibers/host_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include "common/engine/model/cuda/fibers/fibers.h"

namespace outrider::cuda {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kSeeds = 40;

// A number goes up on one stream, and from there down on another.
class TwoStreams {
 public:
  explicit TwoStreams(std::uint64_t seed)
      : api_(make_host_device({.seed = seed, .poisons = true})),
        memory_(*DeviceMemory::make(*api_, MemoryKind::kDevice, 64)),
        first_(api_->new_stream()),
        second_(api_->new_stream()),
        uploaded_(api_->new_event()),
        done_(api_->new_event()) {}

  void put(bool waits) {
    for (int i = 0; i < 3; ++i) api_->fill_zero(memory_.data(), 8, first_);
    api_->upload(memory_.data(), &sent_, sizeof(sent_), first_);
    api_->record(uploaded_, first_);
    if (waits) api_->wait(second_, uploaded_);
    api_->download(&received_, memory_.data(), sizeof(received_), second_);
  }
  std::int64_t run(bool waits) {
    put(waits);
    api_->signal(done_, second_);
    EXPECT_TRUE(api_->synchronize(done_).ok());
    return received_;
  }
  std::int64_t run_graph(bool waits) {
    api_->begin_graph(first_);
    api_->record(done_, first_);
    api_->wait(second_, done_);  // joins the graph
    put(waits);
    api_->record(done_, second_);
    api_->wait(first_, done_);
    const Graph graph = *api_->end_graph(first_);
    for (sent_ = 100; sent_ < 104; ++sent_) {
      api_->launch(graph, first_);
      api_->signal(done_, first_);
      EXPECT_TRUE(api_->synchronize(done_).ok());
      if (received_ != sent_) break;
    }
    return received_ - sent_;
  }
  DeviceApi& api() { return *api_; }
  Stream first() const { return first_; }
  Stream second() const { return second_; }

 private:
  std::int64_t sent_ = 77, received_ = 0;
  std::unique_ptr<DeviceApi> api_;
  DeviceMemory memory_;
  Stream first_, second_;
  Event uploaded_, done_;
};

TEST(HostDeviceTest, WorkBehindAnEventSeesWhatIsBeforeIt) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_EQ(TwoStreams(seed).run(true), 77) << seed;
    EXPECT_EQ(TwoStreams(seed).run_graph(true), -1) << seed;
  }
}

TEST(HostDeviceTest, MemoryIsPinnedOnceAndInWholePages) {
  const auto api = make_host_device();
  alignas(4096) static std::byte pages[3 * 4096];
  {
    const auto pinned = PinnedMemory::make(*api, pages);
    ASSERT_TRUE(pinned.ok());
    EXPECT_THROW((void)api->pin(pages + 4096, 4096), std::logic_error);
    EXPECT_TRUE(PinnedMemory::make(*api, {}).ok());
  }
  EXPECT_THROW(api->unpin(pages), std::logic_error);
  EXPECT_THROW((void)api->pin(pages + 64, 4096), std::logic_error);
  EXPECT_TRUE(PinnedMemory::make(*api, pages).ok());
}

TEST(HostDeviceTest, AMissingWaitIsFound) {
  int found = 0, found_in_graph = 0;
  for (std::uint64_t seed = 1; seed < kSeeds; ++seed) {
    found += TwoStreams(seed).run(false) != 77 ? 1 : 0;
    found_in_graph += TwoStreams(seed).run_graph(false) != -1 ? 1 : 0;
  }
  EXPECT_GT(found, static_cast<int>(kSeeds) / 4);
  EXPECT_GT(found_in_graph, static_cast<int>(kSeeds) / 4);
}

TEST(HostDeviceTest, AnUploadReadsTheHostsMemoryWhenItRuns) {
  int late = 0;
  for (std::uint64_t seed = 1; seed < kSeeds; ++seed) {
    auto api = make_host_device({.seed = seed});
    const auto memory = *DeviceMemory::make(*api, MemoryKind::kDevice, 64);
    const Stream stream = api->new_stream();
    const Event done = api->new_event();
    std::int64_t value = 1, seen = 0;
    api->upload(memory.data(), &value, sizeof(value), stream);
    value = 2;  // too early
    api->download(&seen, memory.data(), sizeof(seen), stream);
    api->signal(done, stream);
    ASSERT_TRUE(api->synchronize(done).ok());
    late += seen == 2 ? 1 : 0;
  }
  EXPECT_GT(late, 10);
}

TEST(HostDeviceTest, AGraphThatAStreamDoesNotComeBackToIsAnError) {
  TwoStreams streams(1);
  DeviceApi& api = streams.api();
  const auto memory = *DeviceMemory::make(api, MemoryKind::kDevice, 64);
  const Event fork = api.new_event();
  api.begin_graph(streams.first());
  api.fill_zero(memory.data(), 8, streams.first());
  api.record(fork, streams.first());
  api.wait(streams.second(), fork);
  api.fill_zero(memory.data(), 8, streams.second());
  EXPECT_THROW(static_cast<void>(api.end_graph(streams.first())), std::logic_error);
}

TEST(HostDeviceTest, CountsWhatIsAskedOfIt) {
  TwoStreams streams(0);
  EXPECT_EQ(streams.run(true), 77);
  const DeviceCounts& counts = streams.api().counts();
  EXPECT_EQ(counts.uploads, 1);
  EXPECT_EQ(counts.downloads, 1);
  EXPECT_EQ(counts.allocations, 1);
  EXPECT_EQ(counts.waits, 1);
  EXPECT_EQ(counts.graph_launches, 0);
}

TEST(HostDeviceTest, AFullDeviceSaysWhatIsNeededAndFree) {
  auto api = make_host_device({.limit = 1000});
  const auto first = DeviceMemory::make(*api, MemoryKind::kDevice, 600);
  ASSERT_TRUE(first.ok());
  const Status status = DeviceMemory::make(*api, MemoryKind::kDevice, 500).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(status.message(), HasSubstr("500 bytes are needed and 400 are free"));
  EXPECT_TRUE(DeviceMemory::make(*api, MemoryKind::kHost, 5000).ok());
}

// Two devices, each with a number in its memory.
struct TwoDevices {
  std::unique_ptr<DeviceApi> api = make_host_device({.devices = 2});
  DeviceMemory memory[2] = {*DeviceMemory::make(*api, MemoryKind::kDevice, 64, 0),
                            *DeviceMemory::make(*api, MemoryKind::kDevice, 64, 1)};
  Stream stream[2] = {api->new_stream(0), api->new_stream(1)};
  Event done = api->new_event(0);

  // A kernel of a device adds one to the number of one.
  void add_one(int device, int whose) {
    api->use(device);
    put_kernel(device, whose);
  }
  void put_kernel(int device, int whose) {
    auto* const number = memory[whose].as<std::int32_t>();
    fibers::start_grid(static_cast<fibers::WorkQueue*>(stream[device]), {}, 32, 0, [number] {
      if (fibers::thread_index() == 0) ++*number;
    });
  }
  std::int32_t number(int device) {
    std::int32_t value = 0;
    api->download(&value, memory[device].data(), sizeof(value), stream[0]);
    api->signal(done, stream[0]);
    EXPECT_TRUE(api->synchronize(done).ok());
    return value;
  }
};

TEST(HostDeviceTest, AKernelSeesTheMemoryOfItsDeviceAndACopySeesAll) {
  TwoDevices two;
  two.add_one(0, 0);
  two.add_one(1, 1);
  two.add_one(1, 1);
  const Event added = two.api->new_event(1);
  two.api->record(added, two.stream[1]);
  two.api->wait(two.stream[0], added);
  EXPECT_EQ(two.number(0), 1);
  EXPECT_EQ(two.number(1), 2);
  two.api->copy(two.memory[0].data(), 64, two.memory[1].data(), 64, 4, 1, two.stream[0]);
  EXPECT_EQ(two.number(0), 2);
  EXPECT_THROW(two.api->record(added, two.stream[0]), std::logic_error);
  two.api->use(0);
  EXPECT_THROW(two.put_kernel(1, 1), std::logic_error);
}

TEST(HostDeviceDeathTest, AKernelThatTouchesAnotherDevicesMemoryDies) {
  EXPECT_DEATH(
      {
        TwoDevices two;
        two.add_one(0, 1);
        two.number(0);
      },
      "");
}

}  // namespace
}  // namespace outrider::cuda
