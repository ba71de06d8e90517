// The trees of files are written from the kernel's and NVIDIA's documentation, not recorded on
// devices: none was at hand. SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/device_energy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "edge_client/report/battery.h"
#include "edge_client/report/jetson.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::DoubleEq;
using testing::HasSubstr;
using testing::Optional;

class DeviceEnergyTest : public testing::Test {
 protected:
  void set(const std::string& file, const std::string& content) {
    const std::filesystem::path path = root_.path() + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  void set_battery(const std::string& name, const std::string& file, const std::string& content) {
    set("sys/class/power_supply/" + name + "/" + file, content + "\n");
  }
  // A laptop's: microwatts.
  void add_battery(const std::string& name, const std::string& microwatts) {
    set_battery(name, "type", "Battery");
    set_battery(name, "status", "Discharging");
    set_battery(name, "power_now", microwatts);
  }
  void set_rail(int channel, const std::string& label, const std::string& milliamperes) {
    const std::string folder = "sys/class/hwmon/hwmon1/", number = std::to_string(channel);
    set("proc/device-tree/model", "NVIDIA Jetson Orin Nano Developer Kit");
    set(folder + "name", "ina3221\n");
    set(folder + "in" + number + "_label", label + "\n");
    set(folder + "in" + number + "_input", "5000\n");
    set(folder + "curr" + number + "_input", milliamperes + "\n");
  }
  void set_counter(const std::string& microjoules) {
    const std::string folder = "sys/class/powercap/intel-rapl:0/";
    set(folder + "name", "package-0");
    set(folder + "max_energy_range_uj", "262143328850");
    set(folder + "energy_uj", microjoules);
  }
  std::optional<DeviceEnergy> open() { return DeviceEnergy::open(clock_, root_.path()); }
  void pass(int ms) { clock_.advance(from_ms(ms)); }
  std::optional<BatteryPower> battery() { return read_battery(root_.path()); }

  const TestDirectory root_;
  ManualClock clock_;
};

TEST_F(DeviceEnergyTest, AMachineThatTellsNothingHasNone) {
  EXPECT_FALSE(open());
  EXPECT_THAT(why_no_energy(root_.path()), HasSubstr("there is no battery"));
}

TEST_F(DeviceEnergyTest, CountersComeBeforePowers) {
  set_rail(1, "VDD_IN", "1000");
  add_battery("BAT0", "5000000");
  set_counter("1000000");
  auto energy = open();
  ASSERT_TRUE(energy);
  EXPECT_EQ(energy->source(), EnergySource::kProcessors);
  set_counter("3500000");
  EXPECT_EQ(energy->joules(), 2.5);
}

TEST_F(DeviceEnergyTest, ABoardsPowerIsCountedOverTime) {
  set_rail(1, "VDD_IN", "1000");
  set_rail(2, "VDD_SOC", "400");  // part of it
  auto energy = open();
  ASSERT_TRUE(energy);
  EXPECT_EQ(energy->source(), EnergySource::kBoard);
  pass(2000);
  set_rail(1, "VDD_IN", "2000");
  EXPECT_THAT(energy->joules(), Optional(DoubleEq((5.0 + 10.0) / 2 * 2)));
}

// A peak between two calls of joules() is seen by samples, which are not taken more often than the
// sensor has new values.
TEST_F(DeviceEnergyTest, SamplesMakeItFiner) {
  set_rail(1, "VDD_IN", "1000");
  auto energy = open();
  pass(50);
  set_rail(1, "VDD_IN", "9000");
  energy->sample();  // too early: not read
  set_rail(1, "VDD_IN", "1000");
  pass(50);
  energy->sample();
  pass(100);
  set_rail(1, "VDD_IN", "3000");
  energy->sample();
  pass(100);
  set_rail(1, "VDD_IN", "1000");
  EXPECT_THAT(energy->joules(), Optional(DoubleEq(0.5 + 1.0 + 1.0)));
}

TEST_F(DeviceEnergyTest, TegrastatsTellsABoardWithoutSensors) {
  set("proc/device-tree/model", "NVIDIA Jetson Nano Developer Kit");
  set("run/outrider/tegrastats",
      "RAM 1/2MB GR3D_FREQ 3% PLL@26C POM_5V_IN 4000/4000 POM_5V_GPU "
      "80/80 POM_5V_CPU 500/500\n");
  auto energy = open();
  ASSERT_TRUE(energy);
  EXPECT_EQ(energy->source(), EnergySource::kBoard);
  pass(1000);
  EXPECT_THAT(energy->joules(), Optional(DoubleEq(4)));
}

TEST_F(DeviceEnergyTest, RailsOfABoardWithoutAnInputRailAreAdded) {
  EXPECT_EQ(board_watts({}), std::nullopt);
  EXPECT_THAT(board_watts({{"VDD_IN", 5.0}, {"VDD_SOC", 2.0}}), Optional(5.0));
  // AGX Orin: one of its rails feeds another.
  EXPECT_THAT(board_watts({{"VDD_GPU_SOC", 8.0},
                           {"VDD_CPU_CV", 2.0},
                           {"VIN_SYS_5V0", 4.0},
                           {"VDDQ_VDD2_1V8AO", 0.6}}),
              Optional(14.0));
}

TEST_F(DeviceEnergyTest, BatteriesTellMicrowattsOrTheirCurrentAndVoltage) {
  add_battery("BAT0", "5000000");
  EXPECT_THAT(battery()->watts, Optional(DoubleEq(5)));
  set_battery("battery", "type", "Battery");  // a phone's: negative while it discharges
  set_battery("battery", "status", "Discharging");
  set_battery("battery", "current_now", "-500000");
  set_battery("battery", "voltage_now", "4000000");
  EXPECT_THAT(battery()->watts, Optional(DoubleEq(7))) << "both together";
  set_battery("mouse", "type", "Battery");
  set_battery("mouse", "scope", "Device");
  set_battery("AC", "type", "Mains");
  EXPECT_THAT(battery()->watts, Optional(DoubleEq(7))) << "neither feeds this device";
}

TEST_F(DeviceEnergyTest, ABatteryThatReportsNothingSaysWhy) {
  set_battery("BAT1", "type", "Battery");
  EXPECT_EQ(battery()->watts, std::nullopt);
  EXPECT_THAT(battery()->why_not, HasSubstr("BAT1 has no status"));
  set_battery("BAT1", "status", "Charging");
  set_battery("BAT1", "power_now", "9000000");
  EXPECT_THAT(battery()->why_not, HasSubstr("BAT1 is Charging"));
  set_battery("BAT1", "status", "Discharging");
  for (const char* nothing : {"", "0", "unknown", "nan"}) {
    set_battery("BAT1", "power_now", nothing);
    EXPECT_EQ(battery()->watts, std::nullopt) << nothing;
    EXPECT_THAT(battery()->why_not, HasSubstr("BAT1 reports neither power_now nor current_now"));
  }
  EXPECT_THAT(why_no_energy(root_.path()), HasSubstr("BAT1 reports neither"));
}

TEST_F(DeviceEnergyTest, AnAnswerDuringWhichTheMainsWereThereHasNoEnergyAndTheNextHas) {
  add_battery("BAT0", "4000000");
  auto energy = open();
  pass(1000);
  EXPECT_THAT(energy->joules(), Optional(DoubleEq(4)));
  set_battery("BAT0", "status", "Charging");
  pass(500);
  energy->sample();
  set_battery("BAT0", "status", "Discharging");
  pass(500);
  EXPECT_EQ(energy->joules(), std::nullopt);
  const std::optional<double> before = energy->joules();
  pass(1000);
  ASSERT_TRUE(before);
  EXPECT_THAT(energy->joules(), Optional(DoubleEq(*before + 4)));
}

}  // namespace
}  // namespace outrider
