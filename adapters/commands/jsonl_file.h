// The JSONL file that a command writes as its --out.
//
// Thread rule: a value; one owner. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "common/base/status.h"

namespace outrider {

class JsonlFile final {
 public:
  explicit JsonlFile(const std::string& path) : path_(path), out_(path, std::ios::binary) {}

  // Bytes of a text that are no UTF-8 are replaced.
  void write(const nlohmann::ordered_json& line) {
    out_ << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) << '\n';
  }

  Status close() {
    out_.close();
    return out_ ? Status() : resource_exhausted("--out " + path_ + ": cannot be written");
  }

 private:
  std::string path_;
  std::ofstream out_;
};

}  // namespace outrider
