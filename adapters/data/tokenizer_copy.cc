// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/tokenizer_copy.h"

#include <filesystem>
#include <system_error>

namespace outrider {

Status copy_tokenizer(const std::string& from, const std::string& to) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::equivalent(from, to, error)) return {};
  bool found = false;
  for (const char* name : {"tokenizer.json", "tokenizer.model", "tokenizer_config.json"}) {
    const fs::path source = fs::path(from) / name;
    if (!fs::exists(source, error)) continue;
    found = found || std::string(name) != "tokenizer_config.json";
    fs::copy_file(source, fs::path(to) / name, fs::copy_options::overwrite_existing, error);
    if (error) return resource_exhausted((fs::path(to) / name).string() + ": " + error.message());
  }
  if (!found) {
    return not_found(from +
                     " holds no tokenizer.json. Remedy: make one with `outrider-train tokenizer`");
  }
  return {};
}

}  // namespace outrider
