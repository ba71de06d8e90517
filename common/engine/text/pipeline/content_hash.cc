// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/pipeline/content_hash.h"

#include "common/base/sha256.h"
#include "common/engine/text/pipeline/byte_level.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

// Hashes fields so that different lists of fields give different bytes.
class FieldHash {
 public:
  void text(std::string_view value) {
    number(static_cast<std::int64_t>(value.size()));
    hash_.update(value);
  }

  void number(std::int64_t value) {
    char bytes[8];
    for (int i = 0; i < 8; ++i)
      bytes[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
    hash_.update(std::string_view(bytes, sizeof(bytes)));
  }

  std::string finish() { return hash_.finish_hex(); }

 private:
  Sha256 hash_;
};

// has(byte) for each byte that can occur in UTF-8.
template <typename Has>
bool all_bytes(const Has& has) {
  for (int byte = 0; byte < 0xF5; ++byte) {
    if (byte != 0xC0 && byte != 0xC1 && !has(static_cast<std::uint8_t>(byte))) return false;
  }
  return true;
}

// "none": every text has known characters only; "bytes": unknown ones become bytes' tokens; "some".
std::string unknown_characters(const BpeModel& model, bool byte_characters) {
  const bool all_known = byte_characters && all_bytes([&](std::uint8_t byte) {
                           std::string character;
                           append_utf8(byte_to_character(byte), character);
                           return model.find(character).has_value();
                         });
  if (all_known) return "none";
  if (all_bytes([&](std::uint8_t byte) { return model.find_fallback(byte).has_value(); })) {
    return "bytes";
  }
  return "some";
}

void add_tokens(const BpeModel& model, const AddedTokens& added, const Decoder& decoder,
                FieldHash& hash) {
  for (TokenId id = 0; id < decoder.size(); ++id) {
    if (!decoder.contains(id)) continue;
    const auto index = static_cast<std::size_t>(id);
    const AddedToken* token = added.find(id);
    hash.number(id);
    hash.text(token != nullptr ? token->content : *model.spec().tokens[index]);
    hash.text(decoder.bytes(id));
    hash.text(decoder.first_bytes(id));
    hash.number(decoder.may_cut_characters(id) ? 1 : 0);
  }
  hash.number(-1);
  const DecoderSpec& spec = decoder.spec();
  hash.text(spec.strip_left > 0 ? spec.strip : "");
  hash.number(spec.strip_left);
}

void add_merges(const BpeModel& model, bool byte_characters, FieldHash& hash) {
  const BpeSpec& spec = model.spec();
  hash.number(static_cast<std::int64_t>(spec.merges.size()));
  for (const BpeMerge& merge : spec.merges) {
    hash.number(merge.left);
    hash.number(merge.right);
    hash.number(merge.merged);
  }
  hash.number(spec.ignore_merges ? 1 : 0);
  const std::string unknown = unknown_characters(model, byte_characters);
  hash.text(unknown);
  if (unknown != "some") return;
  hash.number(spec.byte_fallback ? 1 : 0);
  hash.number(spec.unknown.value_or(-1));
  hash.number(spec.unknown && spec.fuse_unknown ? 1 : 0);
}

void add_added_tokens(const AddedTokens& added, bool has_normalizer, FieldHash& hash) {
  hash.number(static_cast<std::int64_t>(added.tokens().size()));
  for (const AddedToken& token : added.tokens()) {
    hash.number(token.id);
    // Without a normaliser the time of recognition makes no difference.
    const bool normalized = token.normalized && has_normalizer;
    for (const bool flag : {normalized, token.single_word, token.lstrip, token.rstrip}) {
      hash.number(flag ? 1 : 0);
    }
  }
}

}  // namespace

std::string hash_tokenizer_content(const Normalizer& normalizer, const PreTokenizer& pre_tokenizer,
                                   const BpeModel& model, const AddedTokens& added,
                                   const Decoder& decoder) {
  FieldHash hash;
  hash.text("outrider tokenizer 2");
  hash.text(normalizer.describe());
  hash.text(pre_tokenizer.describe());
  add_tokens(model, added, decoder, hash);
  add_merges(model, pre_tokenizer.makes_byte_characters(), hash);
  add_added_tokens(added, !normalizer.empty(), hash);
  return hash.finish();
}

}  // namespace outrider
