// The line of figures at the end of outrider-edge's answer: any text gives a record that survives
// writing and reading, or an error that names the line.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "edge_client/report/answer_record.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line(reinterpret_cast<const char*>(data), size);
  const auto record = outrider::read_answer_record(line, "fuzz");
  if (!record.ok()) {
    OUTRIDER_CHECK(record.status().message().starts_with("fuzz"));
    return 0;
  }
  const std::string written = outrider::to_line(*record);
  const auto again = outrider::read_answer_record(written, "fuzz");
  OUTRIDER_CHECK(again.ok() && outrider::to_line(*again) == written);
  return 0;
}
