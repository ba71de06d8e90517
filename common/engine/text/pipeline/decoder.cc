// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/decoder.h"

#include <charconv>

#include "common/engine/text/pipeline/byte_level.h"

namespace outrider {
namespace {

// The byte of a token "<0x0A>".
std::optional<std::uint8_t> fallback_byte(std::string_view token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  std::uint8_t byte = 0;
  const char* end = token.data() + 5;
  const auto [stopped, error] = std::from_chars(token.data() + 3, end, byte, 16);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return byte;
}

std::string replace_all(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, done)) {
    out.append(text.substr(done, at - done)).append(by);
    done = at + what.size();
  }
  return out.append(text.substr(done));
}

Result<std::string> apply_replaces(const std::vector<ReplaceStep>& steps, std::string text) {
  for (const ReplaceStep& step : steps) {
    OUTRIDER_ASSIGN_OR_RETURN(text, Normalizer({step}).apply(text));
  }
  return text;
}

}  // namespace

Result<Decoder> Decoder::create(DecoderSpec spec,
                                const std::vector<std::optional<std::string>>& tokens) {
  Decoder decoder;
  decoder.spec_ = std::move(spec);
  decoder.entries_.resize(tokens.size());
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!tokens[id]) continue;
    OUTRIDER_ASSIGN_OR_RETURN(decoder.entries_[id], decoder.decode(*tokens[id]));
  }
  return decoder;
}

Result<Decoder::Entry> Decoder::decode(const std::string& token) const {
  Entry entry;
  entry.exists = true;
  if (spec_.byte_level) {
    entry.bytes = bytes_of_characters(token).value_or(token);
    return entry;
  }
  if (!spec_.marker.empty()) {
    entry.bytes = replace_all(token, spec_.marker, " ");
    if (spec_.drop_first_markers) entry.first_bytes = replace_all(token, spec_.marker, "");
    return entry;
  }
  OUTRIDER_ASSIGN_OR_RETURN(entry.bytes, apply_replaces(spec_.replaces, token));
  const auto byte = spec_.byte_fallback ? fallback_byte(entry.bytes) : std::nullopt;
  if (byte) {
    entry.is_byte = true;
    entry.bytes.assign(1, static_cast<char>(*byte));
  }
  return entry;
}

}  // namespace outrider
