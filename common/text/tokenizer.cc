// SPDX-License-Identifier: Apache-2.0
#include "common/text/tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "common/base/files.h"
#include "common/text/format/tokenizer_files.h"
#include "common/text/pipeline/content_hash.h"
#include "common/text/pipeline/decoder.h"
#include "common/text/pipeline/utf8.h"
#include "common/text/streaming_detokenizer.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxTokenizerBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMaxConfigBytes = std::int64_t{16} << 20;

// The texts of all ids, those of the model and the added ones. An added token may repeat the
// vocabulary's entry of its id but not contradict it.
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

// Tokens that only tokenizer_config.json has, as in transformers.
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

// A text in one string, and which of its bytes are trusted.
struct JoinedText {
  std::string text;
  std::vector<Span> trusted;
};

JoinedText join(std::span<const TrustedText> parts) {
  JoinedText joined;
  for (const TrustedText& part : parts) {
    const std::size_t begin = joined.text.size();
    joined.text += is_utf8(part.text) ? std::string(part.text) : replace_ill_formed(part.text);
    if (!part.trusted || begin == joined.text.size()) continue;
    if (!joined.trusted.empty() && joined.trusted.back().end == begin) {
      joined.trusted.back().end = joined.text.size();
    } else {
      joined.trusted.push_back({begin, joined.text.size()});
    }
  }
  return joined;
}

// The trusted bytes of joined.text[within], counted from its start, for the text that
// normalisation made of it. Where that moved bytes, a part is trusted whole or not at all.
std::vector<Span> trusted_within(const JoinedText& joined, Span within,
                                 const std::string& normalized) {
  const std::string_view raw =
      std::string_view(joined.text).substr(within.begin, within.end - within.begin);
  std::vector<Span> out;
  for (const Span& span : joined.trusted) {
    const Span common{std::max(span.begin, within.begin), std::min(span.end, within.end)};
    if (common.begin >= common.end) continue;
    if (raw == normalized) {
      out.push_back({common.begin - within.begin, common.end - within.begin});
    } else if (common.begin == within.begin && common.end == within.end) {
      out.push_back({0, normalized.size()});
    }
  }
  return out;
}

}  // namespace

struct Tokenizer::State {
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  BpeModel model;
  AddedTokens added;
  Decoder decoder;
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
  std::optional<TokenId> bos;
  std::optional<TokenId> eos;
  std::string chat_template;
  std::string content_hash;
  TokenId vocab_size = 0;
  std::vector<bool> special;  // by id

  static Result<std::unique_ptr<const State>> create(TokenizerParts parts, TokenizerConfig config);
  Status apply(const TokenizerConfig& config);
  Status encode_text(const JoinedText& joined, Span within, std::vector<TokenId>& ids) const;
  Status encode_words(std::string text, bool at_start, std::vector<TokenId>& ids) const;
};

Result<std::unique_ptr<const Tokenizer::State>> Tokenizer::State::create(TokenizerParts parts,
                                                                         TokenizerConfig config) {
  OUTRIDER_ASSIGN_OR_RETURN(BpeModel model, BpeModel::create(std::move(parts.bpe)));
  OUTRIDER_RETURN_IF_ERROR(add_configured_tokens(config, model.spec().tokens.size(), parts));
  // What the configuration calls special is special, as in transformers.
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
  // tokenizer.model leaves it to the configuration what stands around a text.
  if (parts.from_sentencepiece) {
    if (parts.bos && config.add_bos_token.value_or(true)) parts.prefix = {*parts.bos};
    if (parts.eos && config.add_eos_token.value_or(false)) parts.suffix = {*parts.eos};
  }
  OUTRIDER_RETURN_IF_ERROR(check_ids(parts.prefix, decoder));
  OUTRIDER_RETURN_IF_ERROR(check_ids(parts.suffix, decoder));
  auto state = std::make_unique<State>(
      State{std::move(parts.normalizer), std::move(parts.pre_tokenizer), std::move(model),
            std::move(added), std::move(decoder), std::move(parts.prefix), std::move(parts.suffix),
            parts.bos, parts.eos, std::move(config.chat_template), "",
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
                                               state->model.spec(), state->added);
  return std::unique_ptr<const State>(std::move(state));
}

Status Tokenizer::State::encode_words(std::string text, bool at_start,
                                      std::vector<TokenId>& ids) const {
  OUTRIDER_ASSIGN_OR_RETURN(const Pieces pieces, pre_tokenizer.apply(std::move(text), at_start));
  for (const Span& span : pieces.spans) {
    model.encode(std::string_view(pieces.text).substr(span.begin, span.end - span.begin), ids);
  }
  return {};
}

Status Tokenizer::State::encode_text(const JoinedText& joined, Span within,
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

Tokenizer::Tokenizer(std::unique_ptr<const State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::string& directory) {
  const auto read = [&](const char* name, std::int64_t max_bytes) {
    return read_file((std::filesystem::path(directory) / name).string(), max_bytes);
  };
  const auto absent = [](const Result<std::string>& content) {
    return !content.ok() && content.status().code() == StatusCode::kNotFound;
  };
  TokenizerConfig config;
  if (const auto content = read("tokenizer_config.json", kMaxConfigBytes); !absent(content)) {
    if (!content.ok()) return content.status();
    Result<TokenizerConfig> parsed = parse_tokenizer_config(*content);
    if (!parsed.ok()) return parsed.status().with_context(directory);
    config = *std::move(parsed);
  }
  if (const auto content = read("chat_template.jinja", kMaxConfigBytes); !absent(content)) {
    if (!content.ok()) return content.status();
    config.chat_template = *content;
  }
  Result<std::string> content = read("tokenizer.json", kMaxTokenizerBytes);
  const bool is_json = !absent(content);
  if (!is_json) content = read("tokenizer.model", kMaxTokenizerBytes);
  if (absent(content)) {
    return not_found(directory + ": neither tokenizer.json nor tokenizer.model is there");
  }
  if (!content.ok()) return content.status();
  Result<Tokenizer> loaded =
      create(is_json ? parse_tokenizer_json(*content) : parse_sentencepiece_model(*content),
             std::move(config));
  if (!loaded.ok()) return loaded.status().with_context(directory);
  return loaded;
}

Result<Tokenizer> Tokenizer::create(Result<TokenizerParts> parts, TokenizerConfig config) {
  if (!parts.ok()) return parts.status();
  OUTRIDER_ASSIGN_OR_RETURN(auto state, State::create(*std::move(parts), std::move(config)));
  return Tokenizer(std::move(state));
}

Result<Tokenizer> Tokenizer::load_json(std::string_view tokenizer, std::string_view config) {
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerConfig parsed,
                            config.empty() ? TokenizerConfig() : parse_tokenizer_config(config));
  return create(parse_tokenizer_json(tokenizer), std::move(parsed));
}

Result<Tokenizer> Tokenizer::load_sentencepiece(std::string_view model, std::string_view config) {
  OUTRIDER_ASSIGN_OR_RETURN(TokenizerConfig parsed,
                            config.empty() ? TokenizerConfig() : parse_tokenizer_config(config));
  return create(parse_sentencepiece_model(model), std::move(parsed));
}

Result<std::vector<TokenId>> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const TrustedText whole{text, options.parse_special};
  return encode(std::span(&whole, 1), options.add_special_tokens);
}

Result<std::vector<TokenId>> Tokenizer::encode(std::span<const TrustedText> parts,
                                               bool add_special_tokens) const {
  std::size_t num_bytes = 0;
  for (const TrustedText& part : parts) num_bytes += part.text.size();
  if (num_bytes > kMaxTextBytes) {
    return invalid_argument("text of " + std::to_string(num_bytes) + " bytes; at most " +
                            std::to_string(kMaxTextBytes) + " can be encoded at once");
  }
  const JoinedText joined = join(parts);
  std::vector<TokenId> ids;
  if (add_special_tokens) ids = state_->prefix;
  for (const TextPart& part : state_->added.cut(joined.text, joined.trusted, false)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      OUTRIDER_RETURN_IF_ERROR(state_->encode_text(joined, part.span, ids));
    }
  }
  if (add_special_tokens) ids.insert(ids.end(), state_->suffix.begin(), state_->suffix.end());
  return ids;
}

Result<std::string> Tokenizer::decode(std::span<const TokenId> ids, bool skip_special) const {
  StreamingDetokenizer stream(*this, skip_special);
  std::string text;
  for (const TokenId id : ids) {
    OUTRIDER_ASSIGN_OR_RETURN(const std::string piece, stream.push(id));
    text += piece;
  }
  return text + stream.finish();
}

Result<std::string_view> Tokenizer::token_bytes(TokenId id) const {
  if (!contains(id)) return invalid_argument("token id " + std::to_string(id) + ": no such token");
  return state_->decoder.bytes(id);
}

TokenId Tokenizer::vocab_size() const {
  return state_->vocab_size;
}
bool Tokenizer::contains(TokenId id) const {
  return state_->decoder.contains(id);
}

bool Tokenizer::is_special(TokenId id) const {
  return contains(id) && state_->special[static_cast<std::size_t>(id)];
}

std::optional<TokenId> Tokenizer::find(std::string_view token) const {
  if (const AddedToken* added = state_->added.find(token)) return added->id;
  return state_->model.find(token);
}

std::optional<TokenId> Tokenizer::bos() const {
  return state_->bos;
}
std::optional<TokenId> Tokenizer::eos() const {
  return state_->eos;
}
const std::string& Tokenizer::chat_template_source() const {
  return state_->chat_template;
}
const std::string& Tokenizer::content_hash() const {
  return state_->content_hash;
}
const Decoder& Tokenizer::decoder() const {
  return state_->decoder;
}

}  // namespace outrider
