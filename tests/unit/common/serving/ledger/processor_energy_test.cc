// SPDX-License-Identifier: Apache-2.0
#include "common/serving/ledger/processor_energy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

// Writes the counters of a machine as the kernel shows them.
class EnergyTest : public testing::Test {
 protected:
  void set(const std::string& domain, const std::string& file, const std::string& value) {
    const std::string folder = root_.path() + "/sys/class/powercap/" + domain;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/" + file) << value << "\n";
  }
  void add(const std::string& domain, const std::string& name, const std::string& microjoules) {
    set(domain, "name", name);
    set(domain, "max_energy_range_uj", "262143328850");
    set(domain, "energy_uj", microjoules);
  }

  const TestDirectory root_;
};

TEST_F(EnergyTest, TheCountersOfAllPackagesAreAddedAndOfNothingElse) {
  add("intel-rapl:0", "package-0", "1000000");
  add("intel-rapl:1", "package-1", "5000000");
  add("intel-rapl:0:0", "dram", "7");
  add("intel-rapl:2", "psys", "7");
  std::optional<ProcessorEnergy> energy = ProcessorEnergy::open(root_.path());
  ASSERT_TRUE(energy);
  EXPECT_EQ(energy->joules(), 0.0);
  set("intel-rapl:0", "energy_uj", "3500000");
  set("intel-rapl:1", "energy_uj", "5250000");
  set("intel-rapl:0:0", "energy_uj", "9000000");
  EXPECT_EQ(energy->joules(), 2.75);
  EXPECT_EQ(energy->joules(), 2.75);
}

TEST_F(EnergyTest, ACounterThatBeginsAnewGoesOn) {
  add("intel-rapl:0", "package-0", "262143000000");
  std::optional<ProcessorEnergy> energy = ProcessorEnergy::open(root_.path());
  ASSERT_TRUE(energy);
  set("intel-rapl:0", "energy_uj", "671150");
  EXPECT_EQ(energy->joules(), 1.0);
}

TEST_F(EnergyTest, WhereNothingTellsThereIsNone) {
  EXPECT_FALSE(ProcessorEnergy::open(root_.path()));
  add("intel-rapl:2", "psys", "7");
  EXPECT_FALSE(ProcessorEnergy::open(root_.path()));
  add("intel-rapl:0", "package-0", "1");
  std::optional<ProcessorEnergy> energy = ProcessorEnergy::open(root_.path());
  ASSERT_TRUE(energy);
  set("intel-rapl:0", "energy_uj", "");
  EXPECT_EQ(energy->joules(), std::nullopt);
}

}  // namespace
}  // namespace outrider
