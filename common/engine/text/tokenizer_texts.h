// The contents of a tokenizer's files, from a directory, a GGUF file, or a pack that has them
// beside the weights.
//
// Thread rule: values; free functions. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>

#include "common/base/status.h"

namespace outrider {

struct TokenizerTexts {
  std::string what;                                // the location, for errors
  std::optional<std::string> json;                 // tokenizer.json
  std::optional<std::string> sentencepiece;        // tokenizer.model
  std::optional<std::string> gguf;                 // a GGUF file's keys (write_gguf())
  std::optional<std::string> config;               // tokenizer_config.json
  std::optional<std::string> chat_template;        // chat_template.jinja
  std::optional<std::string> processors_template;  // chat_template.json
  // Named templates: the file additional_chat_templates/NAME.jinja, by this path.
  std::map<std::string, std::optional<std::string>> named_templates;

  // Visits each text with the name of its file.
  template <typename Self, typename Visitor>
  static void visit_texts(Self& self, Visitor&& text) {
    text("tokenizer.json", self.json);
    text("tokenizer.model", self.sentencepiece);
    text("tokenizer.gguf", self.gguf);
    text("tokenizer_config.json", self.config);
    text("chat_template.jinja", self.chat_template);
    text("chat_template.json", self.processors_template);
    for (auto& [path, named] : self.named_templates) text(path.c_str(), named);
  }
};

// The folder of the named templates.
inline constexpr char kNamedTemplates[] = "additional_chat_templates";

// Reads a GGUF file, or of a directory: tokenizer.json, or else tokenizer.model, or else
// tokenizer.gguf or the model's GGUF file; and the files beside it. Errors: NOT_FOUND if there is
// none.
Result<TokenizerTexts> read_tokenizer_texts(const std::string& path);

}  // namespace outrider
