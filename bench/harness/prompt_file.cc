// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/prompt_file.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
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

Result<std::vector<PromptLine>> read_file_of_prompts(const std::string& path) {
  std::vector<PromptLine> prompts;
  const auto add = [&](const Json& line, const std::string& name) -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(PromptLine prompt, parse_line(line, name));
    prompts.push_back(std::move(prompt));
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_line(path, add));
  return prompts;
}

Result<std::vector<std::string>> jsonl_files_in(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    if (at->path().extension() == ".jsonl") paths.push_back(at->path());
  }
  if (error) return invalid_argument(folder + ": " + error.message());
  std::ranges::sort(paths);
  return paths;
}

// Takes one prompt of each file in turn, as long as the file has more.
Result<std::vector<PromptLine>> read_folder_of_prompts(const std::string& folder) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string> paths, jsonl_files_in(folder));
  std::vector<std::vector<PromptLine>> files;
  std::size_t longest = 0;
  for (const std::string& path : paths) {
    OUTRIDER_ASSIGN_OR_RETURN(files.emplace_back(), read_file_of_prompts(path));
    longest = std::max(longest, files.back().size());
  }
  std::vector<PromptLine> prompts;
  for (std::size_t i = 0; i < longest; ++i) {
    for (std::vector<PromptLine>& file : files) {
      if (i < file.size()) prompts.push_back(std::move(file[i]));
    }
  }
  return prompts;
}

}  // namespace

Result<std::vector<PromptLine>> read_prompt_file(const std::string& path, std::size_t limit) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return not_found(path + ": no such file. Remedy: --prompts FILE; the default, " + kPromptSets +
                     ", is found from the root of the sources");
  }
  OUTRIDER_ASSIGN_OR_RETURN(std::vector<PromptLine> prompts,
                            std::filesystem::is_directory(path, error)
                                ? read_folder_of_prompts(path)
                                : read_file_of_prompts(path));
  if (prompts.empty()) return invalid_argument(path + ": holds no prompt");
  OUTRIDER_RETURN_IF_ERROR(check_prompt_count(path, prompts.size(), limit));
  if (limit > 0) prompts.resize(limit);
  return prompts;
}

Status check_prompt_count(const std::string& path, std::size_t held, std::size_t wanted) {
  if (held >= wanted) return {};
  return invalid_argument(path + ": holds " + std::to_string(held) + " of the " +
                          std::to_string(wanted) + " requested prompts. Remedy: --num-prompts " +
                          std::to_string(held) + ", or a file with more");
}

}  // namespace outrider
