// Packs by level: the full model and each level have the bits that they have in memory.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "common/base/json_record.h"
#include "common/base/thread_pool.h"
#include "common/base/vector_targets.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/model_pack.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "tests/unit/common/engine/model/cpu/elastic_samples.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

class ElasticPackTest : public ElasticSampleTest {
 protected:
  ModelPack packed(const std::shared_ptr<const ModelFiles>& files, const std::string& dtype) {
    ThreadPool pool(1);
    const auto weights =
        CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
            .load(files, *parse_compute_type(dtype));
    EXPECT_TRUE(weights.ok()) << weights.status().to_string();
    const Status written = write_model_pack(path_, *weights, {});
    EXPECT_TRUE(written.ok()) << written.to_string();
    auto pack = ModelPack::open(path_);
    EXPECT_TRUE(pack.ok()) << pack.status().to_string();
    return *std::move(pack);
  }

  void expect_bits_of_the_model(const std::shared_ptr<const ModelFiles>& files,
                                const std::string& dtype, const std::string& kernel = "auto") {
    const CpuModelOptions options{.dtype = dtype, .threads = 2, .kernel = kernel};
    const auto full = *make_cpu_model(files, options);
    const ModelPack pack = packed(files, dtype);
    auto from_pack = make_cpu_model(*pack.weights(), nullptr, options);
    ASSERT_TRUE(from_pack.ok()) << from_pack.status().to_string();
    for (const ElasticLevel& level : files->elastic->levels) {
      const auto expected_level = *make_level(*full, level.name);
      const auto found_level = make_level(**from_pack, level.name);
      ASSERT_TRUE(found_level.ok()) << found_level.status().to_string();
      EXPECT_EQ((*found_level)->info().arithmetic_id, expected_level->info().arithmetic_id);
      EXPECT_EQ((*found_level)->info().fingerprint, expected_level->info().fingerprint);
      const std::vector<float> expected = logits_in_chunks(*expected_level, 40);
      for (const std::size_t rows : {1, 2, 7, 16, 33, 40}) {
        EXPECT_EQ(other_bits(logits_in_chunks(**found_level, rows), expected), 0u)
            << files->name << " as " << dtype << ", level " << level.name << ", " << rows
            << " rows";
      }
    }
  }
  const Expect has_bits_of_the_model_ = [this](const auto& files, const std::string& dtype) {
    expect_bits_of_the_model(files, dtype);
  };

  const std::string path_ = directory_.path("levels.pack");
};

TEST_F(ElasticPackTest, EveryLevelHasItsBits) {
  each_stored_type(has_bits_of_the_model_);
  each_family(has_bits_of_the_model_);
}

TEST_F(ElasticPackTest, EveryLevelHasItsBitsOnEveryKernel) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  for (const VectorTarget target : available_vector_targets()) {
    for (const char* dtype : {"f32", "int8", "int4"}) {
      expect_bits_of_the_model(files, dtype, std::string(to_string(target)));
    }
  }
}

// Widened for many rows, in parts longer and shorter than a kernel's blocks.
TEST_F(ElasticPackTest, ManyRowsHaveTheBitsOfOne) {
  const auto files = with_table(written(elastic_config(), DType::kBF16), Order::kUnits);
  const ModelPack pack = packed(files, "auto");
  const auto model = *make_cpu_model(*pack.weights(), nullptr, {.threads = 1});
  const std::vector<float> alone = logits_in_chunks(*model, 1, 200);
  for (const std::size_t rows : {50, 90, 200}) {
    EXPECT_EQ(other_bits(logits_in_chunks(*model, rows, 200), alone), 0u) << rows;
  }
}

TEST_F(ElasticPackTest, EveryLevelHasItsBitsInBlocks) {
  each_block_type(has_bits_of_the_model_);
}

// The extents of a layer, from the first on, are all that a level reads.
TEST_F(ElasticPackTest, ALevelIsAPrefixOfItsLayers) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  const ModelPack pack = packed(files, "int8");
  const CpuWeights full = *pack.weights();
  const std::size_t levels = files->elastic->levels.size();
  for (std::size_t level = 0; level < levels; ++level) {
    const CpuWeights weights = weights_of_level(full, files->elastic->levels[level]);
    for (std::size_t layer = 0; layer < weights.layers.size(); ++layer) {
      const auto index = static_cast<std::int64_t>(layer);
      const PackExtent& last = pack.layer_extent(index, levels - 1 - level);
      visit_matrices(weights.layers[layer], [&](const LinearWeights& each) {
        for (const WeightMatrix& piece : pieces_of(each)) {
          const auto at =
              static_cast<std::uint64_t>(static_cast<const std::byte*>(piece.data) - pack.base());
          EXPECT_GE(at, pack.layer_extent(index).offset);
          EXPECT_LT(at, last.offset + last.bytes) << layer << " level " << level;
        }
      });
    }
  }
}

TEST_F(ElasticPackTest, AWrongTableOrPartIsRefused) {
  const auto files = with_table(written(elastic_config(), DType::kF32), Order::kUnits);
  (void)packed(files, "int8");
  const std::string bytes = directory_.read("levels.pack");
  const auto opened = [&](const std::string& from, const std::string& to) {
    std::string changed = bytes;
    for (std::size_t at = 0; (at = changed.find(from, at)) != std::string::npos; at += to.size()) {
      changed.replace(at, from.size(), to);
    }
    directory_.write("levels.pack", changed);
    return ModelPack::open(path_).status().message();
  };
  // Damage in the table's text, as in any other text, is found by its checksum.
  EXPECT_THAT(opened("\"anchors\": []", "\"anchors\": [7"), HasSubstr("checksum"));

  auto index = parse_pack_index(std::as_bytes(std::span(bytes)), "pack");
  ASSERT_TRUE(index.ok());
  const auto refused = [&](PackIndex changed) {
    const std::string text = write_json(changed).dump();
    const std::size_t end = bytes.size() - write_json(*index).dump().size();
    directory_.write("levels.pack", write_pack_header(end, std::as_bytes(std::span(text))) +
                                        bytes.substr(kPackPage, end - kPackPage) + text);
    return ModelPack::open(path_).status().message();
  };
  EXPECT_EQ(refused(*index), "");
  PackIndex other = *index;
  std::swap(other.matrices[0].name, other.matrices[1].name);
  EXPECT_THAT(refused(other), HasSubstr("in the place of"));
  other = *index;
  other.fingerprint = std::string(64, 'a');
  EXPECT_THAT(refused(other), HasSubstr("another model's"));
  other = *index;
  other.matrices.erase(other.matrices.begin());
  EXPECT_THAT(refused(other), HasSubstr("matrices"));
}

// Parts of one matrix are of one type: a product takes them for one matrix.
TEST_F(ElasticPackTest, LevelsOfSeveralFormatsAreRefused) {
  (void)packed(with_table(written(elastic_config(), DType::kBF16), Order::kUnits), "auto");
  const std::string bytes = directory_.read("levels.pack");
  PackIndex index = *parse_pack_index(std::as_bytes(std::span(bytes)), "pack");
  const std::size_t end = bytes.size() - write_json(index).dump().size();
  const auto last = std::ranges::find_if(
      index.matrices, [](const PackMatrix& matrix) { return matrix.name.ends_with("@100"); });
  ASSERT_NE(last, index.matrices.end());
  last->type = static_cast<std::uint8_t>(WeightType::kF16);  // as many bytes
  const std::string text = write_json(index).dump();
  directory_.write("levels.pack", write_pack_header(end, std::as_bytes(std::span(text))) +
                                      bytes.substr(kPackPage, end - kPackPage) + text);
  EXPECT_THAT(ModelPack::open(path_).status().message(),
              HasSubstr("its levels have several formats"));
}

}  // namespace
}  // namespace outrider
