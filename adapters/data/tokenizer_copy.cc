// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/tokenizer_copy.h"

#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>

#include "common/text/tokenizer_texts.h"

namespace outrider {

Status copy_tokenizer(const std::string& from, const std::string& to) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::equivalent(from, to, error)) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerTexts texts, read_tokenizer_texts(from));
  fs::remove_all(fs::path(to) / kNamedTemplates, error);  // of another tokenizer
  Status written;
  TokenizerTexts::visit_texts(texts, [&](const char* name, const std::optional<std::string>& text) {
    const fs::path path = fs::path(to) / name;
    if (!text) {
      fs::remove(path, error);  // a file of another tokenizer
    } else if (written.ok()) {
      fs::create_directories(path.parent_path(), error);
      std::ofstream file(path, std::ios::binary);
      file << *text;
      file.close();
      if (!file) written = resource_exhausted(path.string() + ": cannot be written");
    }
  });
  return written;
}

}  // namespace outrider
