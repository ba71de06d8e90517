// SPDX-License-Identifier: Apache-2.0
#include "bench/prompts/prompt_file.h"

#include <optional>
#include <utility>

#include "common/base/jsonl.h"

namespace outrider {
namespace {

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

Result<PromptLine> parse_line(const Json& line, const std::string& name) {
  const std::optional<std::string> prompt = prompt_of(line);
  if (!prompt) {
    return invalid_argument(name +
                            ": expected an object with \"prompt\", \"question\" or "
                            "\"instruction\", a string, or \"turns\", a list of them");
  }
  const auto answer = line.find("answer");
  if (answer == line.end()) return PromptLine{name, *prompt, ""};
  if (!answer->is_string()) return invalid_argument(name + ": \"answer\" is not a string");
  return PromptLine{name, *prompt, answer->get<std::string>()};
}

}  // namespace

Result<std::vector<PromptLine>> read_prompt_file(const std::string& path, std::size_t limit) {
  std::vector<PromptLine> prompts;
  const auto add = [&](const Json& line, const std::string& name) -> Status {
    if (limit > 0 && prompts.size() == limit) return {};
    OUTRIDER_ASSIGN_OR_RETURN(PromptLine prompt, parse_line(line, name));
    prompts.push_back(std::move(prompt));
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_line(path, add));
  if (prompts.empty()) return invalid_argument(path + ": holds no prompt");
  OUTRIDER_RETURN_IF_ERROR(check_prompt_count(path, prompts.size(), limit));
  return prompts;
}

Status check_prompt_count(const std::string& path, std::size_t held, std::size_t wanted) {
  if (held >= wanted) return {};
  return invalid_argument(path + ": holds " + std::to_string(held) + " of the " +
                          std::to_string(wanted) + " prompts asked for. Remedy: --num-prompts " +
                          std::to_string(held) + ", or a file with more");
}

}  // namespace outrider
