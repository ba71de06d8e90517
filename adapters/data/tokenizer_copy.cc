// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/tokenizer_copy.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <system_error>

#include "common/base/output_file.h"
#include "common/engine/text/tokenizer_texts.h"

namespace outrider {
namespace {

namespace fs = std::filesystem;

constexpr OutputKind kTokenizerFile{.name = "a file of the same tokenizer",
                                    .is_earlier = [](std::string_view) { return false; }};

// Reads by itself: this file is no input.
bool holds(const fs::path& path, const std::string& text) {
  std::ifstream file(path, std::ios::binary);
  return file.is_open() && std::string(std::istreambuf_iterator<char>(file), {}) == text;
}

// Makes the folder of named templates, too.
Status check_output(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  return OutputFile::check(path, kTokenizerFile);
}

}  // namespace

Status copy_tokenizer(const std::string& from, const std::string& to) {
  std::error_code error;
  if (fs::equivalent(from, to, error)) return {};
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerTexts texts, read_tokenizer_texts(from));
  std::map<fs::path, std::optional<std::string>> files;  // nothing: none of this tokenizer's
  for (const auto& entry : fs::directory_iterator(fs::path(to) / kNamedTemplates, error)) {
    if (entry.path().extension() == ".jinja") files[entry.path()] = std::nullopt;
  }
  TokenizerTexts::visit_texts(texts, [&](const char* name, const std::optional<std::string>& text) {
    files[fs::path(to) / name] = text;
  });
  for (const auto& [path, text] : files) {
    const bool stays = text ? holds(path, *text) : !fs::exists(path);
    if (!stays) OUTRIDER_RETURN_IF_ERROR(check_output(path));
  }
  for (const auto& [path, text] : files) {
    if (!text && !fs::remove(path, error) && error) {  // a file of another tokenizer
      return resource_exhausted(path.string() + ": cannot be removed: " + error.message());
    }
    if (text && !holds(path, *text)) {
      OUTRIDER_RETURN_IF_ERROR(write_output(path, kTokenizerFile, *text));
    }
  }
  return {};
}

}  // namespace outrider
