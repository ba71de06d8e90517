// SPDX-License-Identifier: Apache-2.0
#include "common/serving/prices/device_power.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>

#include "tests/support/paths.h"

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr const char* kDevice = R"(name = "board"
computes = "gpu"
cores = 6
idle = "4.5 W"
core = "900 mW"
gpu = "5W"
dram = "40 pJ/B"
flash = "1 nJ/B"
radio-up = "2.5 uJ/B"
radio-down = "0 J/B"
radio-tail = "240 ms"
radio-tail-power = "0.12 W"
estimates = ["core", "flash"]
)";

Result<DevicePower> read_device(const std::string& toml) {
  const std::string path = testing::TempDir() + "device.toml";
  std::ofstream(path) << toml;
  return read_device_power(path);
}

std::string device_with(const std::string& line, const std::string& other) {
  return std::regex_replace(std::string(kDevice), std::regex(line + " = .*\n"), other);
}

TEST(DevicePowerTest, AFileIsReadInItsUnits) {
  const auto device = read_device(kDevice);
  ASSERT_TRUE(device.ok()) << device.status().to_string();
  EXPECT_EQ(device->cores, 6);
  EXPECT_DOUBLE_EQ(device->core_w, 0.9);
  EXPECT_DOUBLE_EQ(device->gpu_w, 5);
  EXPECT_DOUBLE_EQ(device->dram_j_per_byte, 40e-12);
  EXPECT_DOUBLE_EQ(device->up_j_per_byte, 2.5e-6);
  EXPECT_DOUBLE_EQ(device->tail_s, 0.24);
  EXPECT_EQ(device->estimates, (std::vector<std::string>{"core", "flash"}));
}

TEST(DevicePowerTest, ModelsComputeOnAGpuOrOnAsManyCoresAsThereAre) {
  EXPECT_DOUBLE_EQ(read_device(kDevice)->computing_w(4), 5);
  const auto cores = read_device(device_with("computes", "computes = \"cores\"\n"));
  ASSERT_TRUE(cores.ok());
  EXPECT_DOUBLE_EQ(cores->computing_w(4), 3.6);
  EXPECT_DOUBLE_EQ(cores->computing_w(40), 5.4);
}

TEST(DevicePowerTest, WhatIsMissingOrWrongIsToldByName) {
  const std::pair<std::string, const char*> cases[] = {
      {device_with("idle", ""), "lacks 'idle'. Remedy: give its figure"},
      {device_with("radio-tail", ""), "lacks 'radio-tail'"},
      {device_with("name", ""), "lacks 'name'"},
      {device_with("idle", "idle = \"-1 W\"\n"),
       "line 4: 'idle' must be text with a number from 0 up"},
      {device_with("idle", "idle = 4.5\n"), "'idle' must be text"},
      {device_with("idle", "idle = \"nan W\"\n"), "from 0 up"},
      {device_with("idle", "idle = \"4 hp\"\n"), "'idle' has the unit 'hp'. Remedy: one of W, mW"},
      {device_with("idle", "idle = \"4\"\n"), "'idle' has the unit ''"},
      {device_with("dram", "dram = \"4 W\"\n"), "one of nJ/B, pJ/B, uJ/B, J/B"},
      {device_with("cores", "cores = 0\n"), "'cores' must be a whole number"},
      {device_with("computes", "computes = \"npu\"\n"), "\"gpu\" or \"cores\""},
      {device_with("estimates", "estimates = [\"cors\"]\n"), "did you mean 'core'?"},
      {device_with("estimates", "estimates = \"core\"\n"), "must be a list"},
      {device_with("gpu", "gpu = \"5 W\"\ngpuu = \"5 W\"\n"), "did you mean 'gpu'?"},
      {"name = ", "line 1"}};
  for (const auto& [toml, why] : cases) {
    const auto device = read_device(toml);
    EXPECT_EQ(device.status().code(), StatusCode::kInvalidArgument) << toml;
    EXPECT_THAT(device.status().message(), HasSubstr(why)) << toml;
  }
  EXPECT_EQ(read_device_power("/nowhere.toml").status().code(), StatusCode::kNotFound);
}

// Each number of a shipped file is an estimate by its list, or its line names a source.
TEST(DevicePowerTest, ShippedFilesAreReadAndNameTheirSources) {
  std::size_t files = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(source_dir() + "/bench/cost/devices")) {
    const auto device = read_device_power(entry.path());
    ASSERT_TRUE(device.ok()) << device.status().to_string();
    ++files;
    std::ifstream lines(entry.path());
    std::string line;
    while (std::getline(lines, line)) {
      if (line.find(" = \"") == std::string::npos || !std::isdigit(line[line.find('"') + 1]))
        continue;
      const std::string key = line.substr(0, line.find(' '));
      const bool estimated = std::ranges::find(device->estimates, key) != device->estimates.end();
      EXPECT_EQ(line.find("# estimate") != std::string::npos, estimated) << line;
      EXPECT_NE(line.find("# "), std::string::npos) << entry.path() << ": " << line;
    }
  }
  EXPECT_GE(files, 4U);
}

}  // namespace
}  // namespace outrider
