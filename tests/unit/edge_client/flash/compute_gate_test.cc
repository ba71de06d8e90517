// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/compute_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/sim/toy_model.h"

namespace outrider {
namespace {

class ComputeGateTest : public testing::Test {
 protected:
  // One pass of a model behind the gate.
  Status pass(const std::atomic<bool>* abandoned = nullptr, Duration* waited = nullptr) {
    const std::unique_ptr<KvCache> cache = *model_->new_cache(4);
    const Row rows[] = {{cache.get(), *cache->slots().append(kRootSlot), 1}};
    PassOutput out;
    if (abandoned != nullptr) out.abandoned = {&abandoned, 1};
    const Status passed = model_->forward(rows, out);
    if (waited != nullptr) *waited = out.waited;
    return passed;
  }

  ComputeGate gate_;
  std::unique_ptr<Model> model_ = make_yielding_model(std::make_unique<ToyModel>(), gate_);
};

TEST_F(ComputeGateTest, APassRunsWhileNobodyComputes) {
  EXPECT_TRUE(pass().ok());
  gate_.pass_computes(true);
  gate_.pass_computes(false);
  EXPECT_TRUE(pass().ok());
}

TEST_F(ComputeGateTest, APassWaitsWhileTheTargetComputes) {
  gate_.pass_computes(true);
  std::atomic<bool> done = false;
  Duration waited{0};
  std::promise<void> begins;
  std::thread draft([&] {
    begins.set_value();
    EXPECT_TRUE(pass(nullptr, &waited).ok());
    done = true;
  });
  begins.get_future().wait();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(done);
  gate_.pass_computes(false);
  draft.join();
  EXPECT_TRUE(done);
  EXPECT_GT(waited, Duration{0}) << "what waits does not count as computing";
}

TEST_F(ComputeGateTest, AnAbandonedPassDoesNotWait) {
  gate_.pass_computes(true);
  std::atomic<bool> abandoned = false;
  std::thread draft([&] { static_cast<void>(pass(&abandoned)); });
  abandoned = true;
  draft.join();
}

}  // namespace
}  // namespace outrider
