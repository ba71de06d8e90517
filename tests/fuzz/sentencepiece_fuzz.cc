// tokenizer.model, and a text for a model that loads: ids must exist and decode to UTF-8.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view model(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = outrider::Tokenizer::load_sentencepiece(model);
  if (!tokenizer.ok()) return 0;
  const auto ids = tokenizer->encode(model.substr(0, 200));
  if (!ids.ok()) return 0;
  const auto back = tokenizer->decode(*ids);
  if (!back.ok() || !outrider::is_utf8(*back)) std::abort();
  return 0;
}
