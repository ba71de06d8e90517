// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/tokenizer_state.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "common/engine/text/pipeline/content_hash.h"

namespace outrider {
namespace {

// The texts of all ids, of the model and added. An added token may repeat the vocabulary's entry of
// its id but not contradict it.
Result<std::vector<std::optional<std::string>>> all_tokens(const BpeModel& model,
                                                           const AddedTokens& added) {
  std::vector<std::optional<std::string>> tokens = model.spec().tokens;
  for (const AddedToken& token : added.tokens()) {
    const auto index = static_cast<std::size_t>(token.id);
    const auto in_vocabulary = model.find(token.content);
    if (index >= tokens.size()) tokens.resize(index + 1);
    if (in_vocabulary.value_or(token.id) != token.id ||
        tokens[index].value_or(token.content) != token.content) {
      return data_loss("added_tokens: '" + token.content + "' with id " + std::to_string(token.id) +
                       " contradicts the vocabulary");
    }
    tokens[index] = token.content;
  }
  return tokens;
}

// Adds tokens that only tokenizer_config.json has, as transformers does.
Status add_configured_tokens(const TokenizerConfig& config, std::size_t model_size,
                             TokenizerParts& parts) {
  const std::size_t id_limit =
      id_limit_of(model_size + parts.added_tokens.size() + config.added_tokens.size());
  std::set<std::string_view> known;
  for (const AddedToken& token : parts.added_tokens) known.insert(token.content);
  std::vector<AddedToken> missing;
  for (const AddedToken& token : config.added_tokens) {
    if (static_cast<std::size_t>(token.id) >= id_limit) {
      return data_loss("added_tokens_decoder: id " + std::to_string(token.id) +
                       " is out of range; ids are below " + std::to_string(id_limit));
    }
    if (!known.contains(token.content)) missing.push_back(token);
  }
  parts.added_tokens.insert(parts.added_tokens.end(), missing.begin(), missing.end());
  return {};
}

Status check_ids(const std::vector<TokenId>& ids, const Decoder& decoder) {
  for (const TokenId id : ids) {
    if (!decoder.contains(id)) {
      return data_loss("post_processor: id " + std::to_string(id) + " has no token");
    }
  }
  return {};
}

// The trusted bytes of joined.text[within], relative to its start, in the normalised text. If
// normalisation moved bytes, a part is trusted as a whole or not at all.
std::vector<Span> trusted_within(const JoinedText& joined, Span within,
                                 const std::string& normalized) {
  const bool unchanged =
      std::string_view(joined.text).substr(within.begin, within.end - within.begin) == normalized;
  std::vector<Span> out;
  // They are apart and in order: of a long conversation only the part's own are looked at.
  for (auto at = std::ranges::upper_bound(joined.trusted, within.begin, {}, &Span::end);
       at != joined.trusted.end() && at->begin < within.end; ++at) {
    const Span common{std::max(at->begin, within.begin), std::min(at->end, within.end)};
    if (unchanged) {
      out.push_back({common.begin - within.begin, common.end - within.begin});
    } else if (common.begin == within.begin && common.end == within.end) {
      out.push_back({0, normalized.size()});
    }
  }
  return out;
}

// Nothing of a text may get lost, or be joined without a bound, on its way to ids.
std::size_t find_most_bytes_of_token(const TokenizerState& state) {
  const BpeSpec& spec = state.model.spec();
  const bool keeps_all = state.pre_tokenizer.makes_byte_characters() || spec.byte_fallback ||
                         (spec.unknown && !spec.fuse_unknown);
  const bool takes_space = std::ranges::any_of(
      state.added.tokens(), [](const AddedToken& token) { return token.lstrip || token.rstrip; });
  if (!keeps_all || takes_space || state.pre_tokenizer.drops_text()) return 0;
  std::size_t longest = 4;  // of an unknown character
  for (TokenId id = 0; id < state.vocab_size; ++id) {
    if (!state.decoder.contains(id)) continue;
    longest = std::max(longest, state.decoder.bytes(id).size());
    // A text may spell out the marks of the file, such as U+2581 for a space.
    const auto index = static_cast<std::size_t>(id);
    const bool is_spelled = !state.pre_tokenizer.makes_byte_characters() &&
                            index < spec.tokens.size() && spec.tokens[index];
    if (is_spelled) longest = std::max(longest, spec.tokens[index]->size());
    const AddedToken* added = state.added.find(id);
    if (added != nullptr) longest = std::max(longest, added->content.size());
  }
  return longest * state.normalizer.most_bytes_for_one();
}

}  // namespace

Result<std::unique_ptr<const TokenizerState>> TokenizerState::create(TokenizerParts parts,
                                                                     TokenizerConfig config) {
  OUTRIDER_ASSIGN_OR_RETURN(BpeModel model, BpeModel::create(std::move(parts.bpe)));
  OUTRIDER_RETURN_IF_ERROR(add_configured_tokens(config, model.spec().tokens.size(), parts));
  // Tokens that the configuration calls special are special, as in transformers.
  std::vector<std::string> named = config.other_special_tokens;
  if (config.bos_token) named.push_back(*config.bos_token);
  if (config.eos_token) named.push_back(*config.eos_token);
  for (AddedToken& token : parts.added_tokens) {
    token.special |= std::find(named.begin(), named.end(), token.content) != named.end();
  }
  OUTRIDER_ASSIGN_OR_RETURN(AddedTokens added,
                            AddedTokens::create(std::move(parts.added_tokens), parts.normalizer));
  OUTRIDER_ASSIGN_OR_RETURN(const auto tokens, all_tokens(model, added));
  OUTRIDER_ASSIGN_OR_RETURN(Decoder decoder, Decoder::create(std::move(parts.decoder), tokens));
  if (parts.frame_from_config) {
    if (parts.bos && config.add_bos_token.value_or(true)) parts.prefix = {*parts.bos};
    if (parts.eos && config.add_eos_token.value_or(false)) parts.suffix = {*parts.eos};
  }
  OUTRIDER_RETURN_IF_ERROR(check_ids(parts.prefix, decoder));
  OUTRIDER_RETURN_IF_ERROR(check_ids(parts.suffix, decoder));
  config.chat_templates.merge(parts.chat_templates);
  auto state = std::make_unique<TokenizerState>(TokenizerState{
      std::move(parts.normalizer), std::move(parts.pre_tokenizer), std::move(model),
      std::move(added), std::move(decoder), std::move(parts.prefix), std::move(parts.suffix),
      parts.bos, parts.eos, std::move(config.chat_templates), std::move(parts.assumed), "",
      static_cast<TokenId>(tokens.size()), std::vector<bool>(tokens.size())});
  for (const AddedToken& token : state->added.tokens()) {
    state->special[static_cast<std::size_t>(token.id)] = token.special;
  }
  const auto id_of = [&](const std::string& content) -> std::optional<TokenId> {
    if (const AddedToken* token = state->added.find(content)) return token->id;
    return state->model.find(content);
  };
  if (config.bos_token) state->bos = id_of(*config.bos_token);
  if (config.eos_token) state->eos = id_of(*config.eos_token);
  state->content_hash = hash_tokenizer_content(state->normalizer, state->pre_tokenizer,
                                               state->model, state->added, state->decoder);
  state->most_bytes_of_token = find_most_bytes_of_token(*state);
  return std::unique_ptr<const TokenizerState>(std::move(state));
}

Status TokenizerState::encode_words(std::string text, bool at_start,
                                    std::vector<TokenId>& ids) const {
  OUTRIDER_ASSIGN_OR_RETURN(const Pieces pieces, pre_tokenizer.apply(std::move(text), at_start));
  for (const Span& span : pieces.spans) {
    model.encode(std::string_view(pieces.text).substr(span.begin, span.end - span.begin), ids);
  }
  return {};
}

Status TokenizerState::encode_text(const JoinedText& joined, Span within,
                                   std::vector<TokenId>& ids) const {
  OUTRIDER_ASSIGN_OR_RETURN(
      const std::string text,
      normalizer.apply(
          std::string_view(joined.text).substr(within.begin, within.end - within.begin)));
  const std::vector<Span> trusted = trusted_within(joined, within, text);
  for (const TextPart& part : added.cut(text, trusted, /*normalized=*/true)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    const bool at_start = within.begin == 0 && part.span.begin == 0;
    OUTRIDER_RETURN_IF_ERROR(
        encode_words(text.substr(part.span.begin, part.span.end - part.span.begin), at_start, ids));
  }
  return {};
}

}  // namespace outrider
