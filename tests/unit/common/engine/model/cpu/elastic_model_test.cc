// Levels of elastic models: each has the bits of the full model with the other units' weights set
// to zero, for every type of weights, in every company. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <memory>
#include <numeric>
#include <random>
#include <thread>

#include "common/base/thread_pool.h"
#include "common/base/vector_targets.h"
#include "common/engine/model/cpu/cpu_kv_pages.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/format/model_writer.h"
#include "tests/unit/common/engine/model/cpu/elastic_samples.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// A matrix with zeros from an output, and from a column, on: quantised groups keep the scales of
// the others and lose their own.
class ZeroedMatrix final {
 public:
  ZeroedMatrix(const WeightMatrix& matrix, std::int64_t outputs, std::int64_t inputs)
      : matrix_(matrix), memory_(static_cast<std::size_t>(bytes_of(matrix)) + 64) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.data());
    data_ = memory_.data() + (64 - address % 64) % 64;
    std::memcpy(data_, matrix.data, static_cast<std::size_t>(bytes_of(matrix)));
    for (std::int64_t n = 0; n < matrix.outputs; ++n) {
      const std::int64_t first = n < outputs ? inputs : 0;
      if (matrix.type == WeightType::kQuantized) {
        zero_groups(n, first);
      } else {
        const std::int64_t size = matrix.type == WeightType::kF32 ? 4 : 2;
        std::memset(data_ + (n * matrix.inputs + first) * size, 0,
                    static_cast<std::size_t>((matrix.inputs - first) * size));
      }
    }
  }

  WeightMatrix matrix() const {
    WeightMatrix zeroed = matrix_;
    zeroed.data = data_;
    return zeroed;
  }

 private:
  void zero_groups(std::int64_t n, std::int64_t first) {
    const QuantFormat& format = matrix_.format;
    const PanelLayout layout(format, matrix_.inputs);
    std::byte* panel = data_ + n / kPanelOutputs * layout.panel_bytes;
    const std::int64_t scales = layout.groups * format.scales_per_group();
    for (std::int64_t i = first / format.scale_group; i < scales; ++i) {
      const std::int64_t at = n % kPanelOutputs * format.scale_bytes();
      const auto size = static_cast<std::size_t>(format.scale_bytes());
      std::memset(panel + layout.scales(i) + at, 0, size);
      if (format.has_minimum) std::memset(panel + layout.minimums(i) + at, 0, size);
    }
  }

  WeightMatrix matrix_;
  std::vector<std::byte> memory_;
  std::byte* data_;
};

// The full model with the units beyond a level's set to zero.
class ZeroedModel final {
 public:
  ZeroedModel(const std::shared_ptr<const ModelFiles>& files, const std::string& dtype,
              const std::string& level)
      : weights_(*CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool_, {"", {}}, {})
                      .load(files, *parse_compute_type(dtype))) {
    const ElasticLevel& widths = **find_level(*files->elastic, level);
    for (std::size_t i = 0; i < weights_.layers.size(); ++i) {
      zero(weights_.layers[i], widths.layers[i], files->config);
    }
    CpuWeights rest;  // the model reads its layers from the store
    rest.files = files;
    rest.embedding = weights_.embedding;
    rest.final_norm = weights_.final_norm;
    rest.dtype = weights_.dtype;
    rest.arithmetic = weights_.arithmetic;
    rest.quantized = weights_.quantized;
    model_ = *make_cpu_model(std::move(rest), std::make_unique<ResidentLayers>(weights_),
                             {.dtype = dtype, .threads = 2});
  }

  Model& model() { return *model_; }

 private:
  void zero(CpuLayer& layer, const LayerWidths& widths, const ModelConfig& config) {
    const std::int64_t columns = widths.kv_groups * group_columns(config);
    const std::int64_t heads = std::int64_t{widths.kv_groups} * config.head_dim;
    const auto replace = [&](LinearWeights& weights, std::int64_t outputs, std::int64_t inputs) {
      zeroed_.push_back(std::make_unique<ZeroedMatrix>(weights.matrix, outputs, inputs));
      weights.matrix = zeroed_.back()->matrix();
      const auto kept = std::min<std::int64_t>(outputs, std::ssize(weights.bias));
      std::fill(weights.bias.begin() + kept, weights.bias.end(), 0.0f);
    };
    replace(layer.q, columns, config.hidden_size);
    replace(layer.k, heads, config.hidden_size);
    replace(layer.v, heads, config.hidden_size);
    replace(layer.o, config.hidden_size, columns);
    replace(layer.gate, widths.neurons, config.hidden_size);
    replace(layer.up, widths.neurons, config.hidden_size);
    replace(layer.down, config.hidden_size, widths.neurons);
  }

  ThreadPool pool_{2};
  CpuWeights weights_;
  std::vector<std::unique_ptr<ZeroedMatrix>> zeroed_;
  std::unique_ptr<Model> model_;
};

void expect_bits_of_zeroed(const std::shared_ptr<const ModelFiles>& files,
                           const std::string& dtype) {
  const auto full = *make_cpu_model(files, {.dtype = dtype, .threads = 2});
  for (const std::string name : {"70", "30"}) {
    const auto level = make_level(*full, name);
    ASSERT_TRUE(level.ok()) << level.status().to_string();
    ZeroedModel zeroed(files, dtype, name);
    const std::vector<float> expected = logits_in_chunks(zeroed.model(), 40);
    for (const std::size_t rows : {1, 2, 7, 16, 33, 40}) {
      EXPECT_EQ(other_bits(logits_in_chunks(**level, rows), expected), 0u)
          << files->name << " as " << dtype << ", level " << name << ", " << rows << " rows";
    }
    // The full model is not disturbed, and is another.
    EXPECT_GT(other_bits(logits_in_chunks(*full, 40), expected), 0u);
  }
}

class ElasticModelTest : public ElasticSampleTest {};

TEST_F(ElasticModelTest, LevelHasTheBitsOfZeroedUnits) {
  each_stored_type(expect_bits_of_zeroed);
}

TEST_F(ElasticModelTest, LevelHasTheBitsOfZeroedUnitsWithBiasesAndHeadNorms) {
  each_family(expect_bits_of_zeroed);
}

TEST_F(ElasticModelTest, LevelHasTheSameBitsOnEveryKernel) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  for (const char* dtype : {"f32", "int8", "int4"}) {
    std::vector<float> expected;
    for (const VectorTarget target : available_vector_targets()) {
      const std::string kernel(to_string(target));
      const auto full = *make_cpu_model(files, {.dtype = dtype, .threads = 1, .kernel = kernel});
      const auto found = logits_in_chunks(**make_level(*full, "70"), 7);
      if (expected.empty()) expected = found;
      EXPECT_EQ(other_bits(found, expected), 0u) << dtype << " on " << kernel;
    }
  }
}

TEST_F(ElasticModelTest, LevelHasTheBitsOfZeroedUnitsInBlocks) {
  each_block_type(expect_bits_of_zeroed);
}

// Whole groups keep their blocks; single neurons are quantised anew, to 8 bits.
TEST_F(ElasticModelTest, OnlyDownOfSingleNeuronsIsQuantisedAnew) {
  const std::string path = directory_.path("q4.gguf");
  std::ofstream(path, std::ios::binary)
      << blocks_gguf(elastic_config(), {GgufTensorType::kQ4_1, 32, 20, {0, 2}});
  for (const Order order : {Order::kGroups, Order::kUnits}) {
    const auto files = with_table(path, order);
    const auto computed = [&](ModelPart part) {
      return computed_matrix(files->weights.at(weight_name(part, 1)), ComputeType::kAuto, false);
    };
    EXPECT_EQ(computed(ModelPart::kDown).format.bits, order == Order::kGroups ? 4 : 8);
    EXPECT_EQ(computed(ModelPart::kAttentionOutput).format.bits, 4);
    EXPECT_EQ(computed(ModelPart::kUp).format.bits, 4);
  }
}

TEST_F(ElasticModelTest, OrderChangesTheIdAndHardlyTheLogits) {
  const std::string path = written(elastic_config("qwen2"), DType::kF32);
  const auto plain = *make_cpu_model(*load_model_files(path, {}), {.threads = 2});
  const auto stored = *make_cpu_model(with_table(path, Order::kStored), {.threads = 2});
  EXPECT_EQ(stored->info().arithmetic_id, plain->info().arithmetic_id);
  const std::vector<float> expected = logits_in_chunks(*plain, 40);
  EXPECT_EQ(other_bits(logits_in_chunks(*stored, 40), expected), 0u);

  const auto moved = *make_cpu_model(with_table(path, Order::kUnits), {.threads = 2});
  EXPECT_NE(moved->info().arithmetic_id, plain->info().arithmetic_id);
  EXPECT_EQ(moved->info().fingerprint, plain->info().fingerprint);
  const std::vector<float> found = logits_in_chunks(*moved, 40);
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 2e-4);
  EXPECT_EQ(other_bits(logits_in_chunks(*moved, 3), found), 0u);
}

TEST_F(ElasticModelTest, LevelsAreModelsOfTheirOwn) {
  const auto files = with_table(written(elastic_config(), DType::kBF16), Order::kUnits);
  const auto full = *make_cpu_model(files, {.threads = 2});
  const auto whole = *make_level(*full, "100"), part = *make_level(*full, "70");
  EXPECT_EQ(whole->info().arithmetic_id, full->info().arithmetic_id);
  EXPECT_EQ(other_bits(logits_in_chunks(*whole, 5), logits_in_chunks(*full, 40)), 0u);
  EXPECT_NE(part->info().arithmetic_id, full->info().arithmetic_id);
  EXPECT_NE(part->info().fingerprint, full->info().fingerprint);
  EXPECT_THAT(part->info().name, HasSubstr("@70"));
  EXPECT_LT(part->info().num_parameters, full->info().num_parameters);
  EXPECT_EQ(full->info().weight_bytes - part->info().weight_bytes,
            2 * (full->info().num_parameters - part->info().num_parameters));

  const auto cache = *full->new_cache(8);
  const Slot slot = *cache->slots().append(kRootSlot);
  PassOutput out;
  const Row row{cache.get(), slot, 5, true};
  EXPECT_THAT(part->forward({&row, 1}, out).message(), HasSubstr("another model"));
}

// A draft of the same weights: two threads, two passes at once.
TEST_F(ElasticModelTest, LevelBesideTheFullModelHasTheSameBitsWhileThatComputes) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  for (const char* dtype : {"f32", "int8"}) {
    const auto full = *make_cpu_model(files, {.dtype = dtype, .threads = 2});
    const std::vector<float> whole = logits_in_chunks(*full, 40);
    const ElasticLevel& level = **find_level(*files->elastic, "70");
    const std::vector<float> alone = logits_in_chunks(**make_level(*full, level), 40);
    const auto beside = make_level_beside(*full, level, 2);
    ASSERT_TRUE(beside.ok()) << beside.status().to_string();
    EXPECT_EQ((*beside)->info().arithmetic_id, (*make_level(*full, level))->info().arithmetic_id);
    std::size_t others = 0;
    std::thread drafting([&] {
      for (int i = 0; i < 20; ++i) others += other_bits(logits_in_chunks(**beside, 7), alone);
    });
    for (int i = 0; i < 20; ++i) EXPECT_EQ(other_bits(logits_in_chunks(*full, 5), whole), 0u);
    drafting.join();
    EXPECT_EQ(others, 0u) << dtype;
  }
}

// Sequences of all levels in the passes of one model, in pages of one pool.
TEST_F(ElasticModelTest, LevelsShareAPassAndKeepTheirBits) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  for (const char* dtype : {"f32", "int8"}) {
    const auto full = *make_cpu_model(files, {.dtype = dtype, .threads = 2});
    const auto leveled = make_leveled_model(*full);
    ASSERT_TRUE(leveled.ok()) << leveled.status().to_string();
    EXPECT_EQ((*leveled)->info().arithmetic_id, full->info().arithmetic_id);
    const auto pages = *(*leveled)->new_pages(16);
    std::vector<std::unique_ptr<KvCache>> caches;
    std::vector<std::vector<float>> expected, found(3);
    for (std::size_t level = 0; level < 3; ++level) {
      caches.push_back(std::make_unique<KvCache>(pages, 64, 0, level));
      expected.push_back(logits_in_chunks(**make_level(*full, files->elastic->levels[level]), 40));
    }
    std::vector<Slot> last(3, kRootSlot);
    for (TokenId i = 0; i < 40; ++i) {
      std::vector<Row> rows;
      for (const std::size_t level : {2, 0, 1}) {
        last[level] = *caches[level]->slots().append(last[level]);
        rows.push_back({caches[level].get(), last[level], (i * 37 + i * i) % 101, true});
      }
      PassOutput out;
      ASSERT_TRUE((*leveled)->forward(rows, out).ok());
      std::size_t row = 0;
      for (const std::size_t level : {2, 0, 1}) {
        const auto logits = out.row(row++);
        found[level].insert(found[level].end(), logits.begin(), logits.end());
      }
    }
    for (std::size_t level = 0; level < 3; ++level) {
      EXPECT_EQ(other_bits(found[level], expected[level]), 0u) << dtype << ", level " << level;
    }
  }
}

TEST_F(ElasticModelTest, ACacheInTheMemoryOfAnotherLevelHasTheSameBits) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  const auto fresh = *make_cpu_model(files, {.threads = 2});
  const std::vector<float> expected = logits_in_chunks(**make_level(*fresh, "30"), 40);
  const auto full = *make_cpu_model(files, {.threads = 2});
  const auto level = *make_level(*full, "30");
  logits_in_chunks(*full, 40);
  EXPECT_EQ(other_bits(logits_in_chunks(*level, 7), expected), 0u);
}

TEST(SpareKvMemoryTest, GivesTheLastOfTheSameSizeUnlessItIsLarge) {
  SpareKvMemory spare;
  const auto make = [](std::int64_t bytes) { return *AnonymousMemory::make(bytes, "it", "none"); };
  AnonymousMemory memory = make(4096);
  const auto* const data = memory.as<std::byte>();
  spare.give(std::move(memory), 4096);
  EXPECT_TRUE(spare.take(8192).is_empty());
  EXPECT_EQ(spare.take(4096).as<std::byte>(), data);
  EXPECT_TRUE(spare.take(4096).is_empty());
  constexpr std::int64_t kLarge = SpareKvMemory::kMaxBytes + 1;
  spare.give(make(kLarge), kLarge);
  EXPECT_TRUE(spare.take(kLarge).is_empty());
}

TEST_F(ElasticModelTest, LevelsNeedATable) {
  const std::string path = written(elastic_config(), DType::kF32);
  const auto plain = *make_cpu_model(*load_model_files(path, {}), {.threads = 1});
  EXPECT_THAT(make_level(*plain, "70").status().message(), HasSubstr("--elastic"));
  EXPECT_THAT(make_leveled_model(*plain).status().message(), HasSubstr("--elastic"));
  const auto full = *make_cpu_model(with_table(path, Order::kStored), {.threads = 1});
  EXPECT_THAT(make_level(*full, "71").status().message(), HasSubstr("100, 70, 30"));
  EXPECT_THAT(load_model_files(path, {.elastic = path + "/none.json"}).status().message(),
              HasSubstr("none.json"));
}

}  // namespace
}  // namespace outrider
