// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/tokenizer_texts.h"

#include <filesystem>
#include <system_error>

#include "common/base/files.h"
#include "common/engine/gguf/find_gguf.h"
#include "common/engine/gguf/gguf_file.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxTokenizerBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMaxConfigBytes = std::int64_t{16} << 20;

Result<std::optional<std::string>> read_if_there(const std::string& directory, const char* name,
                                                 std::int64_t max_bytes) {
  const std::filesystem::path path = std::filesystem::path(directory) / name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return std::optional<std::string>();
  OUTRIDER_ASSIGN_OR_RETURN(std::string content, read_file(path.string(), max_bytes));
  return std::optional(std::move(content));
}

// The files NAME.jinja of the folder of named templates, by their paths.
Status read_named_templates(const std::string& directory, TokenizerTexts& texts) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(directory) / kNamedTemplates;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::filesystem::path& path = entry.path();
    if (path.extension() != ".jinja" || path.stem().empty()) continue;
    OUTRIDER_ASSIGN_OR_RETURN(std::string content, read_file(path.string(), kMaxConfigBytes));
    texts.named_templates[std::string(kNamedTemplates) + "/" + path.filename().string()] =
        std::move(content);
  }
  return {};
}

// A GGUF file of the tokenizer alone may accompany weights in another format.
Result<std::optional<std::string>> find_tokenizer_gguf(const std::string& path) {
  const std::string alone = (std::filesystem::path(path) / "tokenizer.gguf").string();
  std::error_code error;
  if (std::filesystem::exists(alone, error)) return std::optional(alone);
  return find_gguf(path);
}

}  // namespace

Result<TokenizerTexts> read_tokenizer_texts(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return not_found(path + ": " + (error ? error.message() : "no such file or directory"));
  }
  TokenizerTexts texts;
  texts.what = path;
  const auto read = [&](const char* name, std::int64_t max_bytes) {
    return read_if_there(path, name, max_bytes);
  };
  OUTRIDER_ASSIGN_OR_RETURN(texts.json, read("tokenizer.json", kMaxTokenizerBytes));
  if (!texts.json) {
    OUTRIDER_ASSIGN_OR_RETURN(texts.sentencepiece, read("tokenizer.model", kMaxTokenizerBytes));
  }
  if (!texts.json && !texts.sentencepiece) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<std::string> gguf, find_tokenizer_gguf(path));
    if (!gguf) {
      return not_found(path + ": there is no tokenizer.json, tokenizer.model or GGUF file" +
                       remedy_without_model(path));
    }
    OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(*gguf));
    texts.gguf = write_gguf(file.metadata());
  }
  OUTRIDER_ASSIGN_OR_RETURN(texts.config, read("tokenizer_config.json", kMaxConfigBytes));
  OUTRIDER_ASSIGN_OR_RETURN(texts.chat_template, read("chat_template.jinja", kMaxConfigBytes));
  OUTRIDER_ASSIGN_OR_RETURN(texts.processors_template, read("chat_template.json", kMaxConfigBytes));
  OUTRIDER_RETURN_IF_ERROR(read_named_templates(path, texts));
  return texts;
}

}  // namespace outrider
