// The trees of files are written from NVIDIA's and the kernel's documentation (Jetson Linux 35 to
// 38), not recorded on boards: none was at hand. SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/jetson.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::Optional;
using testing::Pair;

class JetsonTest : public testing::Test {
 protected:
  void set(const std::string& file, std::string_view content) {
    const std::filesystem::path path = root_.path() + "/" + file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
  }
  void set_board(const std::string& model, const std::string& mode, std::string_view modes) {
    set("proc/device-tree/model", model + '\0');
    set("var/lib/nvpmodel/status", "pmode:" + mode + "\n");
    set("etc/nvpmodel.conf", modes);
  }
  void add_zone(int number, const std::string& type, const std::string& temp) {
    const std::string zone = "sys/class/thermal/thermal_zone" + std::to_string(number);
    set(zone + "/type", type + "\n");
    set(zone + "/temp", temp);
  }
  void add_cooling(int number, const std::string& type, const std::string& state) {
    const std::string device = "sys/class/thermal/cooling_device" + std::to_string(number);
    set(device + "/type", type + "\n");
    set(device + "/cur_state", state + "\n");
  }
  void add_rail(int sensor, int channel, const std::string& label, const std::string& millivolts,
                const std::string& milliamperes) {
    const std::string folder = "sys/class/hwmon/hwmon" + std::to_string(sensor),
                      number = std::to_string(channel);
    set(folder + "/name", "ina3221\n");
    set(folder + "/in" + number + "_label", label + "\n");
    set(folder + "/in" + number + "_input", millivolts + "\n");
    set(folder + "/curr" + number + "_input", milliamperes + "\n");
  }

  void make_orin_nano() {
    set_board("NVIDIA Jetson Orin Nano Developer Kit", "0001",
              "# power models\n< POWER_MODEL ID=0 NAME=15W >\nCPU_ONLINE CORE_0 1\n\n"
              "< POWER_MODEL ID=1 NAME=25W >\nCPU_ONLINE CORE_0 1\n< PM_CONFIG DEFAULT=1 >\n");
    add_zone(0, "cpu-thermal", "49312\n");
    add_zone(1, "gpu-thermal", "48000\n");
    add_zone(2, "cv0-thermal", "");  // without power the kernel refuses to read it
    add_zone(8, "tj-thermal", "49312\n");
    add_cooling(0, "pwm-fan", "2");
    add_cooling(1, "cpufreq-cpu0", "0");
    add_cooling(2, "gpu-throttle-alert", "0");
    add_rail(1, 1, "VDD_IN", "5080", "984");
    add_rail(1, 2, "VDD_CPU_GPU_CV", "5072", "200");
    add_rail(1, 3, "VDD_SOC", "5072", "288");
    set("sys/class/devfreq/17000000.gpu/device/load", "384\n");
    set("sys/class/hwmon/hwmon2/name", "soctherm_oc\n");
    set("sys/class/hwmon/hwmon2/oc1_event_cnt", "0\n");
  }

  JetsonFigures figures() { return read_jetson(root_.path()).value(); }

  const TestDirectory root_;
};

TEST_F(JetsonTest, AnotherMachineIsNone) {
  EXPECT_FALSE(read_jetson(root_.path()));
  set("proc/device-tree/model", "Raspberry Pi 5 Model B Rev 1.0");
  EXPECT_FALSE(read_jetson(root_.path()));
}

TEST_F(JetsonTest, AnOrinNanoSaysAll) {
  make_orin_nano();
  const JetsonFigures said = figures();
  EXPECT_EQ(said.board, "NVIDIA Jetson Orin Nano Developer Kit");
  EXPECT_EQ(said.power_mode, "25W");
  EXPECT_THAT(said.celsius,
              ElementsAre(Pair("cpu-thermal", DoubleEq(49.312)), Pair("gpu-thermal", 48),
                          Pair("tj-thermal", DoubleEq(49.312))));
  EXPECT_THAT(said.watts,
              ElementsAre(Pair("VDD_CPU_GPU_CV", DoubleEq(1.0144)),
                          Pair("VDD_IN", DoubleEq(4.99872)), Pair("VDD_SOC", DoubleEq(1.460736))));
  EXPECT_THAT(said.gpu_load, Optional(DoubleEq(0.384)));
  EXPECT_THAT(said.throttled, IsEmpty());
  EXPECT_THAT(said.over_current_events, Optional(0));
  EXPECT_THAT(said.unread, ElementsAre("/sys/class/thermal/thermal_zone2/temp"));
}

TEST_F(JetsonTest, AThrottledAgxOrinSaysByWhat) {
  set_board("NVIDIA Jetson AGX Orin Developer Kit", "0000", "< POWER_MODEL ID=0 NAME=MAXN >\n");
  add_zone(0, "cpu-thermal", "99250\n");
  add_cooling(0, "pwm-fan", "3");
  add_cooling(1, "cpu-throttle-alert", "1");
  add_cooling(2, "devfreq-17000000.gpu", "4");
  add_cooling(3, "hot-surface-alert", "0");
  add_rail(3, 1, "VDD_GPU_SOC", "19888", "400");
  add_rail(4, 1, "NC", "0", "0");
  add_rail(4, 2, "VDDQ_VDD2_1V8AO", "4968", "120");
  set("sys/class/hwmon/hwmon5/name", "soctherm_oc\n");
  set("sys/class/hwmon/hwmon5/oc1_event_cnt", "3\n");
  set("sys/class/hwmon/hwmon5/oc3_event_cnt", "4\n");
  const JetsonFigures said = figures();
  EXPECT_EQ(said.power_mode, "MAXN");
  EXPECT_THAT(said.throttled, ElementsAre("cpu-throttle-alert", "devfreq-17000000.gpu"));
  EXPECT_THAT(said.watts, ElementsAre(Pair("VDDQ_VDD2_1V8AO", DoubleEq(0.59616)),
                                      Pair("VDD_GPU_SOC", DoubleEq(7.9552))));
  EXPECT_THAT(said.over_current_events, Optional(7));
  EXPECT_THAT(to_text(said),
              HasSubstr("power mode MAXN, throttled by cpu-throttle-alert, devfreq-17000000.gpu"));
  EXPECT_THAT(to_text(said), HasSubstr("slowed the clocks 7 times"));
}

TEST_F(JetsonTest, AThorSaysItsInputAndTegrastatsTheLoad) {
  set_board("NVIDIA Jetson AGX Thor Developer Kit", "0001",
            "< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=1 NAME=120W >\n");
  add_zone(0, "tj-thermal", "41000\n");
  set("sys/class/hwmon/hwmon1/name", "ina238\n");
  set("sys/class/hwmon/hwmon1/power1_input", "24580000\n");
  set("run/outrider/tegrastats",
      "08-25-2025 10:00:00 RAM 3000/125771MB CPU [0%@972] GR3D_FREQ 10%@[1000,1000] tj@40C VDD_GPU "
      "0mW/0mW\n"
      "08-25-2025 10:00:01 RAM 3000/125771MB CPU [0%@972] GR3D_FREQ 71%@[1000,1000] tj@40C VDD_GPU "
      "0mW/0mW\n"
      "08-25-2025 10:00:02 RAM 3000/1257");
  const JetsonFigures said = figures();
  EXPECT_EQ(said.power_mode, "120W");
  EXPECT_THAT(said.watts, ElementsAre(Pair("VIN", DoubleEq(24.58))));
  EXPECT_THAT(said.celsius, ElementsAre(Pair("tj-thermal", 41)));
  EXPECT_THAT(said.gpu_load, Optional(DoubleEq(0.71)));
  EXPECT_THAT(said.unread, IsEmpty());
}

TEST_F(JetsonTest, FilesThatAreMissingOrHoldWordsCostTheirFigureAndAreNamedInOneLine) {
  set("proc/device-tree/model", "NVIDIA Jetson Orin Nano Developer Kit");
  set("var/lib/nvpmodel/status", "pmode:low\n");
  add_zone(0, "cpu-thermal", "warm\n");
  add_zone(1, "gpu-thermal", "48000 or so\n");
  add_cooling(0, "cpu-throttle-alert", "on");
  add_rail(1, 1, "VDD_IN", "much", "984");
  set("sys/class/devfreq/17000000.gpu/device/load", "half\n");
  set("run/outrider/tegrastats", "no such command\n");
  const JetsonFigures said = figures();
  EXPECT_EQ(said.power_mode, "");
  EXPECT_THAT(said.celsius, IsEmpty());
  EXPECT_THAT(said.watts, IsEmpty());
  EXPECT_EQ(said.gpu_load, std::nullopt);
  EXPECT_THAT(said.throttled, IsEmpty());
  EXPECT_THAT(
      to_text(said),
      HasSubstr(
          "power mode not known, not throttled\n            temperatures not known; power not "
          "known; GPU load not known\n"
          "            not read: /var/lib/nvpmodel/status, /sys/class/thermal/thermal_zone0/temp, "
          "/sys/class/thermal/thermal_zone1/temp, /sys/class/thermal/cooling_device0/cur_state, "
          "/sys/class/hwmon/hwmon1/in1_input, /sys/class/devfreq/17000000.gpu/device/load, "
          "/run/outrider/tegrastats\n"));
  EXPECT_TRUE(to_json(said).at("power_mode").is_null());
}

TEST_F(JetsonTest, AModeWithoutANameIsItsNumber) {
  make_orin_nano();
  set("etc/nvpmodel.conf", "");
  EXPECT_EQ(figures().power_mode, "1");
  EXPECT_THAT(figures().unread, testing::Contains("/etc/nvpmodel.conf"));
}

TEST(Tegrastats, TheFirstNanosFormIsUnderstood) {
  const JetsonFigures said = parse_tegrastats(
      "RAM 1904/3956MB (lfb 150x4MB) SWAP 0/1978MB (cached 0MB) IRAM 0/252kB(lfb 252kB) CPU "
      "[12%@1479,off,off,5%@1479] "
      "EMC_FREQ 0% GR3D_FREQ 99% PLL@36C CPU@39.5C PMIC@100C GPU@37C AO@45.5C thermal@38C "
      "POM_5V_IN 1532/1490 "
      "POM_5V_GPU 40/40");
  EXPECT_THAT(said.celsius, ElementsAre(Pair("AO", 45.5), Pair("CPU", 39.5), Pair("GPU", 37),
                                        Pair("PLL", 36), Pair("thermal", 38)));
  EXPECT_THAT(said.watts,
              ElementsAre(Pair("POM_5V_GPU", DoubleEq(0.04)), Pair("POM_5V_IN", DoubleEq(1.532))));
  EXPECT_THAT(said.gpu_load, Optional(DoubleEq(0.99)));
}

TEST(Tegrastats, WhatIsNotANumberIsLeftOut) {
  const JetsonFigures said =
      parse_tegrastats("GR3D_FREQ @[0,0] tj@hotC VDD_IN lots/mW VDD_SOC 5mW CPU@ @C V");
  EXPECT_THAT(said.celsius, IsEmpty());
  EXPECT_THAT(said.watts, IsEmpty());
  EXPECT_EQ(said.gpu_load, std::nullopt);
}

}  // namespace
}  // namespace outrider
