// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/prompt_sets.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_set>

#include "common/base/files.h"
#include "common/base/json.h"
#include "common/base/jsonl.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxFileBytes = 1 << 30;
constexpr std::size_t kLongestTurn = 1200, kShortestArticle = 200;

// [[0, "text"], [1, "text"], ..]
Result<std::vector<std::string>> numbered_texts(const std::string& text, const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const Json list, parse_json(text, path));
  std::vector<std::string> texts;
  for (const Json& entry : list.is_array() ? list : Json::array()) {
    if (!entry.is_array() || entry.size() != 2 || !entry[1].is_string()) {
      return data_loss(path + ": entry " + std::to_string(texts.size()) +
                       " must be a number and a text");
    }
    texts.push_back(entry[1].get<std::string>());
  }
  if (texts.empty()) return data_loss(path + ": must be a JSON list of numbered texts");
  return texts;
}

std::string trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin));
}

// The text between the system prompt and the end of the first instruction.
std::string first_turn(std::string_view text) {
  const std::size_t system = text.find("<</SYS>");
  if (system != std::string_view::npos)
    text.remove_prefix(system + std::string_view("<</SYS>").size());
  if (!text.empty() && text.front() == '>') text.remove_prefix(1);
  for (const std::string_view end : {"[\\INST]", "[/INST]"}) text = text.substr(0, text.find(end));
  return trimmed(text);
}

// Lines of {"turns": ["..", ..]}.
Result<std::vector<std::string>> first_of_turns(const std::string& path) {
  std::vector<std::string> firsts;
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    const Json turns = line.is_object() ? line.value("turns", Json()) : Json();
    if (!turns.is_array() || turns.empty() || !turns[0].is_string()) {
      return data_loss(where + ": no list \"turns\" that begins with a string");
    }
    firsts.push_back(turns[0].get<std::string>());
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_line(path, add));
  return firsts;
}

bool is_title(std::string_view line) {
  return line.starts_with(" = ") && line.ends_with(" = ") && !line.starts_with(" = = ");
}

// The text between the first two marks of a docstring.
Result<std::string> docstring_of(const std::string& head, const std::string& where) {
  for (const std::string_view mark : {"'''", "\"\"\""}) {
    const std::size_t begin = head.find(mark);
    const std::size_t end = head.find(mark, begin == std::string::npos ? begin : begin + 1);
    if (begin == std::string::npos || end == std::string::npos) continue;
    return trimmed(std::string_view(head).substr(begin + mark.size(), end - begin - mark.size()));
  }
  return data_loss(where + ": \"prompt\" has no docstring");
}

// The lines of "def check(candidate):" that assert something.
Result<std::string> asserts_of(const std::string& test, const std::string& where) {
  std::string lines;
  for (std::size_t begin = 0; begin < test.size();) {
    const std::size_t end = std::min(test.find('\n', begin), test.size());
    const std::string line = trimmed(std::string_view(test).substr(begin, end - begin));
    if (line.starts_with("assert ")) lines += line + "\n";
    begin = end + 1;
  }
  if (lines.empty()) return data_loss(where + ": \"test\" asserts nothing");
  return lines;
}

Result<std::string> mbpp_prompt(MbppForm form, const Json& line, const std::string& where) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string head, string_field(line, "prompt", where));
  if (form == MbppForm::kComplete) return "Complete this Python function:\n\n" + head;
  if (form == MbppForm::kWrite) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string task, docstring_of(head, where));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string name, string_field(line, "entry_point", where));
    return task + " Use Python, and call it " + name + ".";
  }
  OUTRIDER_ASSIGN_OR_RETURN(const std::string test, string_field(line, "test", where));
  OUTRIDER_ASSIGN_OR_RETURN(const std::string asserts, asserts_of(test, where));
  return "Write a Python function that passes these tests:\n\n" + asserts;
}

}  // namespace

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

Result<std::vector<PromptAnswer>> read_mbpp(const std::string& path,
                                            std::span<const MbppForm> forms) {
  std::vector<PromptAnswer> tasks;
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string head, string_field(line, "prompt", where));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string body,
                              string_field(line, "canonical_solution", where));
    for (const MbppForm form : forms) {
      OUTRIDER_ASSIGN_OR_RETURN(std::string prompt, mbpp_prompt(form, line, where));
      tasks.push_back({std::move(prompt), head + body});
    }
    return {};
  };
  OUTRIDER_RETURN_IF_ERROR(for_each_line(path, add));
  if (tasks.empty()) return data_loss(path + " holds no tasks");
  return tasks;
}

Result<std::vector<std::string>> read_user_turns(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  if (text.starts_with("{")) return first_of_turns(path);
  OUTRIDER_ASSIGN_OR_RETURN(const std::vector<std::string> all, numbered_texts(text, path));
  std::vector<std::string> turns;
  std::unordered_set<std::string> seen;
  for (const std::string& conversation : all) {
    std::string turn = first_turn(conversation);
    if (turn.empty() || turn.size() > kLongestTurn || !seen.insert(turn).second) continue;
    turns.push_back(std::move(turn));
  }
  return turns;
}

Result<std::vector<std::string>> read_wikitext(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxFileBytes));
  if (text.starts_with("[")) return numbered_texts(text, path);
  std::vector<std::string> articles;
  std::string article;
  const auto end_article = [&] {
    if (article.size() >= kShortestArticle) articles.push_back(trimmed(article));
    article.clear();
  };
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    if (is_title(line)) end_article();
    article.append(line).push_back('\n');
    begin = end + 1;
  }
  end_article();
  if (articles.empty()) return data_loss(path + " holds no article of at least 200 bytes");
  return articles;
}

}  // namespace outrider
