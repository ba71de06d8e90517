// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/gsm8k.h"

#include "common/base/jsonl.h"

namespace outrider {

std::string without_annotations(const std::string& answer) {
  std::string text;
  for (std::size_t at = 0; at < answer.size();) {
    const std::size_t begin = answer.find("<<", at);
    const std::size_t end = answer.find(">>", begin == std::string::npos ? at : begin);
    if (begin == std::string::npos || end == std::string::npos) return text + answer.substr(at);
    text += answer.substr(at, begin - at);
    at = end + 2;
  }
  return text;
}

Result<std::vector<PromptAnswer>> read_gsm8k(const std::string& path, Split split) {
  std::vector<PromptAnswer> problems;
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    PromptAnswer problem;
    OUTRIDER_ASSIGN_OR_RETURN(problem.prompt, string_field(line, "question", where));
    OUTRIDER_ASSIGN_OR_RETURN(problem.answer, string_field(line, "answer", where));
    problem.answer = without_annotations(problem.answer);
    problems.push_back(std::move(problem));
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_line(path, add));
  if (problems.size() <= kGsm8kHeldOut) {
    return data_loss(path + ": " + std::to_string(problems.size()) +
                     " problems; more than 300 are needed, the last 300 are held out");
  }
  const auto border = problems.end() - static_cast<std::ptrdiff_t>(kGsm8kHeldOut);
  if (split == Split::kTrain) {
    problems.erase(border, problems.end());
  } else {
    problems.erase(problems.begin(), border);
  }
  return problems;
}

}  // namespace outrider
