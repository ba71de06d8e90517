// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/inside_text.h"

#include <span>
#include <utility>

#include "common/engine/text/pipeline/decoder.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

constexpr EncodeOptions kInsideText{.add_special_tokens = false, .parse_special = false};

bool spell(const Tokenizer& tokenizer, std::span<const TokenId> ids, std::string_view bytes) {
  for (const TokenId id : ids) {
    const std::string_view piece = tokenizer.decoder().bytes(id);
    if (tokenizer.is_special(id) || !bytes.starts_with(piece)) return false;
    bytes.remove_prefix(piece.size());
  }
  return bytes.empty();
}

}  // namespace

// A tokenizer that puts a space before a text gets the text without its own.
std::vector<TokenId> tokens_inside_text(const Tokenizer& tokenizer, std::string_view bytes) {
  if (!is_utf8(bytes)) return {};
  for (const std::size_t begin : {0, 1}) {
    Result<std::vector<TokenId>> ids = tokenizer.encode(bytes.substr(begin), kInsideText);
    if (ids.ok() && spell(tokenizer, *ids, bytes)) return *std::move(ids);
    if (!bytes.starts_with(' ')) break;
  }
  return {};
}

}  // namespace outrider
