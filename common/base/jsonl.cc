// SPDX-License-Identifier: Apache-2.0
#include "common/base/jsonl.h"

#include <algorithm>
#include <string_view>

#include "common/base/files.h"

namespace outrider {

Status for_each_line(const std::string& path,
                     const std::function<Status(const Json&, const std::string&)>& body) {
  constexpr std::int64_t kMaxBytes = std::int64_t{1} << 30;  // memory for the whole text
  OUTRIDER_ASSIGN_OR_RETURN(const std::string text, read_file(path, kMaxBytes));
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view line = std::string_view(text).substr(at, end - at);
    at = end + 1;
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const std::string where = path + ":" + std::to_string(number);
    OUTRIDER_ASSIGN_OR_RETURN(const Json object, parse_json(line, where));
    OUTRIDER_RETURN_IF_ERROR(body(object, where));
  }
  return {};
}

Result<std::string> string_field(const Json& object, const char* field, const std::string& where) {
  if (!object.is_object() || !object.contains(field) || !object[field].is_string()) {
    return data_loss(where + ": no string \"" + field + "\"");
  }
  return object[field].get<std::string>();
}

}  // namespace outrider
