// SPDX-License-Identifier: Apache-2.0
#include "common/exits/find_exits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/exits/adapters.h"
#include "common/model/loader/loader.h"
#include "tests/support/paths.h"
#include "tests/unit/common/model/test_directory.h"

namespace outrider {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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
  EXPECT_THAT((*found).about, HasSubstr("none: the model has no adapters.json"));
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

}  // namespace
}  // namespace outrider
