// tokenizer.json, and a text for a tokenizer that loads: ids must exist and decode to UTF-8. The
// input is the file, then a zero byte and the text, if there is one.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t end = input.find('\0');
  const std::string_view text = end < size ? input.substr(end + 1) : "a b\xff <|im_end|>";
  const auto tokenizer = outrider::Tokenizer::load_json(input.substr(0, end), input.substr(0, end));
  if (!tokenizer.ok()) return 0;
  const auto ids = tokenizer->encode(text, {.parse_special = true});
  if (!ids.ok()) return 0;
  const auto back = tokenizer->decode(*ids);
  if (!back.ok() || !outrider::is_utf8(*back)) std::abort();
  return 0;
}
