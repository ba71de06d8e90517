// Levels of a streamed target: their bits are those in memory, and each reads what it lacks.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "edge_client/flash/flash_model.h"
#include "tests/unit/common/engine/model/cpu/elastic_samples.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class ElasticFlashTest : public ElasticSampleTest {
 protected:
  static constexpr std::int32_t kLayers = 12;

  ElasticFlashTest() {
    files_ = with_table(written(elastic_config("llama", kLayers), DType::kF32), Order::kUnits);
    ThreadPool pool(1);
    const auto weights =
        CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
            .load(files_, *parse_compute_type("int8"));
    const Status packed = write_model_pack(path_, *weights, {});
    EXPECT_TRUE(packed.ok()) << packed.to_string();
    full_ = *make_cpu_model(files_, {.dtype = "int8", .threads = 2});
    for (const ElasticLevel& level : files_->elastic->levels) {
      expected_.push_back(logits_in_chunks(**make_level(*full_, level), 40));
    }
  }

  std::unique_ptr<FlashModel> open(FlashOptions options) {
    options.threads = 2;
    auto flash = FlashModel::open(path_, options, clock_);
    EXPECT_TRUE(flash.ok()) << flash.status().to_string();
    return flash.ok() ? *std::move(flash) : nullptr;
  }

  // The smallest budget that holds so many levels of every layer, to a page.
  std::uint64_t budget_for(std::size_t levels, const FlashOptions& options = {}) {
    const auto pack = ModelPack::open(path_);
    FlashOptions tried = options;
    std::uint64_t less = 0, enough = std::uint64_t{1} << 30;
    while (enough - less > kDirectAlignment) {
      tried.memory_budget = less + (enough - less) / 2;
      const auto plan = FlashModel::plan_for(*pack, tried);
      const bool holds = plan.ok() && plan->resident_extents >= levels;
      (holds ? enough : less) = tried.memory_budget;
    }
    return enough;
  }

  std::uint64_t bytes_of_pass(FlashModel& flash, Model& model) {
    (void)logits_in_chunks(model, 1, 6);  // has the stream read what the level lacks
    const std::uint64_t before = flash.stats().bytes_read;
    (void)logits_in_chunks(model, 1, 60);
    return (flash.stats().bytes_read - before) / 60;
  }

  const std::string path_ = directory_.path("levels.pack");
  SystemClock clock_;
  std::shared_ptr<const ModelFiles> files_;
  std::unique_ptr<Model> full_;
  std::vector<std::vector<float>> expected_;  // by level
};

TEST_F(ElasticFlashTest, EveryLevelHasItsBitsInEveryBudget) {
  for (const std::size_t levels : {0, 1, 2, 3}) {
    const auto flash = open({.memory_budget = budget_for(levels)});
    ASSERT_NE(flash, nullptr);
    EXPECT_EQ(flash->plan().resident_extents, levels);
    EXPECT_EQ(flash->model().info().arithmetic_id, full_->info().arithmetic_id);
    EXPECT_EQ(other_bits(logits_in_chunks(flash->model(), 7), expected_[0]), 0u);
    ASSERT_EQ(flash->levels().size(), 3u);
    for (std::size_t i = 0; i < 3; ++i) {
      const auto level = flash->make_level(flash->levels()[i]);
      ASSERT_TRUE(level.ok()) << level.status().to_string();
      EXPECT_EQ((*level)->info().arithmetic_id,
                (*make_level(*full_, flash->levels()[i].name))->info().arithmetic_id);
      for (const std::size_t rows : {1, 2, 7, 33}) {
        EXPECT_EQ(other_bits(logits_in_chunks(**level, rows), expected_[i]), 0u)
            << levels << " resident, level " << i << ", " << rows << " rows";
      }
    }
  }
}

TEST_F(ElasticFlashTest, LevelsTakeTurnsOverOneStream) {
  const auto flash = open({.memory_budget = budget_for(1)});
  std::vector<std::unique_ptr<Model>> levels;
  for (const ElasticLevel& level : flash->levels()) levels.push_back(*flash->make_level(level));
  std::mt19937 random(3);
  for (int i = 0; i < 200; ++i) {
    const std::size_t level = random() % levels.size();
    const std::size_t rows = 1 + random() % 40;
    ASSERT_EQ(other_bits(logits_in_chunks(*levels[level], rows), expected_[level]), 0u)
        << "turn " << i << ", level " << level;
  }
}

TEST_F(ElasticFlashTest, ALevelReadsWhatIsNotInMemoryOfItAndNoMore) {
  const auto flash =
      open({.memory_budget = budget_for(1, {.resident_level = "30"}), .resident_level = "30"});
  const auto whole = *flash->make_level(flash->levels()[0]);
  const auto middle = *flash->make_level(flash->levels()[1]);
  const auto small = *flash->make_level(flash->levels()[2]);
  std::uint64_t rest[3] = {};
  for (std::int64_t layer = flash->plan().pinned_layers; layer < kLayers; ++layer) {
    for (const std::size_t extents : {2, 3}) {
      rest[extents - 1] += layer_section(flash->pack(), layer, 1, extents).bytes;
    }
  }
  ASSERT_GT(rest[1], 0u);
  ASSERT_GT(rest[2], rest[1]);
  const auto near = [](std::uint64_t bytes, std::uint64_t wanted) {
    return bytes >= wanted * 9 / 10 && bytes <= wanted * 11 / 10;
  };
  EXPECT_TRUE(near(bytes_of_pass(*flash, *whole), rest[2]));
  EXPECT_TRUE(near(bytes_of_pass(*flash, *middle), rest[1]));
  EXPECT_EQ(bytes_of_pass(*flash, *small), 0u);
  EXPECT_TRUE(near(bytes_of_pass(*flash, *whole), rest[2]));
}

TEST_F(ElasticFlashTest, APackWithoutLevelsHasNoneToName) {
  const auto files = load_model_files(written(elastic_config("llama", 2), DType::kF32), {});
  ThreadPool pool(1);
  const auto weights =
      CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
          .load(*files, *parse_compute_type("int8"));
  const std::string plain = directory_.path("plain.pack");
  ASSERT_TRUE(write_model_pack(plain, *weights, {}).ok());
  for (const FlashOptions& options :
       {FlashOptions{.level = "70"}, FlashOptions{.resident_level = "70"}}) {
    EXPECT_THAT(FlashModel::open(plain, options, clock_).status().message(),
                AllOf(HasSubstr("level \"70\""), HasSubstr("plain.pack has no levels"),
                      HasSubstr("Remedy: outrider-edge pack --elastic")));
  }
}

TEST_F(ElasticFlashTest, ANamedLevelIsAllThatIsRead) {
  const auto flash = open({.level = "70"});
  ASSERT_EQ(flash->levels().size(), 2u);
  EXPECT_EQ(flash->levels()[0].name, "70");
  EXPECT_THAT(flash->model().info().name, HasSubstr("@70"));
  EXPECT_EQ(other_bits(logits_in_chunks(flash->model(), 7), expected_[1]), 0u);
  const auto small = *flash->make_level(flash->levels()[1]);
  EXPECT_EQ(other_bits(logits_in_chunks(*small, 7), expected_[2]), 0u);
  EXPECT_LT(flash->plan().pinned_bytes, open({})->plan().pinned_bytes);
  EXPECT_THAT(FlashModel::open(path_, {.level = "71"}, clock_).status().message(),
              HasSubstr("100, 70, 30"));
}

// A draft over the resident part, while the full model streams the rest.
TEST_F(ElasticFlashTest, AResidentLevelComputesBesideTheStream) {
  const FlashOptions drafting{.resident_level = "70"};
  FlashOptions options = drafting;
  options.memory_budget = budget_for(2, drafting);
  const auto flash = open(options);
  ASSERT_GT(flash->plan().streamed_bytes, 0u);
  for (const std::size_t level : {1, 2}) {
    const auto beside = flash->make_level_beside(flash->levels()[level], 2);
    ASSERT_TRUE(beside.ok()) << beside.status().to_string();
    std::size_t others = 0;
    std::thread drafting([&] {
      for (int i = 0; i < 5; ++i) {
        others += other_bits(logits_in_chunks(**beside, 7), expected_[level]);
      }
    });
    for (int i = 0; i < 5; ++i) {
      EXPECT_EQ(other_bits(logits_in_chunks(flash->model(), 5), expected_[0]), 0u);
    }
    drafting.join();
    EXPECT_EQ(others, 0u);
  }
  options.memory_budget = budget_for(1, {.resident_level = "30"});
  EXPECT_THAT(FlashModel::open(path_, options, clock_).status().message(), HasSubstr("are needed"));
  options.resident_level = "100";
  EXPECT_THAT(FlashModel::open(path_, options, clock_).status().message(),
              HasSubstr("cannot draft"));
}

TEST_F(ElasticFlashTest, DamageNamesLayerAndLevel) {
  const std::uint64_t budget = budget_for(1);
  const auto pack = *ModelPack::open(path_);
  const auto flip = [&](std::uint64_t at) {
    std::string bytes = directory_.read("levels.pack");
    bytes.at(at) = static_cast<char>(bytes[at] ^ 8);
    directory_.write("levels.pack", bytes);
  };
  const auto failure = [&](std::size_t level) {
    const auto flash = open({.memory_budget = budget});
    const auto model = *flash->make_level(flash->levels()[level]);
    const auto cache = *model->new_cache(8);
    const Row row{cache.get(), *cache->slots().append(kRootSlot), 1, true};
    PassOutput out;
    return model->forward({&row, 1}, out).message();
  };
  const std::uint64_t in_70 = pack.layer_extent(kLayers - 1, 1).offset + 9;
  flip(in_70);
  EXPECT_EQ(failure(2), "");  // level 30 does not read it
  for (const std::size_t level : {0, 1}) {
    EXPECT_THAT(failure(level), HasSubstr("layer 11: level 70: its checksum is wrong"));
  }
  flip(in_70);
  flip(pack.layer_extent(1, 0).offset + 9);
  EXPECT_THAT(FlashModel::open(path_, {.threads = 1}, clock_).status().message(),
              HasSubstr("layer 1: level 30: its checksum is wrong"));
}

}  // namespace
}  // namespace outrider
