// SPDX-License-Identifier: Apache-2.0
#include "edge_client/generation/local_draft.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "common/engine/model/emulated/paced_model.h"
#include "edge_client/flash/compute_gate.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using namespace std::chrono_literals;

// A draft that waited for the target's compute counts its emulated pace, neither more nor less.
TEST(LocalDraftTest, AStepThatWaitedTakesItsPaceStill) {
  SystemClock clock;
  ComputeGate gate;
  GenerationConfig config;
  config.model = source_dir() + "/models/demo-draft";
  config.draft_pacer = std::make_shared<CurvePacer>(*PaceCurve::parse("100"));
  auto model = load_draft_model(config);
  ASSERT_TRUE(model.ok()) << model.status().message();
  const auto draft = LocalDraft::of(*std::move(model), config, clock, &gate);
  ASSERT_TRUE(draft.ok()) << draft.status().message();

  gate.pass_computes(true);
  std::promise<Result<DraftStepDone>> done;
  DraftWorker::Job job;
  job.step.grow = {{.token = 1}};
  job.done = [&done](Result<DraftStepDone> step) { done.set_value(std::move(step)); };
  const TimePoint begin = clock.now();
  (*draft)->worker().submit(std::move(job));
  std::this_thread::sleep_for(400ms);
  gate.pass_computes(false);
  const Result<DraftStepDone> step = done.get_future().get();
  ASSERT_TRUE(step.ok()) << step.status().message();
  const Duration whole = clock.now() - begin;
  EXPECT_GE(step->compute, 99ms);
  EXPECT_LE(step->compute, whole - 200ms) << "the wait counts too";
}

}  // namespace
}  // namespace outrider
