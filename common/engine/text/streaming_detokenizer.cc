// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/streaming_detokenizer.h"

#include "common/engine/text/pipeline/decoder.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {

StreamingDetokenizer::StreamingDetokenizer(const Tokenizer& tokenizer, bool skip_special)
    : tokenizer_(tokenizer), skip_special_(skip_special) {
  start();
}

void StreamingDetokenizer::start() {
  any_token_ = false;
  held_.clear();
  left_to_strip_ = tokenizer_.decoder().spec().strip_left;
}

Result<std::string> StreamingDetokenizer::push(TokenId id) {
  if (!tokenizer_.contains(id)) {
    return invalid_argument("token id " + std::to_string(id) + ": no such token; ids are below " +
                            std::to_string(tokenizer_.vocab_size()));
  }
  std::string out;
  if (skip_special_ && tokenizer_.is_special(id)) return out;
  const Decoder& decoder = tokenizer_.decoder();
  const std::string_view bytes = any_token_ ? decoder.bytes(id) : decoder.first_bytes(id);
  any_token_ = true;
  if (decoder.may_cut_characters(id)) {
    held_ += bytes;
    release(/*at_end=*/false, out);
  } else {
    release(/*at_end=*/true, out);
    append(bytes, out);
  }
  return out;
}

std::string StreamingDetokenizer::finish() {
  std::string out;
  release(/*at_end=*/true, out);
  start();
  return out;
}

void StreamingDetokenizer::release(bool at_end, std::string& out) {
  const bool one_per_byte = !tokenizer_.decoder().spec().byte_level;
  std::size_t done = 0;
  while (done < held_.size()) {
    const Utf8Character c = utf8_at(held_, done);
    if (c.state == Utf8State::kCutShort && !at_end) break;
    if (c.state == Utf8State::kWellFormed) {
      append(std::string_view(held_).substr(done, c.length), out);
    } else {
      const std::size_t count = one_per_byte ? c.length : 1;
      for (std::size_t i = 0; i < count; ++i) append(kReplacementCharacter, out);
    }
    done += c.length;
  }
  held_.erase(0, done);
}

void StreamingDetokenizer::append(std::string_view text, std::string& out) {
  const std::string& strip = tokenizer_.decoder().spec().strip;
  while (left_to_strip_ > 0 && !text.empty()) {
    if (text.starts_with(strip)) {
      text.remove_prefix(strip.size());
      --left_to_strip_;
    } else {
      left_to_strip_ = 0;
    }
  }
  out += text;
}

}  // namespace outrider
