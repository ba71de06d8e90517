// SPDX-License-Identifier: Apache-2.0
#include "bench/prompt_file.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "common/base/files.h"
#include "common/base/json.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxFileBytes = std::int64_t{64} << 20;

std::optional<std::string> prompt_of(const Json& line) {
  if (!line.is_object()) return std::nullopt;
  for (const char* key : {"prompt", "question", "instruction"}) {
    const auto found = line.find(key);
    if (found != line.end() && found->is_string()) return found->get<std::string>();
  }
  const auto turns = line.find("turns");
  if (turns == line.end() || !turns->is_array() || turns->empty()) return std::nullopt;
  if (!turns->front().is_string()) return std::nullopt;
  return turns->front().get<std::string>();
}

Result<PromptLine> parse_line(std::string_view line, const std::string& name) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json json, parse_json(line, name));
  const std::optional<std::string> prompt = prompt_of(json);
  if (!prompt) {
    return invalid_argument(name +
                            ": expected an object with \"prompt\", \"question\" or "
                            "\"instruction\", a string, or \"turns\", a list of them");
  }
  const auto answer = json.find("answer");
  if (answer == json.end()) return PromptLine{name, *prompt, ""};
  if (!answer->is_string()) return invalid_argument(name + ": \"answer\" is not a string");
  return PromptLine{name, *prompt, answer->get<std::string>()};
}

}  // namespace

Result<std::vector<PromptLine>> read_prompt_file(const std::string& path, std::size_t limit) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  std::vector<PromptLine> prompts;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    OUTRIDER_ASSIGN_OR_RETURN(PromptLine prompt,
                              parse_line(line, path + ":" + std::to_string(number)));
    prompts.push_back(std::move(prompt));
    if (limit > 0 && prompts.size() == limit) break;
  }
  if (prompts.empty()) return invalid_argument(path + ": holds no prompt");
  return prompts;
}

}  // namespace outrider
