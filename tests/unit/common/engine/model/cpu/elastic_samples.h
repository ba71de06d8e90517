// Small elastic models: written, with a level table, of every kind of weights.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/engine/model/format/architecture.h"
#include "common/engine/model/format/elastic_table.h"
#include "common/engine/model/format/model_files.h"
#include "common/engine/model/format/model_writer.h"
#include "common/engine/model/model.h"
#include "tests/unit/common/engine/model/format/small_gguf.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {

// Groups of two query heads, 64 columns each; a neuron's 512 weights are two blocks of 256.
inline ModelConfig elastic_config(const std::string& architecture = "llama",
                                  std::int32_t layers = 3) {
  ModelConfig config;
  config.architecture = architecture;
  config.kinds = family_of(config).kinds;
  config.qkv_bias = family_of(config).qkv_bias;
  config.qk_norm = family_of(config).qk_norm;
  config.vocab_size = 101;
  config.hidden_size = 256;
  config.intermediate_size = 512;
  config.num_layers = layers;
  config.num_heads = 8;
  config.num_kv_heads = 4;
  config.head_dim = 32;
  config.max_positions = 256;
  config.rms_norm_eps = 1e-5;
  config.windows.assign(static_cast<std::size_t>(layers), 0);
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

inline std::vector<std::int32_t> shuffled(std::int32_t count, std::int32_t run,
                                          std::mt19937& random) {
  std::vector<std::int32_t> runs(static_cast<std::size_t>(count / run));
  std::iota(runs.begin(), runs.end(), 0);
  std::shuffle(runs.begin(), runs.end(), random);
  std::vector<std::int32_t> order;
  for (const std::int32_t first : runs) {
    for (std::int32_t i = 0; i < run; ++i) order.push_back(first * run + i);
  }
  return order;
}

// Levels that cut both halves of a layer, one of them, and whole layers, in turn.
inline ElasticTable elastic_sample(const ModelFiles& files, Order order) {
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
  const auto add = [&](const char* name, const std::vector<LayerWidths>& pattern) {
    std::vector<LayerWidths> layers;
    for (std::size_t i = 0; i < table.order.size(); ++i) {
      layers.push_back(pattern[i % pattern.size()]);
    }
    table.levels.push_back({.name = name, .layers = layers, .bytes = level_bytes(config, layers)});
  };
  add("100", {{512, 4}, {512, 4}, {512, 4}});
  add("70", {{512, 4}, {320, 3}, {96, 4}});
  add("30", {{256, 1}, {32, 0}, {0, 0}});
  return table;
}

// Files of a model that was written to `path`, in the order of a table beside it.
inline std::shared_ptr<const ModelFiles> with_table(const std::string& path, Order order) {
  const auto plain = load_model_files(path, {});
  EXPECT_TRUE(plain.ok()) << plain.status().to_string();
  const std::string table = path + ".elastic.json";
  std::ofstream(table) << elastic_table_text(elastic_sample(**plain, order));
  const auto files = load_model_files(path, {.elastic = table});
  EXPECT_TRUE(files.ok()) << files.status().to_string();
  return *files;
}

// Logits of so many tokens in passes of so many rows.
inline std::vector<float> logits_in_chunks(Model& model, std::size_t chunk,
                                           std::size_t tokens = 40) {
  const auto cache = *model.new_cache(static_cast<std::int32_t>(tokens) + 24);
  std::vector<float> logits;
  PassOutput out;
  Slot last = kRootSlot;
  for (std::size_t begin = 0; begin < tokens; begin += chunk) {
    std::vector<Row> rows;
    for (std::size_t i = begin; i < std::min(begin + chunk, tokens); ++i) {
      last = *cache->slots().append(last);
      rows.push_back({cache.get(), last, static_cast<TokenId>((i * 37 + i * i) % 101), true});
    }
    const Status done = model.forward(rows, out);
    EXPECT_TRUE(done.ok()) << done.to_string();
    logits.insert(logits.end(), out.logits.begin(), out.logits.end());
  }
  return logits;
}

inline std::size_t other_bits(const std::vector<float>& a, const std::vector<float>& b) {
  EXPECT_EQ(a.size(), b.size());
  std::size_t other = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    other += std::memcmp(&a[i], &b[i], sizeof(float)) != 0 ? 1 : 0;
  }
  return other;
}

// Random blocks with small scales: where f16 numbers lie in each type's block.
struct BlockKind {
  GgufTensorType type;
  std::size_t elements;
  std::size_t bytes;
  std::vector<std::size_t> halves;
};

inline std::string blocks_gguf(const ModelConfig& config, const BlockKind& kind) {
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

inline const BlockKind kBlockKinds[] = {
    {GgufTensorType::kQ8_0, 32, 34, {0}},     {GgufTensorType::kQ4_1, 32, 20, {0, 2}},
    {GgufTensorType::kIQ4_NL, 32, 18, {0}},   {GgufTensorType::kQ4_K, 256, 144, {0, 2}},
    {GgufTensorType::kQ6_K, 256, 210, {208}}, {GgufTensorType::kQ2_K, 256, 84, {80, 82}}};

class ElasticSampleTest : public testing::Test {
 protected:
  std::string written(const ModelConfig& config, DType dtype) {
    const std::string path = directory_.path(config.architecture + std::string(to_string(dtype)));
    const Status status = write_model(path, config, dtype, random_source(7));
    EXPECT_TRUE(status.ok()) << status.to_string();
    return path;
  }

  // Each calls `expect` for samples with a table, and for the types in which they may compute.
  using Expect = std::function<void(const std::shared_ptr<const ModelFiles>&, const std::string&)>;
  void each_stored_type(const Expect& expect) {
    for (const DType stored : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto files = with_table(written(elastic_config(), stored), Order::kUnits);
      for (const char* dtype : {"auto", "bf16", "int8", "int4"}) expect(files, dtype);
    }
  }
  // With biases, norms of heads, and norms behind blocks.
  void each_family(const Expect& expect) {
    for (const char* architecture : {"qwen2", "qwen3", "gemma2"}) {
      const auto files =
          with_table(written(elastic_config(architecture), DType::kF32), Order::kUnits);
      for (const char* dtype : {"auto", "int8"}) expect(files, dtype);
    }
  }
  void each_block_type(const Expect& expect) {
    for (const BlockKind& kind : kBlockKinds) {
      const std::string path =
          directory_.path("b" + std::to_string(static_cast<int>(kind.type)) + ".gguf");
      std::ofstream(path, std::ios::binary) << blocks_gguf(elastic_config(), kind);
      for (const Order order : {Order::kStored, Order::kGroups, Order::kUnits}) {
        const auto files = with_table(path, order);
        for (const char* dtype : {"auto", "int8", "int4"}) expect(files, dtype);
      }
    }
  }

  TestDirectory directory_;
};

}  // namespace outrider
