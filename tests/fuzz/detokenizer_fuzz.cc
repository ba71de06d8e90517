// Any ids into the streaming detokenizers and stop strings: every piece must be whole characters.
// The first byte chooses the family, each further pair of bytes is an id.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/streaming_detokenizer.h"
#include "common/serving/conversation/stop_strings.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using outrider::Tokenizer;
  static const Tokenizer kTokenizers[] = {
      outrider::load_or_die(outrider::small_byte_level()),
      outrider::load_or_die(outrider::small_sentencepiece()),
      outrider::load_or_die(outrider::small_metaspace()),
  };
  if (size == 0) return 0;
  outrider::StreamingDetokenizer stream(kTokenizers[data[0] % 3], (data[0] & 4) != 0);
  auto stops = *outrider::StopStrings::create({"ab", "bab", "\uFFFD\uFFFD"});
  std::string shown;
  const auto show = [&](const std::string& piece) {
    const std::string out = stops.push(piece);
    if (!outrider::is_utf8(piece) || !outrider::is_utf8(out)) std::abort();
    shown += out;
  };
  for (std::size_t i = 1; i + 1 < size; i += 2) {
    const auto piece = stream.push((data[i] << 8 | data[i + 1]) - 8);
    if (piece.ok()) show(*piece);
  }
  show(stream.finish());
  shown += stops.finish();
  if (shown.find("ab") != std::string::npos) std::abort();
  return 0;
}
