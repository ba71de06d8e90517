// Small files of our own, and the real traces where they are at hand.
// SPDX-License-Identifier: Apache-2.0
#include "emulation/path/trace_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "emulation/path/impaired_path.h"
#include "tests/support/paths.h"

namespace outrider {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::Not;

class TraceProfileTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "traces";
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }

  std::string write(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  std::string folder_;
};

TEST_F(TraceProfileTest, ADirectionWithAFileOfItsOwnHasIt) {
  const std::string down = write("x.down", "1\n2\n3\n");
  const std::string up = write("x.up", "5\n");
  for (const std::string& file : {down, up}) {
    const auto profile = load_trace_profile(file, seconds(2));
    ASSERT_TRUE(profile.ok()) << profile.status().to_string();
    EXPECT_EQ(profile->down.opportunities->ms.size(), 3u);
    EXPECT_EQ(profile->up.opportunities->ms.size(), 1u);
    EXPECT_EQ(profile->up.delay, milliseconds(20));
    EXPECT_EQ(profile->up.trace_offset, seconds(2));
    EXPECT_THAT(profile->chosen, HasSubstr("20 ms one way (the trace has no delay)"));
    EXPECT_THAT(profile->chosen, Not(HasSubstr("the same rates")));
    EXPECT_THAT(profile->description(), HasSubstr("from 2 s"));
  }
}

TEST_F(TraceProfileTest, ASingleFileServesBothDirectionsAndSaysSo) {
  const auto profile = load_trace_profile(write("fcc.log", "540 1.5\n545 2\n"), Duration::zero());
  ASSERT_TRUE(profile.ok()) << profile.status().to_string();
  EXPECT_EQ(profile->up.rates->steps.size(), 2u);
  EXPECT_EQ(profile->down.rates->steps.size(), 2u);
  EXPECT_THAT(profile->description(), HasSubstr("the same rates in both directions"));
}

TEST_F(TraceProfileTest, DelaysAndRatesBesideEachOtherBelongTogether) {
  const std::string delay = write("delay_1.txt", "12\n40\n");
  const auto alone = load_trace_profile(delay, Duration::zero());
  ASSERT_TRUE(alone.ok());
  EXPECT_FALSE(alone->down.has_rate());
  EXPECT_THAT(alone->description(), HasSubstr("no limit of the rate"));
  const std::string rates = write("bw_1.txt", "1\n2\n");
  for (const std::string& file : {delay, rates}) {
    const auto profile = load_trace_profile(file, Duration::zero());
    ASSERT_TRUE(profile.ok()) << profile.status().to_string();
    EXPECT_TRUE(profile->down.has_rate());
    EXPECT_EQ(profile->up.delays->delays.size(), 2u);
  }
}

TEST_F(TraceProfileTest, ABadFileIsNamed) {
  EXPECT_EQ(load_trace_profile(folder_ + "/none", {}).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(load_trace_profile(write("empty", ""), {}).status().message(),
              HasSubstr("empty: the trace has zero bytes"));
  EXPECT_FALSE(load_trace_profile(folder_, {}).ok());
  write("x.up", "9\n1\n");
  EXPECT_THAT(load_trace_profile(write("x.down", "1\n"), {}).status().message(),
              HasSubstr("x.up:2: '1' goes back in time"));
}

TEST_F(TraceProfileTest, TheRealTracesAreRead) {
  const std::filesystem::path traces = source_dir() + "/../shared/data/traces";
  if (!std::filesystem::exists(traces)) GTEST_SKIP() << "no traces at " << traces;
  int read = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(traces)) {
    const std::string name = entry.path().filename().string();
    if (!entry.is_regular_file() || name.starts_with("README") || name == "trace-info") continue;
    const auto profile = load_trace_profile(entry.path().string(), {});
    EXPECT_TRUE(profile.ok()) << profile.status().to_string();
    ++read;
  }
  EXPECT_GT(read, 50);
  // The trace's own rates: 5.2 Mbit/s down, 0.84 up.
  const auto att = load_trace_profile((traces / "mahimahi/ATT-LTE-driving.down").string(), {});
  ASSERT_TRUE(att.ok());
  const auto mbit_s = [](const PathSettings& path) {
    const Duration period = milliseconds(path.opportunities->ms.back());
    return Bottleneck::capacity(path, {}, period) * 8e-6 / to_seconds(period);
  };
  EXPECT_NEAR(mbit_s(att->down), 5.2, 0.05);
  EXPECT_NEAR(mbit_s(att->up), 0.84, 0.01);
}

}  // namespace
}  // namespace outrider
