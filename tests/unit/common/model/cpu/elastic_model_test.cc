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

#include "common/base/thread_pool.h"
#include "common/base/vector_targets.h"
#include "common/model/cpu/cpu_model.h"
#include "common/model/cpu/kernels/weight_memory.h"
#include "common/model/format/elastic_table.h"
#include "common/model/format/model_writer.h"
#include "tests/unit/common/model/format/small_gguf.h"
#include "tests/unit/common/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

// Groups of two query heads, 64 columns each; a neuron's 512 weights are two blocks of 256.
ModelConfig elastic_config(const std::string& architecture = "llama") {
  ModelConfig config;
  config.architecture = architecture;
  config.kinds = family_of(config).kinds;
  config.qkv_bias = family_of(config).qkv_bias;
  config.qk_norm = family_of(config).qk_norm;
  config.vocab_size = 101;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_layers = 3;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 32;
  config.max_positions = 256;
  config.rms_norm_eps = 1e-5;
  config.windows = {0, 0, 0};
  if (architecture == "gemma2") {
    config.tied_embeddings = true;
    config.embedding_scale = 16;
    config.attention_scale = 1 / std::sqrt(32.0);
    config.attention_cap = 6;
    config.logit_cap = 4;
    config.windows = {21, 0, 21};
  }
  return config;
}

enum class Order { kStored, kGroups, kUnits };  // whole groups of 32 move, or single neurons

std::vector<std::int32_t> shuffled(std::int32_t count, std::int32_t run, std::mt19937& random) {
  std::vector<std::int32_t> runs(static_cast<std::size_t>(count / run));
  std::iota(runs.begin(), runs.end(), 0);
  std::shuffle(runs.begin(), runs.end(), random);
  std::vector<std::int32_t> order;
  for (const std::int32_t first : runs) {
    for (std::int32_t i = 0; i < run; ++i) order.push_back(first * run + i);
  }
  return order;
}

// Levels that cut both halves of a layer, one of them, and whole layers.
ElasticTable elastic_sample(const ModelFiles& files, Order order) {
  const ModelConfig& config = files.config;
  std::mt19937 random(7);
  ElasticTable table{.model = files.fingerprint, .anchors = {}, .order = {}, .levels = {}};
  for (std::int32_t i = 0; i < config.num_layers; ++i) {
    table.order.emplace_back();
    if (order == Order::kStored) continue;
    table.order.back() = {
        shuffled(config.intermediate_size, order == Order::kGroups ? 32 : 1, random),
        shuffled(config.num_kv_heads, 1, random)};
  }
  const auto add = [&](const char* name, const std::vector<LayerWidths>& layers) {
    table.levels.push_back({.name = name, .layers = layers, .bytes = level_bytes(config, layers)});
  };
  add("100", {{512, 4}, {512, 4}, {512, 4}});
  add("70", {{512, 4}, {320, 3}, {96, 4}});
  add("30", {{256, 1}, {32, 0}, {0, 0}});
  return table;
}

// Files of a model that was written to `path`, in the order of a table beside it.
std::shared_ptr<const ModelFiles> with_table(const std::string& path, Order order) {
  const auto plain = load_model_files(path, {});
  EXPECT_TRUE(plain.ok()) << plain.status().to_string();
  const std::string table = path + ".elastic.json";
  std::ofstream(table) << elastic_table_text(elastic_sample(**plain, order));
  const auto files = load_model_files(path, {.elastic = table});
  EXPECT_TRUE(files.ok()) << files.status().to_string();
  return *files;
}

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
      const std::int64_t at = (i * kPanelOutputs + n % kPanelOutputs) * format.scale_bytes();
      const auto size = static_cast<std::size_t>(format.scale_bytes());
      std::memset(panel + layout.scales + at, 0, size);
      if (format.has_minimum) std::memset(panel + layout.minimums + at, 0, size);
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

// Logits of 40 tokens in passes of so many rows.
std::vector<float> logits_in_chunks(Model& model, std::size_t chunk) {
  const auto cache = *model.new_cache(64);
  std::vector<float> logits;
  PassOutput out;
  Slot last = kRootSlot;
  for (std::size_t begin = 0; begin < 40; begin += chunk) {
    std::vector<Row> rows;
    for (std::size_t i = begin; i < std::min<std::size_t>(begin + chunk, 40); ++i) {
      last = *cache->slots().append(last);
      rows.push_back({cache.get(), last, static_cast<TokenId>((i * 37 + i * i) % 101), true});
    }
    const Status done = model.forward(rows, out);
    EXPECT_TRUE(done.ok()) << done.to_string();
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
  }
  return logits;
}

std::size_t other_bits(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  std::size_t other = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    other += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1 : 0;
  }
  return other;
}

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

class ElasticModelTest : public testing::Test {
 protected:
  std::string written(const ModelConfig& config, DType dtype) {
    const std::string path = directory_.path(config.architecture + std::string(to_string(dtype)));
    const Status status = write_model(path, config, dtype, random_source(7));
    EXPECT_TRUE(status.ok()) << status.to_string();
    return path;
  }

  TestDirectory directory_;
};

TEST_F(ElasticModelTest, LevelHasTheBitsOfZeroedUnits) {
  for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
    const auto files = with_table(written(elastic_config(), stored), Order::kUnits);
    for (const char* dtype : {"auto", "bf16", "int8", "int4"}) expect_bits_of_zeroed(files, dtype);
  }
}

TEST_F(ElasticModelTest, LevelHasTheBitsOfZeroedUnitsWithBiasesAndHeadNorms) {
  for (const char* architecture : {"qwen2", "qwen3", "gemma2"}) {
    const auto files =
        with_table(written(elastic_config(architecture), DType::kF32), Order::kUnits);
    for (const char* dtype : {"auto", "int8"}) expect_bits_of_zeroed(files, dtype);
  }
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

// Random blocks with small scales: where f16 numbers lie in each type's block.
struct BlockKind {
  GgufTensorType type;
  std::size_t elements;
  std::size_t bytes;
  std::vector<std::size_t> halves;
};

std::string blocks_gguf(const ModelConfig& config, const BlockKind& kind) {
  std::mt19937 random(11);
  GgufBuilder file = gguf_keys(config);
  for (const StoredTensor& stored : stored_tensors(config, FileKind::kGguf)) {
    if (stored.shape.size() < 2) {
      const std::vector<float> ones(static_cast<std::size_t>(stored.shape[0]), 1.0f);
      file.tensor(stored.name, GgufTensorType::kF32, stored.shape,
                  {reinterpret_cast<const char*>(ones.data()), ones.size() * sizeof(float)});
      continue;
    }
    const auto count = static_cast<std::size_t>(stored.shape[0] * stored.shape[1]) / kind.elements;
    std::string bytes;
    for (std::size_t b = 0; b < count; ++b) {
      std::string block;
      for (std::size_t i = 0; i < kind.bytes; ++i) block += static_cast<char>(random() & 0xFF);
      for (const std::size_t at : kind.halves) {
        const std::uint16_t half = to_f16(0.0005f + 0.0001f * static_cast<float>(random() % 8));
        std::memcpy(block.data() + at, &half, sizeof(half));
      }
      bytes += block;
    }
    file.tensor(stored.name, kind.type, stored.shape, bytes);
  }
  return file.build();
}

TEST_F(ElasticModelTest, LevelHasTheBitsOfZeroedUnitsInBlocks) {
  const BlockKind kinds[] = {
      {GgufTensorType::kQ8_0, 32, 34, {0}},     {GgufTensorType::kQ4_1, 32, 20, {0, 2}},
      {GgufTensorType::kIQ4_NL, 32, 18, {0}},   {GgufTensorType::kQ4_K, 256, 144, {0, 2}},
      {GgufTensorType::kQ6_K, 256, 210, {208}}, {GgufTensorType::kQ2_K, 256, 84, {80, 82}}};
  for (const BlockKind& kind : kinds) {
    const std::string path =
        directory_.path("b" + std::to_string(static_cast<int>(kind.type)) + ".gguf");
    std::ofstream(path, std::ios::binary) << blocks_gguf(elastic_config(), kind);
    for (const Order order : {Order::kGroups, Order::kUnits}) {
      const auto files = with_table(path, order);
      for (const char* dtype : {"auto", "int8", "int4"}) expect_bits_of_zeroed(files, dtype);
    }
  }
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

TEST_F(ElasticModelTest, LevelsNeedATable) {
  const std::string path = written(elastic_config(), DType::kF32);
  const auto plain = *make_cpu_model(*load_model_files(path, {}), {.threads = 1});
  EXPECT_THAT(make_level(*plain, "70").status().message(), HasSubstr("--elastic"));
  const auto full = *make_cpu_model(with_table(path, Order::kStored), {.threads = 1});
  EXPECT_THAT(make_level(*full, "71").status().message(), HasSubstr("100, 70, 30"));
  EXPECT_THAT(load_model_files(path, {.elastic = path + "/none.json"}).status().message(),
              HasSubstr("none.json"));
}

}  // namespace
}  // namespace outrider
