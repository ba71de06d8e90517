// Whole answers of families whose blocks are not a llama's: small random models in memory on the
// server, the same model streamed from flash on the device, a draft of fewer bits. Whatever
// strategy drafts, and wherever the link is cut, the text is what the target alone says; also where
// the server computes with the GPU's kernels. SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "common/base/enum_names.h"
#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "common/engine/model/cuda/device/cuda_model.h"
#include "common/engine/model/cuda/fibers/host_device.h"
#include "common/engine/sampling/sampling.h"
#include "edge_client/flash/flash_model.h"
#include "sim/sim_edge.h"
#include "sim/sim_link.h"
#include "sim/sim_server.h"
#include "tests/sim/sim_probe.h"
#include "tests/sim/toy_form.h"
#include "tests/sim/toy_model.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

constexpr Position kPrompt = 11, kAnswer = 100;
// The length of answers of a server whose passes are slow here.
#ifdef OUTRIDER_SANITIZED
constexpr Position kShortAnswer = 4;
#else
constexpr Position kShortAnswer = 12;
#endif
constexpr std::uint64_t kSeed = 5;

SamplingParams sampling_at(float temperature) {
  SamplingParams sampling;
  sampling.temperature = temperature;
  return sampling;
}

// Records the text that an answer shows.
class Shown final : public AnswerText, public SimEdgeObserver {
 public:
  Update push(TokenId) override { return {}; }
  std::string finish() override { return {}; }
  void on_action(SessionAction& action) override {
    const auto* emit = std::get_if<Emit>(&action);
    if (emit == nullptr) return;
    for (const Emit::Token& token : emit->tokens) {
      if (token.id < 0) continue;
      ids.push_back(token.id);
      drafted += token.drafted ? 1 : 0;
    }
  }

  std::vector<TokenId> ids;
  std::size_t drafted = 0;  // of them, by the draft
};

// How an answer is chosen. A form has no end, and token 0 would end an answer.
struct Way {
  float temperature = 0;
  bool has_settings = false;
  bool has_form = false;

  ChoiceSettings settings(std::int32_t vocab_size) const {
    if (has_form) {
      SeededRandom random(kSeed);
      return {.constraint = ToyForm::drawn(random, vocab_size, false)};
    }
    if (!has_settings) return {};
    return {.presence_penalty = 0.5f,
            .frequency_penalty = 0.5f,
            .repetition_penalty = 1.2f,
            .logit_bias = {{3, 2.0f}},
            .bad_words = {{5}, {1, 2}}};
  }

  std::vector<TokenId> stops() const {
    return has_form ? std::vector<TokenId>{0} : std::vector<TokenId>();
  }
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.temperature << (way.has_settings ? " with settings" : "")
             << (way.has_form ? " in a form" : "");
}

class FamiliesSim : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    files_ = small_model(directory_.path(), GetParam(), DType::kF32, 5);
    ASSERT_NE(files_, nullptr);
    target_ = *make_cpu_model(files_, {.dtype = "int8", .threads = 1});
    draft_ = *make_cpu_model(files_, {.dtype = "int4", .threads = 1});
    ThreadPool pool(1);
    const auto weights =
        CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
            .load(files_, ComputeType::kInt8);
    ASSERT_TRUE(weights.ok());
    ASSERT_TRUE(write_model_pack(directory_.path("pack"), *weights, {}).ok());
    auto flash = FlashModel::open(directory_.path("pack"),
                                  {.memory_budget = least_budget(), .threads = 1}, clock_);
    ASSERT_TRUE(flash.ok()) << flash.status().to_string();
    flash_ = *std::move(flash);
    ASSERT_GT(flash_->plan().streamed_bytes, 0u);
  }

  std::uint64_t least_budget() const {
    const ModelPack pack = *ModelPack::open(directory_.path("pack"));
    std::uint64_t refused = 0, enough = std::uint64_t{1} << 30;
    while (enough - refused > kDirectAlignment) {
      const std::uint64_t budget = refused + (enough - refused) / 2;
      const bool fits = FlashModel::plan_for(pack, {.memory_budget = budget}).ok();
      (fits ? enough : refused) = budget;
    }
    return enough;
  }

  // The target alone, a token a pass.
  std::vector<TokenId> plain(const Way& way) {
    std::vector<TokenId> text = some_tokens(kPrompt);
    const auto cache = *target_->new_cache(kPrompt + kAnswer);
    const ChoiceSettings settings = way.settings(target_->info().vocab_size);
    PassOutput out;
    Slot last = kRootSlot;
    for (Position at = 0; at + 1 < kPrompt + kAnswer; ++at) {
      last = *cache->slots().append(last);
      const Row row{cache.get(), last, text[static_cast<std::size_t>(at)], true};
      EXPECT_TRUE(target_->forward({&row, 1}, out).ok());
      if (at + 1 < kPrompt) continue;
      const std::vector<float> logits =
          adjusted_plainly(out.logits, text, kPrompt, way.stops(), settings);
      text.push_back(choose(logits, sampling_at(way.temperature), kSeed, at + 1));
    }
    return {text.begin() + kPrompt, text.end()};
  }

  struct Cut {
    std::size_t at = 0;  // tokens shown
    bool is_silent = false;
  };

  // cut: the link goes there, and comes back after some seconds; nothing: it stays.
  Shown answer(Strategy strategy, const Way& way, const std::optional<Cut>& cut) {
    Simulation simulation(kSeed);
    SimServer server(simulation, gpu_ == nullptr ? *target_ : *gpu_, options(4),
                     [](const PassRowCounts&) { return from_ms(15); });
    SimServer device(simulation, flash_->model(), options(256),
                     [](const PassRowCounts&) { return from_ms(60); });
    const SimLink::Delays delays{from_ms(2), from_ms(25)};
    SimLink link(simulation, server, {.up = delays, .down = delays});
    SimLink in_process(simulation, device, {});
    SimProbe probe(simulation, link);
    Shown shown;
    SimEdge edge(simulation, VerifierRoutes(link, in_process, probe), *draft_, shown,
                 setup(strategy, way), shown);
    edge.begin();
    bool is_cut = !cut;
    const TimePoint deadline = simulation.now() + std::chrono::hours(1);
    while (!edge.done() && simulation.step(deadline)) {
      if (is_cut || shown.ids.size() < cut->at) continue;
      is_cut = true;
      link.partition_up(from_ms(700));
      link.partition_down(from_ms(700));
      link.cut(cut->is_silent ? Duration::max() : from_ms(10), from_ms(200));
    }
    EXPECT_TRUE(edge.done() && edge.finish().status.ok());
    failovers_ += edge.failover()->figures().failovers;
    failbacks_ += edge.failover()->figures().failbacks;
    return shown;
  }

  static SchedulerOptions options(std::uint32_t prefill_chunk) {
    SchedulerOptions options;
    options.tokenizer_hash = "none";
    options.prefill_chunk = prefill_chunk;
    return options;
  }

  SimEdgeSetup setup(Strategy strategy, const Way& way) const {
    const ModelInfo& info = target_->info();
    SimEdgeSetup setup{.prompt = some_tokens(kPrompt),
                       .decoding = {},
                       .drafter = {.max_positions = info.max_positions,
                                   .vocab_size = info.vocab_size,
                                   .prefill_chunk = 64,
                                   .workers = 1,
                                   .max_nodes = 256},
                       .step_takes = [](std::size_t) { return from_ms(4); }};
    DecodingOptions& decoding = setup.decoding;
    decoding.speculation.first.strategy = strategy;
    decoding.speculation.first.gamma = 4;
    decoding.speculation.token_bound = info.vocab_size;
    decoding.speculation.end_position = kPrompt + (gpu_ == nullptr ? kAnswer : kShortAnswer);
    decoding.tokenizer_hash = "none";
    decoding.choice.sampling = sampling_at(way.temperature);
    decoding.choice.settings = way.settings(info.vocab_size);
    decoding.stop_ids = way.stops();
    decoding.choice.seed = kSeed;
    FailoverSetup failover{.options = {},
                           .fingerprint = info.fingerprint,
                           .arithmetic_id = info.arithmetic_id,
                           .replaced = {}};
    failover.options.link.first_patience = from_ms(500);
    failover.options.failback_after = from_ms(100);
    failover.options.strict_target = true;
    setup.failover = failover;
    return setup;
  }

  TestDirectory directory_;
  SystemClock clock_;
  std::shared_ptr<const ModelFiles> files_;
  std::unique_ptr<Model> target_, draft_;
  std::unique_ptr<Model> gpu_;  // the server's instead of target_, by fibers; null: none
  std::unique_ptr<FlashModel> flash_;
  std::uint64_t failovers_ = 0, failbacks_ = 0;
};

TEST_P(FamiliesSim, NoStrategyChangesTheText) {
  std::size_t drafted = 0;
  for (const Way& way :
       {Way{0.0f}, Way{0.7f}, Way{1.0f}, Way{0.7f, true}, Way{0.7f, false, true}}) {
    const std::vector<TokenId> expected = plain(way);
    for (const Strategy strategy :
         {Strategy::kAr, Strategy::kSd, Strategy::kFsd, Strategy::kMirror}) {
      const Shown shown = answer(strategy, way, {});
      EXPECT_EQ(shown.ids, expected) << name_of(strategy) << " at " << way;
      drafted += shown.drafted;
    }
  }
  EXPECT_GT(drafted, 3 * 4 * kAnswer / 4) << "the draft was hardly of use";
  EXPECT_EQ(failovers_, 0u);
}

TEST_P(FamiliesSim, ACutInTheMiddleOfAnAnswerCostsNoToken) {
  constexpr std::size_t kPlaces[] = {1, 8, 15, 27, 40, 58, 77, 91};
  for (const Way& way : {Way{0.0f}, Way{0.8f}, Way{0.8f, true}, Way{0.8f, false, true}}) {
    const std::vector<TokenId> expected = plain(way);
    for (const std::size_t at : kPlaces) {
      for (const bool is_silent : {false, true}) {
        const Shown shown = answer(Strategy::kMirror, way, Cut{at, is_silent});
        EXPECT_EQ(shown.ids, expected) << "cut at " << at << " at " << way;
      }
    }
  }
  EXPECT_GE(failovers_, 36u);
  EXPECT_GT(failbacks_, 12u);
  EXPECT_GT(flash_->stats().bytes_read, 0u);
}

// Tests a server with the GPU's kernels; this device goes on with the CPU's, from flash.
class GpuServerSim : public FamiliesSim {};

TEST_P(GpuServerSim, ACutAtAnyCommitCostsNoToken) {
  auto gpu = cuda::make_cuda_model(files_, cuda::make_host_device({.seed = kSeed}),
                                   {.dtype = "int8", .kv_bytes = 4 << 20, .progress = {}});
  ASSERT_TRUE(gpu.ok()) << gpu.status().to_string();
  gpu_ = *std::move(gpu);
  ASSERT_EQ(gpu_->info().arithmetic_id, target_->info().arithmetic_id);
  constexpr auto kCommits = static_cast<std::size_t>(kShortAnswer);
  for (const Way& way :
       {Way{0.0f}, Way{0.7f}, Way{0.0f, true}, Way{0.7f, true}, Way{0.7f, false, true}}) {
    std::vector<TokenId> expected = plain(way);
    expected.resize(kCommits);
    for (std::size_t at = 0; at < kCommits; ++at) {
      const Shown shown = answer(Strategy::kAr, way, Cut{at, at % 2 == 1});
      EXPECT_EQ(shown.ids, expected) << "cut at " << at << " at " << way;
    }
  }
  EXPECT_GE(failovers_, 4 * kCommits - 8);
}

INSTANTIATE_TEST_SUITE_P(Families, GpuServerSim, testing::Values("mistral"));
INSTANTIATE_TEST_SUITE_P(Families, FamiliesSim,
                         testing::Values("gpt2", "gemma3_text", "mixtral", "qwen3_moe"));

}  // namespace
}  // namespace outrider
