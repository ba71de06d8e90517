// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/loader/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/engine/model/emulated/null_model.h"
#include "common/engine/model/format/model_writer.h"
#include "tests/unit/common/engine/model/cpu/small_models.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

class LoaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(write_model(directory_.path(), config_, DType::kF32, random_source(1)).ok());
  }
  LoadOptions options() const {
    LoadOptions options;
    options.directory = directory_.path();
    options.threads = 1;
    return options;
  }

  ModelConfig config_ = small_config("llama");
  TestDirectory directory_;
};

TEST_F(LoaderTest, LoadsOnTheCpuByDefault) {
  const auto model = load_model(options());
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ((*model)->info().dtype, "f32");
  EXPECT_EQ((*model)->info().max_positions, config_.max_positions);
}

TEST_F(LoaderTest, AShorterContextChangesNeitherFingerprintNorArithmetic) {
  const auto whole = load_model(options());
  LoadOptions shorter = options();
  shorter.max_context = 5;
  const auto model = load_model(shorter);
  ASSERT_TRUE(whole.ok() && model.ok());
  EXPECT_EQ((*model)->info().max_positions, 5);
  EXPECT_EQ((*model)->info().fingerprint, (*whole)->info().fingerprint);
  EXPECT_EQ((*model)->info().arithmetic_id, (*whole)->info().arithmetic_id);
  for (const Position bad : {Position{-1}, Position{0}, config_.max_positions + 1}) {
    shorter.max_context = bad;
    const Status status = load_model(shorter).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("a context of " + std::to_string(bad) + " tokens"));
    EXPECT_THAT(status.message(),
                HasSubstr("1 to the model's " + std::to_string(config_.max_positions)));
  }
}

TEST_F(LoaderTest, EndOfTextTokensCanBeIgnored) {
  config_.stop_ids = {3};
  const Status written = write_model(directory_.path(), config_, DType::kF32, random_source(1));
  ASSERT_TRUE(written.ok()) << written.to_string();
  const auto model = load_model(options());
  LoadOptions without = options();
  without.ignore_eos = true;
  const auto endless = load_model(without);
  ASSERT_TRUE(model.ok() && endless.ok());
  EXPECT_EQ((*model)->info().stop_ids, std::vector<TokenId>{3});
  EXPECT_EQ((*endless)->info().stop_ids, std::vector<TokenId>{});
  EXPECT_EQ((*endless)->info().fingerprint, (*model)->info().fingerprint);
}

TEST_F(LoaderTest, CudaIsRefusedWhereTheProgramHasNone) {
  LoadOptions cuda = options();
  cuda.device = "cuda";
  const Status status = load_model(cuda).status();
  EXPECT_EQ(status.code(), StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("built without it"));
  cuda.device = "tpu";
  EXPECT_EQ(load_model(cuda).status().code(), StatusCode::kInvalidArgument);
}

TEST_F(LoaderTest, GpusAreNamedOnceAndNotForTheCpu) {
  LoadOptions gpus = options();
  gpus.gpus = {0, 1};
  EXPECT_THAT(load_model(gpus).status().message(), HasSubstr("--gpus: device cpu has none"));
  gpus.device = "cuda";
  gpus.gpus = {1, 1};
  EXPECT_THAT(load_model(gpus).status().message(), HasSubstr("--gpus: one is named twice"));
}

TEST_F(LoaderTest, CudaIsLeftToItsFactory) {
  LoadOptions cuda = options();
  cuda.device = "cuda";
  std::string seen;
  const CudaFactory factory = [&seen](const std::shared_ptr<const ModelFiles>& files,
                                      const LoadOptions& /*options*/) {
    seen = files->fingerprint;
    return Result<std::unique_ptr<Model>>(make_null_model({}));
  };
  const auto model = load_model(cuda, factory);
  ASSERT_TRUE(model.ok());
  EXPECT_EQ((*model)->info().architecture, "null");
  EXPECT_EQ(seen, (*load_model(options()))->info().fingerprint);
}

TEST_F(LoaderTest, ADirectoryThatIsNoModelIsRefused) {
  LoadOptions nowhere = options();
  nowhere.directory = directory_.path("nowhere");
  EXPECT_EQ(load_model(nowhere).status().code(), StatusCode::kNotFound);
  LoadOptions odd = options();
  odd.dtype = "f8";
  EXPECT_EQ(load_model(odd).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace outrider
