// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/prompt_sets.h"

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

// What stands between the system prompt and the end of the first instruction.
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

}  // namespace

Result<std::vector<PromptAnswer>> read_mbpp(const std::string& path) {
  std::vector<PromptAnswer> tasks;
  const auto add = [&](const Json& line, const std::string& where) -> Status {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string head, string_field(line, "prompt", where));
    OUTRIDER_ASSIGN_OR_RETURN(const std::string body,
                              string_field(line, "canonical_solution", where));
    tasks.push_back({"Complete this Python function:\n\n" + head, head + body});
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
