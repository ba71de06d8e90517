// SPDX-License-Identifier: Apache-2.0
#include "common/decoding/exits/find_exits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/decoding/exits/adapters.h"
#include "common/engine/model/loader/loader.h"
#include "tests/support/paths.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A model directory without adapters.
const std::string kPlain = source_dir() + "/models/demo-draft";

class FindExitsTest : public testing::Test {
 protected:
  static ModelInfo info() {
    LoadOptions options;
    options.directory = kPlain;
    options.threads = 1;
    return (*load_model(options))->info();
  }

  const ModelInfo info_ = info();
  const TestDirectory adapters_;
};

TEST_F(FindExitsTest, WithoutAdaptersThereAreNoneUnlessTheyWereAskedFor) {
  const Result<FoundExits> found = find_exits({.model = kPlain}, info_);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ((*found).heads, nullptr);
  EXPECT_THAT((*found).about, AllOf(HasSubstr("none: "), HasSubstr("adapters.json: no such file")));
  EXPECT_EQ(find_exits({.model = kPlain, .exits = "all"}, info_).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(find_exits({.model = kPlain, .adapters = adapters_.path()}, info_).status().code(),
            StatusCode::kNotFound);
}

TEST_F(FindExitsTest, TakesTheAdaptersThatFitAndSaysWhich) {
  const std::int32_t layers[] = {1, 2};
  ASSERT_TRUE(save_adapters(adapters_.path(), random_adapters(info_, layers, 4, 1)).ok());
  const ExitSource source{.model = kPlain, .adapters = adapters_.path(), .exits = "2"};
  const Result<FoundExits> found = find_exits(source, info_);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  ASSERT_NE((*found).heads, nullptr);
  EXPECT_THAT((*found).heads->layers(), ElementsAre(2));
  EXPECT_EQ((*found).about, "after layers 2");
  ModelInfo other = info_;
  other.fingerprint = std::string(64, '0');
  EXPECT_EQ(find_exits(source, other).status().code(), StatusCode::kFailedPrecondition);
}

TEST_F(FindExitsTest, AFolderOfGgufFilesMayHaveAnotherModelsAdapters) {
  const std::int32_t layers[] = {1};
  ASSERT_TRUE(save_adapters(adapters_.path(), random_adapters(info_, layers, 4, 1)).ok());
  adapters_.write("other.gguf", "a file");
  const std::string file = adapters_.path("other.gguf");
  ModelInfo other = info_;
  other.fingerprint = std::string(64, '0');
  const Result<FoundExits> found = find_exits({.model = file}, other);
  ASSERT_TRUE(found.ok()) << found.status().to_string();
  EXPECT_EQ((*found).heads, nullptr);
  EXPECT_THAT((*found).about, HasSubstr("adapters.json: for another model"));
  EXPECT_TRUE(load_adapters_beside(file, info_.fingerprint).ok());
  EXPECT_EQ(find_exits({.model = file, .exits = "1"}, other).status().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(load_adapters_beside(adapters_.path(), other.fingerprint)->fingerprint,
            info_.fingerprint)
      << "a model's own directory: check_target() refuses them";
}

TEST_F(FindExitsTest, TheExitNearestToTheMiddlePrunesChosenOrNot) {
  const std::int32_t layers[] = {1, 2};
  ASSERT_EQ(info_.num_layers, 3) << "of the model that is tried";
  ExitAdapters adapters = random_adapters(info_, layers, 4, 1);
  ExitSource source{.model = kPlain, .adapters = adapters_.path(), .prunes = true};
  const auto found = [&](std::vector<std::int32_t> chosen) {
    adapters.chosen = std::move(chosen);
    EXPECT_TRUE(save_adapters(adapters_.path(), adapters).ok());
    return find_exits(source, info_);
  };
  const Result<FoundExits> other = found({1});
  ASSERT_TRUE(other.ok()) << other.status().to_string();
  EXPECT_THAT(other->heads->layers(), ElementsAre(1));
  EXPECT_EQ(other->heads->pruning_layer(), 2);
  EXPECT_EQ(other->about, "after layers 1");
  EXPECT_EQ(found({1, 2})->heads->pruning_layer(), std::nullopt) << "a chosen one prunes";
  const Result<FoundExits> none = found({});
  EXPECT_THAT(none->heads->layers(), IsEmpty());
  EXPECT_EQ(none->heads->pruning_layer(), 2);
  EXPECT_THAT(none->about, HasSubstr("no chosen exits"));
  source.prunes = false;
  EXPECT_EQ(found({})->heads, nullptr);
}

TEST(NearestToMiddle, TakesTheLaterOfTwo) {
  const std::int32_t layers[] = {24, 12, 14, 16, 19};
  EXPECT_EQ(nearest_to_middle(layers, 30), 3u);
  EXPECT_EQ(nearest_to_middle(std::span(layers, 3), 30), 2u);
}

}  // namespace
}  // namespace outrider
