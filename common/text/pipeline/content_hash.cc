// SPDX-License-Identifier: Apache-2.0
#include "common/text/pipeline/content_hash.h"

#include "common/base/sha256.h"

namespace outrider {
namespace {

// Feeds fields to the hash so that no two different lists of fields feed the same bytes.
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

void add_vocabulary(const BpeSpec& model, FieldHash& hash) {
  hash.number(static_cast<std::int64_t>(model.tokens.size()));
  for (const auto& token : model.tokens) {
    hash.number(token.has_value() ? 1 : 0);
    hash.text(token.value_or(""));
  }
  hash.number(static_cast<std::int64_t>(model.merges.size()));
  for (const BpeMerge& merge : model.merges) {
    hash.number(merge.left);
    hash.number(merge.right);
  }
  for (const bool flag :
       {model.byte_level, model.byte_fallback, model.fuse_unknown, model.ignore_merges}) {
    hash.number(flag ? 1 : 0);
  }
  hash.number(model.unknown.value_or(-1));
}

void add_added_tokens(const AddedTokens& added, bool has_normalizer, FieldHash& hash) {
  hash.number(static_cast<std::int64_t>(added.tokens().size()));
  for (const AddedToken& token : added.tokens()) {
    hash.number(token.id);
    hash.text(token.content);
    // Without a normaliser it makes no difference when a token is looked for.
    const bool normalized = token.normalized && has_normalizer;
    for (const bool flag :
         {token.special, normalized, token.single_word, token.lstrip, token.rstrip}) {
      hash.number(flag ? 1 : 0);
    }
  }
}

}  // namespace

std::string hash_tokenizer_content(const Normalizer& normalizer, const PreTokenizer& pre_tokenizer,
                                   const BpeSpec& model, const AddedTokens& added) {
  FieldHash hash;
  hash.text("outrider tokenizer 1");
  hash.text(normalizer.describe());
  hash.text(pre_tokenizer.describe());
  add_vocabulary(model, hash);
  add_added_tokens(added, !normalizer.empty(), hash);
  return hash.finish();
}

}  // namespace outrider
