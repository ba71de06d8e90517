// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/cpu_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "common/engine/model/format/model_writer.h"
#include "tests/unit/common/engine/model/cpu/reference_transformer.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

class CpuModelTest : public ::testing::Test {
 protected:
  std::shared_ptr<const ModelFiles> files(const std::string& architecture,
                                          DType dtype = DType::kF32) {
    return small_model(directory_.path(), architecture, dtype);
  }

  static std::unique_ptr<Model> make(std::shared_ptr<const ModelFiles> files,
                                     const std::string& dtype) {
    auto model = make_cpu_model(std::move(files), {.dtype = dtype, .threads = 2, .progress = {}});
    EXPECT_TRUE(model.ok()) << model.status().to_string();
    return model.ok() ? *std::move(model) : nullptr;
  }

  // The logits of a whole text in one pass.
  static std::vector<float> logits_of(Model& model, const std::vector<TokenId>& tokens) {
    auto cache = *model.new_cache(static_cast<std::int32_t>(tokens.size()));
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (const TokenId token : tokens) {
      slot = *cache->slots().append(slot);
      rows.push_back({cache.get(), slot, token, true});
    }
    PassOutput out;
    const Status status = model.forward(rows, out);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return out.logits;
  }

  TestDirectory directory_;
};

TEST_F(CpuModelTest, EveryFamilyAgreesWithThePlainReference) {
  const std::vector<TokenId> tokens = some_tokens(90);
  for (const std::string& architecture : kSmallModels) {
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
      const auto model_files = files(architecture, dtype);
      const auto model = make(model_files, "f32");
      const std::vector<float> logits = logits_of(*model, tokens);
      const auto expected = reference_logits(*model_files, tokens);
      for (std::size_t t = 0; t < tokens.size(); ++t) {
        for (std::size_t v = 0; v < 101; ++v) {
          ASSERT_NEAR(logits[t * 101 + v], expected[t][v],
                      3e-5 * std::max(1.0, std::abs(expected[t][v])))
              << architecture << " " << to_string(dtype) << " position " << t;
        }
      }
    }
  }
}

TEST_F(CpuModelTest, AShortlistGivesItsTokensTheirLogitsBitForBitAndOthersNone) {
  const std::vector<TokenId> tokens = some_tokens(20), listed = {0, 3, 17, 18, 64, 100};
  for (const std::string architecture : {"llama", "qwen2"}) {  // tied, and not
    const auto whole_files = files(architecture, DType::kBF16);
    ModelConfig config = whole_files->config;
    config.head_tokens = listed;
    const std::string path = directory_.path("listed-" + architecture);
    ASSERT_TRUE(write_model(path, config, DType::kBF16, random_source(7)).ok());
    const auto listed_files = *load_model_files(path, {});
    EXPECT_NE(listed_files->fingerprint, whole_files->fingerprint);
    for (const std::string dtype : {"auto", "f32", "int8", "int4"}) {
      const auto whole = make(whole_files, dtype), part = make(listed_files, dtype);
      const std::vector<float> all = logits_of(*whole, tokens), some = logits_of(*part, tokens);
      ASSERT_EQ(all.size(), some.size());
      EXPECT_LT(part->info().weight_bytes, whole->info().weight_bytes);
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto token = static_cast<TokenId>(i % 101);
        const bool is_listed = std::ranges::find(listed, token) != listed.end();
        ASSERT_EQ(some[i], is_listed ? all[i] : -std::numeric_limits<float>::infinity())
            << architecture << " " << dtype << " token " << token;
      }
    }
  }
}

TEST_F(CpuModelTest, ABf16FileGivesTheSameBitsAsF32AndBf16) {
  const auto model_files = files("llama", DType::kBF16);
  const auto as_f32 = make(model_files, "f32");
  const auto as_bf16 = make(model_files, "bf16");
  const std::vector<TokenId> tokens = some_tokens(20);
  EXPECT_EQ(logits_of(*as_f32, tokens), logits_of(*as_bf16, tokens));
  EXPECT_EQ(as_f32->info().arithmetic_id, as_bf16->info().arithmetic_id);
  EXPECT_EQ(as_f32->info().dtype, "f32");
  EXPECT_EQ(as_bf16->info().dtype, "bf16");
}

TEST_F(CpuModelTest, RoundedWeightsHaveAnotherArithmeticIdAndStayClose) {
  const auto model_files = files("qwen2");
  const auto exact = make(model_files, "auto");
  const std::vector<TokenId> tokens = some_tokens(30);
  const std::vector<float> expected = logits_of(*exact, tokens);
  EXPECT_EQ(exact->info().dtype, "f32");
  for (const auto& [dtype, tolerance] :
       {std::pair("bf16", 0.05), std::pair("int8", 0.25), std::pair("int4", 2.0)}) {
    const auto model = make(model_files, dtype);
    EXPECT_NE(model->info().arithmetic_id, exact->info().arithmetic_id);
    EXPECT_EQ(model->info().fingerprint, exact->info().fingerprint);
    const std::vector<float> logits = logits_of(*model, tokens);
    EXPECT_NE(logits, expected);
    for (std::size_t i = 0; i < logits.size(); ++i) {
      ASSERT_NEAR(logits[i], expected[i], tolerance) << dtype;
    }
  }
}

TEST_F(CpuModelTest, KeysAndValuesOfBf16HaveAnotherArithmeticIdAndStayClose) {
  const auto model_files = files("qwen2");
  const auto exact = make(model_files, "auto");
  auto rounded = make_cpu_model(model_files, {.kv_dtype = "bf16", .threads = 2, .progress = {}});
  ASSERT_TRUE(rounded.ok()) << rounded.status().to_string();
  EXPECT_NE((*rounded)->info().arithmetic_id, exact->info().arithmetic_id);
  const std::vector<TokenId> tokens = some_tokens(30);
  const std::vector<float> expected = logits_of(*exact, tokens);
  const std::vector<float> logits = logits_of(**rounded, tokens);
  EXPECT_NE(logits, expected);
  for (std::size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 0.05);
}

TEST_F(CpuModelTest, PassesLongerThanTheScratchGiveTheSameBits) {
  const auto model = make(files("mistral"), "int8");
  const std::vector<TokenId> tokens = some_tokens(300);
  const std::vector<float> logits = logits_of(*model, tokens);
  const std::vector<float> first = logits_of(*model, {tokens.begin(), tokens.begin() + 200});
  EXPECT_TRUE(std::equal(first.begin(), first.end(), logits.begin()));
  EXPECT_EQ(logits.size(), 300u * 101u);
}

TEST_F(CpuModelTest, OnlyWantedRowsGetLogits) {
  const auto model = make(files("llama"), "f32");
  const std::vector<float> all = logits_of(*model, some_tokens(3));
  auto cache = *model->new_cache(3);
  std::vector<Row> rows;
  Slot slot = kRootSlot;
  for (const TokenId token : some_tokens(3)) {
    slot = *cache->slots().append(slot);
    rows.push_back({cache.get(), slot, token, rows.size() != 1});
  }
  PassOutput out;
  ASSERT_TRUE(model->forward(rows, out).ok());
  ASSERT_EQ(out.logits.size(), 2u * 101u);
  EXPECT_TRUE(std::equal(out.row(0).begin(), out.row(0).end(), all.begin()));
  EXPECT_TRUE(std::equal(out.row(1).begin(), out.row(1).end(), all.begin() + 2 * 101));
}

TEST_F(CpuModelTest, LogitsOnDemandAreThoseOfThePassBitForBit) {
  const std::vector<TokenId> tokens = some_tokens(12);
  for (const std::string dtype : {"f32", "int8"}) {
    const auto model = make(files("llama"), dtype);
    const std::vector<float> expected = logits_of(*model, tokens);
    auto cache = *model->new_cache(static_cast<std::int32_t>(tokens.size()));
    std::vector<Row> rows;
    Slot slot = kRootSlot;
    for (const TokenId token : tokens) {
      slot = *cache->slots().append(slot);
      rows.push_back({cache.get(), slot, token, rows.size() >= 2});  // ten want logits
    }
    PassOutput out;
    out.on_demand = true;
    ASSERT_TRUE(model->forward(rows, out).ok());
    ASSERT_NE(out.row_logits, nullptr);
    for (const std::vector<std::size_t>& asked : {std::vector<std::size_t>{9, 3}, {0}}) {
      ASSERT_TRUE(out.row_logits->compute(asked, out).ok());
      for (const std::size_t row : asked) {
        const std::span<const float> logits = out.row(row);
        EXPECT_TRUE(std::equal(logits.begin(), logits.end(),
                               expected.begin() + static_cast<std::ptrdiff_t>((row + 2) * 101)))
            << dtype << " row " << row;
      }
    }
    out.row_logits->end();
    cache->slots().release_all_uncommitted();
  }
}

TEST_F(CpuModelTest, ConversionReportsItsProgressToTheEnd) {
  const auto model_files = files("qwen3");
  std::int64_t last = 0;
  std::int64_t total = 0;
  const auto model = make_cpu_model(
      model_files, {.dtype = "int8", .progress = [&](std::int64_t done, std::int64_t of) {
                      EXPECT_GT(done, last);
                      last = done;
                      total = of;
                    }});
  ASSERT_TRUE(model.ok());
  EXPECT_GT(last, 0);
  EXPECT_EQ(last, total) << "an embedding that is only looked up is not converted";
}

TEST_F(CpuModelTest, AnOutputMatrixThatIsTheEmbeddingIsConvertedInManySteps) {
  ModelConfig config = small_config("llama");
  config.tied_embeddings = true;
  config.vocab_size = 60'000;
  const TestDirectory large;
  ASSERT_TRUE(write_model(large.path(), config, DType::kF32, random_source(1)).ok());
  std::int64_t last = 0, total = 0, largest_step = 0;
  const auto model =
      make_cpu_model(*load_model_files(large.path(), {}),
                     {.dtype = "int8", .progress = [&](std::int64_t done, std::int64_t of) {
                        largest_step = std::max(largest_step, done - last);
                        last = done;
                        total = of;
                      }});
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ(last, total);
  EXPECT_LE(largest_step, total / 2);
}

TEST_F(CpuModelTest, UnknownOptionsAreRefusedByName) {
  const auto model_files = files("llama");
  EXPECT_THAT(make_cpu_model(model_files, {.dtype = "int3", .progress = {}}).status().message(),
              HasSubstr("dtype 'int3'"));
  EXPECT_THAT(make_cpu_model(model_files, {.kv_dtype = "f16", .progress = {}}).status().message(),
              HasSubstr("kv dtype 'f16'"));
  EXPECT_THAT(make_cpu_model(model_files, {.kernel = "mmx", .progress = {}}).status().message(),
              HasSubstr("kernel 'mmx'"));
  EXPECT_THAT(make_cpu_model(model_files, {.threads = -1, .progress = {}}).status().message(),
              HasSubstr("threads = -1"));
}

TEST_F(CpuModelTest, CachesBeyondTheMachineAreRefused) {
  const auto model = make(files("llama"), "f32");
  EXPECT_EQ(model->new_cache(2'000'000'000).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(model->new_cache(0).status().code(), StatusCode::kInvalidArgument);
}

// The errors of a pass, each with its reason.
class CpuModelRefusals : public CpuModelTest {
 protected:
  void expect_refused(const std::vector<Row>& rows, const std::string& reason) {
    PassOutput out;
    const Status status = model_->forward(rows, out);
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr(reason));
  }

  std::unique_ptr<Model> model_ = make(files("llama"), "f32");
  std::unique_ptr<KvCache> cache_ = *model_->new_cache(600);
};

TEST_F(CpuModelRefusals, TokensOutsideTheVocabulary) {
  const Slot slot = *cache_->slots().append(kRootSlot);
  expect_refused({{cache_.get(), slot, 101}}, "token 101");
  expect_refused({{cache_.get(), slot, -1}}, "token -1");
}

TEST_F(CpuModelRefusals, SlotsThatAreFreeCommittedOrOutOfRange) {
  expect_refused({{cache_.get(), 3, 5}}, "slot 3 is not in use");
  expect_refused({{cache_.get(), 600, 5}}, "slot 600 is not in use");
  expect_refused({{cache_.get(), -1, 5}}, "slot -1 is not in use");
  const Slot slot = *cache_->slots().append(kRootSlot);
  cache_->slots().commit(slot);
  expect_refused({{cache_.get(), slot, 5}}, "is committed");
}

TEST_F(CpuModelRefusals, TheSameSlotTwice) {
  const Slot slot = *cache_->slots().append(kRootSlot);
  expect_refused({{cache_.get(), slot, 5}, {cache_.get(), slot, 6}}, "is also that of row 0");
}

TEST_F(CpuModelRefusals, ChildrenBeforeTheirParents) {
  const Slot parent = *cache_->slots().append(kRootSlot);
  const Slot child = *cache_->slots().append(parent);
  expect_refused({{cache_.get(), child, 5}, {cache_.get(), parent, 6}}, "comes after it");
}

TEST_F(CpuModelRefusals, CachesOfAnotherModel) {
  const auto other = make(files("llama"), "f32");
  const auto cache = *other->new_cache(4);
  const Slot slot = *cache->slots().append(kRootSlot);
  expect_refused({{cache.get(), slot, 5}}, "belongs to another model");
  expect_refused({{nullptr, 0, 5}}, "belongs to another model");
}

TEST_F(CpuModelRefusals, PositionsBeyondTheModelsLength) {
  Slot slot = kRootSlot;
  for (int i = 0; i < 513; ++i) slot = *cache_->slots().append(slot);
  expect_refused({{cache_.get(), slot, 5}}, "position 512 is beyond the model's 512");
}

TEST_F(CpuModelRefusals, AndGoesOnAfterwards) {
  const Slot parent = *cache_->slots().append(kRootSlot);
  const Slot child = *cache_->slots().append(parent);
  expect_refused({{cache_.get(), parent, 5}, {cache_.get(), child, 999}}, "row 1: token 999");
  PassOutput out;
  const std::vector<Row> rows = {{cache_.get(), parent, 5}, {cache_.get(), child, 6}};
  ASSERT_TRUE(model_->forward(rows, out).ok());
  const std::vector<float> expected = logits_of(*model_, {5, 6});
  EXPECT_EQ(out.logits, expected);
}

}  // namespace
}  // namespace outrider
