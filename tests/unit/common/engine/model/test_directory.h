// A folder of a test's own, removed with its content at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace outrider {

class TestDirectory final {
 public:
  TestDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "outrider-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string path(std::string_view name) const { return path_ + "/" + std::string(name); }

  void write(std::string_view name, std::string_view content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }
  std::string read(std::string_view name) const {
    std::ifstream in(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // Changes the byte at this offset of the file.
  void flip_a_bit(std::string_view name, std::uint64_t at) const {
    std::string bytes = read(name);
    bytes.at(at) = static_cast<char>(bytes[at] ^ 8);
    write(name, bytes);
  }

 private:
  std::string path_;
};

}  // namespace outrider
