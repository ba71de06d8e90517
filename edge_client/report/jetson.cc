// SPDX-License-Identifier: Apache-2.0
#include "edge_client/report/jetson.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

namespace outrider {
namespace {

constexpr std::string_view kTegrastats = "/run/outrider/tegrastats";

// At most 64 KiB: sysfs files are shorter, and nvpmodel's configuration is. Nothing: it cannot be
// read.
std::optional<std::string> text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(std::size_t{64} * 1024, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size())) && !file.eof())
    return std::nullopt;
  text.resize(static_cast<std::size_t>(file.gcount()));
  const std::size_t end = text.find_last_not_of(std::string_view(" \n\0", 3));
  text.resize(end == std::string::npos ? 0 : end + 1);
  if (text.empty()) return std::nullopt;
  return text;
}

template <typename T>
std::optional<T> number_in(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

// "NAME=15W" gives "15W" for "NAME=".
std::optional<std::string_view> after(std::string_view prefix, std::string_view word) {
  if (!word.starts_with(prefix)) return std::nullopt;
  return word.substr(prefix.size());
}

// Lines such as "< POWER_MODEL ID=1 NAME=25W >".
std::optional<std::string> mode_name(std::string_view configuration, int id) {
  const std::vector<std::string> words = words_of(configuration);
  for (std::size_t i = 0; i + 2 < words.size(); ++i) {
    if (words[i] != "POWER_MODEL") continue;
    const auto its_id = after("ID=", words[i + 1]);
    const auto name = after("NAME=", words[i + 2]);
    if (its_id && name && number_in<int>(*its_id) == id) return std::string(*name);
  }
  return std::nullopt;
}

// "5%@305" and "5%" give 0.05.
std::optional<double> percent_in(std::string_view word) {
  const std::size_t sign = word.find('%');
  if (sign == std::string_view::npos) return std::nullopt;
  const std::optional<int> percent = number_in<int>(word.substr(0, sign));
  if (!percent) return std::nullopt;
  return *percent / 100.0;
}

// "4503mW/4490mW" and, on the first Nano, "1532/1490": what a rail takes now and on average.
std::optional<double> watts_in(std::string_view word) {
  std::string_view now = word.substr(0, word.find('/'));
  if (now.size() == word.size()) return std::nullopt;
  if (now.ends_with("mW")) now.remove_suffix(2);
  const std::optional<int> milliwatts = number_in<int>(now);
  if (!milliwatts) return std::nullopt;
  return *milliwatts / 1e3;
}

class Reader final {
 public:
  explicit Reader(const std::string& root) : root_(root) {}

  std::optional<JetsonFigures> read() {
    if (!is_jetson()) return std::nullopt;
    read_mode();
    read_zones();
    read_cooling();
    read_sensors();
    read_load();
    fill_from_tegrastats();
    return std::move(figures_);
  }

  std::map<std::string, double> read_watts() {
    if (!is_jetson()) return {};
    read_sensors();
    if (figures_.watts.empty()) fill_from_tegrastats();
    return std::move(figures_.watts);
  }

 private:
  bool is_jetson() {
    const std::optional<std::string> board = text_of(root_ + "/proc/device-tree/model");
    if (!board || board->find("Jetson") == std::string::npos) return false;
    figures_.board = *board;
    return true;
  }

  static std::vector<std::string> entries(const std::string& folder, std::string_view prefix) {
    std::vector<std::string> found;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
      if (entry.path().filename().string().starts_with(prefix)) found.push_back(entry.path());
    }
    std::ranges::sort(found);
    return found;
  }

  // Nothing: the file is missing or holds no number, which is noted.
  std::optional<double> number(const std::string& path) {
    const std::optional<std::string> text = text_of(path);
    std::optional<double> value = text ? number_in<double>(*text) : std::nullopt;
    if (!value) figures_.unread.push_back(path.substr(root_.size()));
    return value;
  }

  void read_mode() {
    const std::string status = "/var/lib/nvpmodel/status", configuration = "/etc/nvpmodel.conf";
    std::optional<int> id;
    for (const std::string& word : words_of(text_of(root_ + status).value_or(""))) {
      if (const auto mode = after("pmode:", word)) id = number_in<int>(*mode);
    }
    if (!id) return figures_.unread.push_back(status);
    const auto name = mode_name(text_of(root_ + configuration).value_or(""), *id);
    if (!name) figures_.unread.push_back(configuration);
    figures_.power_mode = name.value_or(std::to_string(*id));
  }

  // A zone of a part without power cannot be read.
  void read_zones() {
    const auto zones = entries(root_ + "/sys/class/thermal", "thermal_zone");
    if (zones.empty()) figures_.unread.emplace_back("/sys/class/thermal");
    for (const std::string& zone : zones) {
      const std::optional<double> millidegrees = number(zone + "/temp");
      if (millidegrees)
        figures_.celsius[text_of(zone + "/type").value_or("unnamed")] = *millidegrees / 1e3;
    }
  }

  // Fans are cooling devices too, but take no speed away.
  void read_cooling() {
    for (const std::string& device : entries(root_ + "/sys/class/thermal", "cooling_device")) {
      const std::string type = text_of(device + "/type").value_or("");
      const bool slows = std::ranges::any_of(
          std::array<std::string_view, 4>{"throttle", "hot-surface", "cpufreq", "devfreq"},
          [&](std::string_view part) { return type.find(part) != std::string::npos; });
      if (slows && number(device + "/cur_state").value_or(0) > 0)
        figures_.throttled.push_back(type);
    }
  }

  void read_sensors() {
    for (const std::string& sensor : entries(root_ + "/sys/class/hwmon", "hwmon")) {
      const std::string name = text_of(sensor + "/name").value_or("");
      if (name == "ina3221") read_rails(sensor);
      if (name == "ina238") read_input(sensor);
      if (name == "soctherm_oc") read_over_current(sensor);
    }
  }

  // Three channels of millivolts and milliamperes; those that are labelled NC are not connected.
  void read_rails(const std::string& sensor) {
    for (const char channel : {'1', '2', '3'}) {
      const std::string rail = text_of(sensor + "/in" + channel + "_label").value_or("NC");
      if (rail == "NC") continue;
      const auto millivolts = number(sensor + "/in" + channel + "_input");
      const auto milliamperes = number(sensor + "/curr" + channel + "_input");
      if (millivolts && milliamperes) figures_.watts[rail] = *millivolts * *milliamperes / 1e6;
    }
  }

  // Thor measures its input by a sensor of one channel, in microwatts.
  void read_input(const std::string& sensor) {
    if (const auto microwatts = number(sensor + "/power1_input"))
      figures_.watts["VIN"] = *microwatts / 1e6;
  }

  void read_over_current(const std::string& sensor) {
    for (const std::string& file : entries(sensor, "oc")) {
      if (!file.ends_with("_event_cnt")) continue;
      if (const auto events = number(file)) {
        figures_.over_current_events =
            figures_.over_current_events.value_or(0) + static_cast<std::uint64_t>(*events);
      }
    }
  }

  // Per mille. Thor's GPU has no such file.
  void read_load() {
    for (const std::string& device : entries(root_ + "/sys/class/devfreq", "")) {
      if (!device.ends_with(".gpu") && !device.ends_with(".gv11b") && !device.ends_with(".ga10b"))
        continue;
      if (const auto load = number(device + "/device/load")) figures_.gpu_load = *load / 1e3;
    }
  }

  void fill_from_tegrastats() {
    const std::string path = root_ + std::string(kTegrastats);
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) return;  // a pipe would block
    std::ifstream file(path, std::ios::binary | std::ios::ate);
    const std::streamoff size = file.tellg(), most = 8192;  // longer than two lines
    file.seekg(std::max<std::streamoff>(0, size - most));
    std::string line, last;
    while (std::getline(file, line)) {
      if (!file.eof()) last = line;  // what has no end yet is still being written
    }
    JetsonFigures said = parse_tegrastats(last);
    if (said.celsius.empty() && said.watts.empty()) figures_.unread.emplace_back(kTegrastats);
    if (figures_.celsius.empty()) figures_.celsius = std::move(said.celsius);
    if (figures_.watts.empty()) figures_.watts = std::move(said.watts);
    if (!figures_.gpu_load) figures_.gpu_load = said.gpu_load;
  }

  const std::string& root_;
  JetsonFigures figures_;
};

template <typename Values>
std::string listed(const Values& values, const char* form) {
  std::string text;
  for (const auto& [name, value] : values) {
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name,
                        fmt::format(fmt::runtime(form), value));
  }
  return text.empty() ? "not known" : text;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

}  // namespace

std::optional<JetsonFigures> read_jetson(const std::string& root) {
  return Reader(root).read();
}

std::map<std::string, double> read_jetson_watts(const std::string& root) {
  return Reader(root).read_watts();
}

std::optional<double> board_watts(const std::map<std::string, double>& rails) {
  // Orin Nano, Orin NX and Xavier NX; the first Nano, also in tegrastats' spelling; TX2; Thor.
  for (const char* input : {"VDD_IN", "POM_5V_IN", "VIN"}) {
    if (const auto rail = rails.find(input); rail != rails.end()) return rail->second;
  }
  if (rails.empty()) return std::nullopt;
  double sum = 0;
  for (const auto& [rail, watts] : rails) {
    if (rail != "VDDQ_VDD2_1V8AO") sum += watts;  // AGX Orin: VIN_SYS_5V0 feeds it
  }
  return sum;
}

JetsonFigures parse_tegrastats(std::string_view line) {
  JetsonFigures figures;
  const std::vector<std::string> words = words_of(line);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::string_view next = i + 1 < words.size() ? std::string_view(words[i + 1]) : "";
    const std::size_t at = word.find('@');
    // The first Nano's PMIC always says 100 degrees.
    if (at != std::string::npos && at > 0 && word.back() == 'C' && !word.starts_with("PMIC")) {
      const auto celsius =
          number_in<double>(std::string_view(word).substr(at + 1, word.size() - at - 2));
      if (celsius) figures.celsius[word.substr(0, at)] = *celsius;
    }
    if (word == "GR3D_FREQ") figures.gpu_load = percent_in(next);
    if (!word.starts_with("V") && !word.starts_with("POM_")) continue;
    if (const auto watts = watts_in(next)) figures.watts[word] = *watts;
  }
  return figures;
}

std::string to_text(const JetsonFigures& figures) {
  std::string text = fmt::format(
      "device      {}, power mode {}, {}\n            temperatures {}; power {}; GPU load {}\n",
      figures.board, figures.power_mode.empty() ? "not known" : figures.power_mode,
      figures.throttled.empty() ? "not throttled" : "throttled by " + joined(figures.throttled),
      listed(figures.celsius, "{:.1f} °C"), listed(figures.watts, "{:.2f} W"),
      figures.gpu_load ? fmt::format("{:.0f} %", 100 * *figures.gpu_load) : "not known");
  if (figures.over_current_events.value_or(0) > 0) {
    text += fmt::format(
        "            too much current slowed the clocks {} times since the start: look at the "
        "power supply\n",
        *figures.over_current_events);
  }
  if (!figures.unread.empty()) text += "            not read: " + joined(figures.unread) + "\n";
  return text;
}

Json to_json(const JetsonFigures& figures) {
  return {{"board", figures.board},
          {"power_mode", figures.power_mode.empty() ? Json() : Json(figures.power_mode)},
          {"celsius", figures.celsius},
          {"watts", figures.watts},
          {"gpu_load", figures.gpu_load ? Json(*figures.gpu_load) : Json()},
          {"throttled", figures.throttled},
          {"over_current_events",
           figures.over_current_events ? Json(*figures.over_current_events) : Json()},
          {"unread", figures.unread}};
}

}  // namespace outrider
