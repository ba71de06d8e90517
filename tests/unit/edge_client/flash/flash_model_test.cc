// A pack gives the bits of the model that it was made of, however little of it is in memory.
// SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/flash_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <numeric>

#include "common/base/thread_pool.h"
#include "common/engine/model/cpu/cpu_model.h"
#include "common/engine/model/cpu/model_pack_writer.h"
#include "common/engine/model/format/architecture.h"
#include "edge_client/flash/make_pack.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/model/chunked_logits.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::HasSubstr;

class FlashModelTest : public testing::TestWithParam<std::string> {
 protected:
  // A pack of a small model of that family, of enough layers to be streamed, with no tokenizer.
  std::string pack(const std::string& dtype, const PackContents& contents = {}) {
    files_ = small_model(directory_.path(), GetParam(), DType::kF32, 7);
    ThreadPool pool(1);
    const auto weights =
        CpuWeightsLoader(kernels_for(*find_vector_target("auto")), pool, {"", {}}, {})
            .load(files_, *parse_compute_type(dtype));
    EXPECT_TRUE(weights.ok());
    const std::string path = directory_.path(dtype + ".pack");
    const Status written = write_model_pack(path, *weights, contents);
    EXPECT_TRUE(written.ok()) << written.to_string();
    return path;
  }

  std::unique_ptr<FlashModel> open(const std::string& path, std::uint64_t budget) {
    auto flash = FlashModel::open(path, {.memory_budget = budget, .threads = 2}, clock_);
    EXPECT_TRUE(flash.ok()) << flash.status().to_string();
    return flash.ok() ? *std::move(flash) : nullptr;
  }

  // The least budget that is enough, to a page.
  std::uint64_t least_budget(const std::string& path) {
    std::uint64_t refused = 0, enough = std::uint64_t{1} << 30;
    while (enough - refused > kDirectAlignment) {
      const std::uint64_t budget = refused + (enough - refused) / 2;
      const auto flash = FlashModel::open(path, {.memory_budget = budget, .threads = 1}, clock_);
      (flash.ok() ? enough : refused) = budget;
      const bool is_told =
          flash.ok() || flash.status().message().find("are needed") != std::string::npos;
      EXPECT_TRUE(is_told) << flash.status().to_string();
    }
    return enough;
  }

  TestDirectory directory_;
  SystemClock clock_;
  std::shared_ptr<const ModelFiles> files_;
};

TEST_P(FlashModelTest, GivesTheBitsOfTheModelInMemory) {
  const std::vector<TokenId> tokens = some_tokens(24);
  for (const std::string dtype : {"f32", "bf16", "int8", "int4"}) {
    const std::string path = pack(dtype);
    const auto resident = *make_cpu_model(files_, {.dtype = dtype, .threads = 2});
    const std::vector<float> expected = chunked_logits(*resident, tokens, 1);
    const std::uint64_t least = least_budget(path);
    for (const std::uint64_t budget : {least, least + (1 << 16), std::uint64_t{0}}) {
      const auto flash = open(path, budget);
      ASSERT_NE(flash, nullptr);
      EXPECT_EQ(flash->model().info().arithmetic_id, resident->info().arithmetic_id);
      EXPECT_EQ(flash->model().info().fingerprint, resident->info().fingerprint);
      for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, tokens.size()}) {
        EXPECT_EQ(chunked_logits(flash->model(), tokens, chunk), expected)
            << dtype << " " << budget;
      }
      EXPECT_EQ(flash->stats().bytes_read > 0, flash->plan().streamed_bytes > 0);
      if (budget == least) {
        EXPECT_GT(flash->plan().streamed_bytes, 0u);
      }
    }
  }
}

TEST_P(FlashModelTest, GoesOnAfterAnAbandonedPass) {
  const std::string path = pack("int8");
  const auto flash = open(path, least_budget(path));
  const std::vector<TokenId> tokens = some_tokens(5);
  const std::vector<float> expected = chunked_logits(flash->model(), tokens, 5);
  const auto cache = *flash->model().new_cache(8);
  const Slot slot = *cache->slots().append(kRootSlot);
  const std::atomic<bool> abandoned{true};
  const std::atomic<bool>* const flags[] = {&abandoned};
  PassOutput out;
  out.abandoned = flags;
  const Row row{cache.get(), slot, tokens[0], true};
  EXPECT_EQ(flash->model().forward({&row, 1}, out).code(), StatusCode::kCancelled);
  EXPECT_EQ(chunked_logits(flash->model(), tokens, 5), expected);
}

TEST_P(FlashModelTest, APassTellsHowManyLayersAreDone) {
  const std::string path = pack("int8");
  const auto flash = open(path, least_budget(path));
  const auto cache = *flash->model().new_cache(8);
  const Row row{cache.get(), *cache->slots().append(kRootSlot), 1, true};
  std::vector<std::int32_t> told;
  PassOutput out;
  out.on_layer_done = [&told](std::int32_t done, std::int32_t layers) {
    told.push_back(done);
    EXPECT_GE(layers, done);
  };
  ASSERT_TRUE(flash->model().forward({&row, 1}, out).ok());
  std::vector<std::int32_t> all(static_cast<std::size_t>(flash->pack().config().num_layers));
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(told, all);
}

TEST_P(FlashModelTest, DamageInALayerFailsThePassAndNamesIt) {
  const std::string path = pack("bf16");
  const std::uint64_t least = least_budget(path);
  const std::int64_t layer = open(path, least)->plan().pinned_layers;
  const auto opened = ModelPack::open(path);
  ASSERT_TRUE(opened.ok());
  ASSERT_LT(layer, opened->config().num_layers);  // it is streamed
  const std::int32_t experts = opened->config().experts.count;
  if (experts == 0) directory_.flip_a_bit("bf16.pack", opened->layer_extent(layer).offset + 17);
  for (std::int32_t e = 0; e < experts; ++e) {
    directory_.flip_a_bit("bf16.pack", opened->expert_extent(layer, e).offset + 17);
  }
  const auto flash = open(path, least);
  ASSERT_NE(flash, nullptr);
  const auto cache = *flash->model().new_cache(8);
  const Row row{cache.get(), *cache->slots().append(kRootSlot), 1, true};
  PassOutput out;
  const Status failed = flash->model().forward({&row, 1}, out);
  EXPECT_EQ(failed.code(), StatusCode::kDataLoss);
  EXPECT_THAT(failed.message(), HasSubstr("layer " + std::to_string(layer)));
  EXPECT_EQ(failed.message().find(", expert ") != std::string::npos, experts > 0);
}

// The embedding belongs to no layer and is never streamed, so no pass would compare it.
TEST_P(FlashModelTest, DamageInTheEmbeddingIsFoundOnOpening) {
  const std::string path = pack("int8");
  const auto opened = ModelPack::open(path);
  ASSERT_TRUE(opened.ok());
  const TensorView& embedding = opened->files().weights.at(weight_name(ModelPart::kEmbedding));
  directory_.flip_a_bit("int8.pack",
                        static_cast<std::uint64_t>(embedding.data - opened->base()) + 5);
  const auto damaged = FlashModel::open(path, {.threads = 1}, clock_);
  EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(damaged.status().message(), HasSubstr("the embedding"));
  EXPECT_THAT(damaged.status().message(), HasSubstr("checksum"));
}

TEST_P(FlashModelTest, DamageInASmallTensorIsFoundOnOpening) {
  const std::string path = pack("int8");
  const auto opened = ModelPack::open(path);
  ASSERT_TRUE(opened.ok());
  const TensorView& norm = opened->files().weights.at(weight_name(ModelPart::kFinalNorm));
  directory_.flip_a_bit("int8.pack", static_cast<std::uint64_t>(norm.data - opened->base()) + 1);
  EXPECT_EQ(ModelPack::open(path).status().code(), StatusCode::kDataLoss);
}

TEST_P(FlashModelTest, DamageInATextIsFoundOnOpening) {
  const std::vector<PackText> texts = {{"tokenizer.json", "a text of some length"}};
  const std::string path = pack("int8", {.texts = texts});
  directory_.flip_a_bit("int8.pack",
                        directory_.read("int8.pack").find("a text of some length") + 3);
  EXPECT_EQ(ModelPack::open(path).status().code(), StatusCode::kDataLoss);
}

TEST_P(FlashModelTest, CarriesTheOutputMatrixForExitsAsTheModelHasIt) {
  const auto opened = ModelPack::open(pack("int8", {.texts = {}, .for_exits = true}));
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const std::string name = weight_name(output_part(opened->config()));
  const TensorView* carried = opened->files().weights.find(name);
  ASSERT_NE(carried, nullptr);
  const TensorView& original = files_->weights.at(name);
  EXPECT_EQ(carried->dtype, original.dtype);
  EXPECT_TRUE(std::ranges::equal(std::span(carried->data, carried->num_bytes),
                                 std::span(original.data, original.num_bytes)));
}

TEST_P(FlashModelTest, ExitsWithoutTheirMatrixAreRefused) {
  const std::vector<PackText> texts = {{kAdapterIndexFile, "{}"}, {kAdapterWeightsFile, "x"}};
  const auto opened = ModelPack::open(pack("int8", {.texts = texts}));
  ASSERT_TRUE(opened.ok()) << opened.status().to_string();
  const auto adapters = load_adapters(*opened);
  ASSERT_FALSE(adapters.ok());
  const bool is_tied = output_part(opened->config()) == ModelPart::kEmbedding;
  EXPECT_EQ(adapters.status().message().find("which they read") == std::string::npos, is_tied);
}

INSTANTIATE_TEST_SUITE_P(Families, FlashModelTest, testing::ValuesIn(kSmallModels));

// Layers in memory that note which experts rows go to.
class NotingLayers final : public LayerStore {
 public:
  using Chosen = std::vector<std::pair<std::int64_t, std::int32_t>>;  // layer, expert
  NotingLayers(const CpuWeights& weights, Chosen& chosen) : layers_(weights), chosen_(chosen) {}

  Result<const CpuLayer*> acquire(std::int64_t layer) override { return layers_.acquire(layer); }
  void choose_experts(std::int64_t layer, std::span<const std::int32_t> experts) override {
    for (const std::int32_t expert : experts) chosen_.emplace_back(layer, expert);
  }
  Result<const CpuExpert*> acquire_expert(std::int64_t layer, std::int32_t expert) override {
    return layers_.acquire_expert(layer, expert);
  }
  Result<const LinearWeights*> acquire_head() override { return layers_.acquire_head(); }
  void end_pass() override {}

 private:
  ResidentLayers layers_;
  Chosen& chosen_;
};

class FlashExpertsTest : public FlashModelTest {};

TEST_P(FlashExpertsTest, APassReadsTheExpertsOfItsRowsAndNoOther) {
  const std::string path = pack("int8");
  const auto opened = ModelPack::open(path);
  ASSERT_TRUE(opened.ok());
  const CpuWeights weights = *opened->weights();
  NotingLayers::Chosen chosen;
  const auto resident = *make_cpu_model(
      *opened->weights(), std::make_unique<NotingLayers>(weights, chosen), {.threads = 1});
  const std::vector<TokenId> tokens = some_tokens(24);
  const std::uint64_t least = least_budget(path);
  const std::uint64_t all = open(path, least)->plan().streamed_bytes;
  bool pinned_some = false;
  for (const std::uint64_t budget : {least, least + all / 2}) {
    const auto flash = open(path, budget);
    ASSERT_NE(flash, nullptr);
    ASSERT_GT(flash->plan().streamed_bytes, 0u);
    pinned_some = pinned_some || flash->plan().pinned_layers > 0;
    for (const std::size_t rows : {1, 3, 24}) {
      chosen.clear();
      const std::vector<float> expected = chunked_logits(*resident, tokens, rows);
      const std::uint64_t before = flash->stats().bytes_read;
      EXPECT_EQ(chunked_logits(flash->model(), tokens, rows), expected);
      std::uint64_t bytes = 0;
      for (const auto& [layer, expert] : chosen) {
        const std::uint64_t pages =
            (opened->expert_extent(layer, expert).bytes + kPackPage - 1) / kPackPage;
        if (layer >= flash->plan().pinned_layers) bytes += pages * kPackPage;
      }
      EXPECT_EQ(flash->stats().bytes_read - before, bytes) << rows << " rows a pass";
      EXPECT_GT(bytes, 0u);
      EXPECT_LE(bytes, (tokens.size() + rows - 1) / rows * flash->plan().streamed_bytes);
    }
  }
  EXPECT_TRUE(pinned_some);
}

INSTANTIATE_TEST_SUITE_P(Families, FlashExpertsTest, testing::Values("mixtral", "qwen3_moe"));

TEST(MakePackTest, CarriesTheTokenizerOfADirectory) {
  const TestDirectory directory;
  const std::string model = source_dir() + "/models/demo-target";
  ASSERT_TRUE(make_pack({.model = model, .out = directory.path("p"), .dtype = "int8"}).ok());
  EXPECT_TRUE(ModelPack::is_pack(directory.path("p")));
  const auto pack = ModelPack::open(directory.path("p"));
  ASSERT_TRUE(pack.ok()) << pack.status().to_string();
  const auto tokenizer = load_tokenizer(*pack);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().to_string();
  EXPECT_EQ(tokenizer->content_hash(), Tokenizer::load(model)->content_hash());
  EXPECT_EQ(tokenizer->chat_templates(), Tokenizer::load(model)->chat_templates());
  EXPECT_EQ(std::ranges::distance(std::filesystem::directory_iterator(directory.path())), 1);
}

TEST(MakePackTest, CarriesTemplatesFromEveryPlace) {
  const TestDirectory directory;
  const std::string model = directory.path("model");
  std::filesystem::copy(source_dir() + "/models/demo-target", model,
                        std::filesystem::copy_options::recursive);
  std::filesystem::create_directory(model + "/additional_chat_templates");
  directory.write("model/chat_template.json", R"({"chat_template": "usual"})");
  directory.write("model/additional_chat_templates/tool_use.jinja", "tools");
  ASSERT_TRUE(make_pack({.model = model, .out = directory.path("p"), .dtype = "int8"}).ok());
  const auto pack = ModelPack::open(directory.path("p"));
  ASSERT_TRUE(pack.ok()) << pack.status().to_string();
  const std::map<std::string, std::string> expected = {{"default", "usual"}, {"tool_use", "tools"}};
  EXPECT_EQ(load_tokenizer(*pack)->chat_templates(), expected);
}

TEST(MakePackTest, NothingIsLeftWhereItCannotBeWritten) {
  const Status full = make_pack(
      {.model = source_dir() + "/models/demo-target", .out = "/dev/full/x", .dtype = "int8"});
  EXPECT_EQ(full.code(), StatusCode::kInvalidArgument);
  EXPECT_FALSE(ModelPack::is_pack(source_dir() + "/models/demo-target" + "/config.json"));
}

}  // namespace
}  // namespace outrider
