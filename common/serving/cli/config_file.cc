// SPDX-License-Identifier: Apache-2.0
#include "common/serving/cli/config_file.h"

#include <cstddef>
#include <set>
#include <utility>

namespace outrider {
namespace {

constexpr std::string_view kBlanks = " \t";

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// Reads one line from left to right. Errors are bare words about the line; parse_config_entries()
// adds file and line number.
class LineReader final {
 public:
  explicit LineReader(std::string_view line) : rest_(line) {}

  void skip_blanks() {
    const std::size_t start = rest_.find_first_not_of(kBlanks);
    rest_.remove_prefix(start == std::string_view::npos ? rest_.size() : start);
  }
  // True at the end of the line or at a comment.
  bool at_end() {
    skip_blanks();
    return rest_.empty() || rest_.front() == '#' || rest_.front() == ';';
  }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string take_name() {
    std::size_t length = 0;
    while (length < rest_.size() && is_name_char(rest_[length])) ++length;
    std::string name(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return name;
  }
  Result<std::vector<std::string>> take_values() {
    skip_blanks();
    if (!take('[')) {
      OUTRIDER_ASSIGN_OR_RETURN(std::string value, take_value());
      return std::vector<std::string>{std::move(value)};
    }
    std::vector<std::string> values;
    for (skip_blanks(); !take(']'); skip_blanks()) {
      if (!values.empty() && !take(',')) return invalid_argument("expected ',' or ']' in the list");
      skip_blanks();
      OUTRIDER_ASSIGN_OR_RETURN(std::string value, take_value());
      values.push_back(std::move(value));
    }
    return values;
  }

 private:
  Result<std::string> take_value() {
    if (take('"')) return take_quoted('"', true);
    if (take('\'')) return take_quoted('\'', false);
    const std::size_t end = rest_.find_first_of(" \t,]#\"'[");
    std::string value(rest_.substr(0, end));
    rest_.remove_prefix(value.size());
    if (value.empty()) return invalid_argument("a value is missing");
    return value;
  }
  Result<std::string> take_quoted(char quote, bool escapes) {
    std::string value;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == quote) return value;
      if (c != '\\' || !escapes) {
        value += c;
        continue;
      }
      const char escaped = rest_.empty() ? '\0' : rest_.front();
      const std::size_t known = std::string_view("nt\\\"").find(escaped);
      if (known == std::string_view::npos) {
        return invalid_argument("unknown escape after '\\'; known are \\n \\t \\\\ \\\"");
      }
      value += "\n\t\\\""[known];
      rest_.remove_prefix(1);
    }
    return invalid_argument("the closing quote is missing");
  }

  std::string_view rest_;
};

// "[section]" changes `section`; "key = values" appends to `entries`.
Status parse_line(std::string_view line, std::string& section, std::vector<ConfigEntry>& entries) {
  LineReader reader(line);
  if (reader.at_end()) return {};
  if (reader.take('[')) {
    section = reader.take_name();
    if (section.empty() || !reader.take(']') || !reader.at_end()) {
      return invalid_argument("expected [section]");
    }
    return {};
  }
  ConfigEntry entry{.section = section, .key = reader.take_name(), .values = {}, .line = 0};
  reader.skip_blanks();
  if (entry.key.empty() || !reader.take('=')) return invalid_argument("expected key = value");
  OUTRIDER_ASSIGN_OR_RETURN(entry.values, reader.take_values());
  if (!reader.at_end()) {
    return invalid_argument("text after the value of '" + entry.key +
                            "'. Remedy: quote a value that holds spaces");
  }
  entries.push_back(std::move(entry));
  return {};
}

}  // namespace

Result<std::vector<ConfigEntry>> parse_config_entries(std::string_view text,
                                                      const std::string& what) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  std::vector<ConfigEntry> entries;
  std::set<std::pair<std::string, std::string>> seen;
  std::string section;
  for (int number = 1; !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::string place = what + ":" + std::to_string(number);
    const std::size_t before = entries.size();
    OUTRIDER_RETURN_IF_ERROR(parse_line(line, section, entries).with_context(place));
    if (entries.size() == before) continue;
    entries.back().line = number;
    if (!seen.insert({section, entries.back().key}).second) {
      return invalid_argument(place + ": '" + entries.back().key + "' stands twice");
    }
  }
  return entries;
}

}  // namespace outrider
