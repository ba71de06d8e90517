// SPDX-License-Identifier: Apache-2.0
#include "adapters/train/run_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "adapters/data/progress.h"

namespace outrider {
namespace {

std::vector<StepMetrics> falling_losses(std::int64_t steps) {
  std::vector<StepMetrics> metrics;
  for (std::int64_t step = 1; step <= steps; ++step) {
    metrics.push_back({step, 8.0 / static_cast<double>(step), 1e-3, 0.5, 1000.0, {}});
    if (step % 10 == 0) metrics.back().held_out["<robot>"] = {1.0, 0.5};
  }
  return metrics;
}

TEST(MetricsFile, IsReadBackAsWritten) {
  const std::string path = testing::TempDir() + "metrics_written.jsonl";
  const std::vector<StepMetrics> metrics = falling_losses(20);
  {
    Result<MetricsFile> file = MetricsFile::open(path, 0);
    ASSERT_TRUE(file.ok());
    for (const StepMetrics& one : metrics) ASSERT_TRUE(file->append(one).ok());
  }
  const auto back = read_metrics(path);
  ASSERT_TRUE(back.ok()) << back.status().to_string();
  EXPECT_EQ(*back, metrics);
}

TEST(MetricsFile, OpenedAgainKeepsOnlyWhatIsBeforeTheCheckpoint) {
  const std::string path = testing::TempDir() + "metrics_again.jsonl";
  {
    Result<MetricsFile> file = MetricsFile::open(path, 0);
    for (const StepMetrics& one : falling_losses(20)) ASSERT_TRUE(file->append(one).ok());
  }
  ASSERT_TRUE(MetricsFile::open(path, 12).ok());
  EXPECT_EQ(read_metrics(path)->size(), 12u);
  ASSERT_TRUE(MetricsFile::open(path, 0).ok());
  EXPECT_TRUE(read_metrics(path)->empty());
}

TEST(MetricsFile, BrokenLinesAreNamed) {
  const std::string path = testing::TempDir() + "metrics_broken.jsonl";
  std::ofstream(path) << "{\"step\":1}\n{\"loss\":2}\n";
  const Status status = read_metrics(path).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("line 2"), std::string::npos) << status.message();
}

TEST(LossPlot, HasOneLinePerCurveAndEscapesNames) {
  const std::string svg = loss_plot_svg(falling_losses(400), "a & b");
  std::size_t lines = 0;
  for (std::size_t at = svg.find("<polyline"); at != std::string::npos;
       at = svg.find("<polyline", at + 1)) {
    ++lines;
  }
  EXPECT_EQ(lines, 2u);
  EXPECT_NE(svg.find("&lt;robot>"), std::string::npos);
  EXPECT_NE(svg.find("a &amp; b"), std::string::npos);
  EXPECT_EQ(svg.find(">nan"), std::string::npos);
}

TEST(LossPlot, OfNothingIsStillAPicture) {
  EXPECT_EQ(loss_plot_svg({}, "empty").find(">nan"), std::string::npos);
}

TEST(ProgressText, ShowsHowFarAndHowLong) {
  EXPECT_EQ(progress_text("train", 45, 100, 125, "loss 2.3"),
            "train  [#########...........]  45 %  45/100  loss 2.3  2:05 left");
  EXPECT_EQ(progress_text("w", 3, 3, 0, ""), "w  [####################]  100 %  3/3  0:00 left");
}

}  // namespace
}  // namespace outrider
