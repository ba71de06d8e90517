// Records of answers, which come from anybody: whatever their lines hold, they are taken apart or
// refused with a sentence. Numbers and hashes of the chain are set right, so that what stands
// behind them is reached. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/json.h"
#include "common/serving/record/record_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  outrider::RecordText text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string line(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!text.lines.empty()) {
      outrider::Result<outrider::Json> json = outrider::parse_json(line, "a line");
      if (json.ok() && json->is_object()) {
        (*json)["stretch"] = text.lines.size() - 1;
        (*json)["before"] = outrider::line_hash(text.lines.back());
        line = json->dump();
      }
    }
    text.lines.push_back(std::move(line));
  }
  if (text.lines.empty()) return 0;
  const outrider::Result<outrider::RecordedAnswer> answer = outrider::check_record(text, "");
  if (!answer.ok()) {
    if (answer.status().message().empty()) __builtin_trap();
    return 0;
  }
  if (answer->stretches.empty() || answer->ending().empty()) __builtin_trap();
  if (answer->end() > answer->terms.end_position) __builtin_trap();
  return 0;
}
