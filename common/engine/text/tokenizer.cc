// SPDX-License-Identifier: Apache-2.0
#include "common/engine/text/tokenizer.h"

#include <filesystem>
#include <map>

#include "common/engine/gguf/gguf_header.h"
#include "common/engine/text/format/gguf_tokenizer.h"
#include "common/engine/text/format/tokenizer_files.h"
#include "common/engine/text/pipeline/decoder.h"
#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/streaming_detokenizer.h"
#include "common/engine/text/tokenizer_state.h"
#include "common/engine/text/tokenizer_texts.h"

namespace outrider {
namespace {

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

Result<TokenizerParts> parse_parts(const TokenizerTexts& texts) {
  if (texts.json) return parse_tokenizer_json(*texts.json);
  if (texts.sentencepiece) return parse_sentencepiece_model(*texts.sentencepiece);
  if (!texts.gguf) return not_found("holds no tokenizer");
  const std::span bytes(texts.gguf->data(), texts.gguf->size());
  OUTRIDER_ASSIGN_OR_RETURN(const GgufHeader gguf, parse_gguf(std::as_bytes(bytes), texts.what));
  return parse_gguf_tokenizer(gguf.metadata);
}

// The templates in files of their own, by name. As in transformers, a folder that has some reads
// none of tokenizer_config.json.
Result<std::map<std::string, std::string>> template_files(const TokenizerTexts& texts) {
  std::map<std::string, std::string> templates;
  if (texts.processors_template) {
    OUTRIDER_ASSIGN_OR_RETURN(templates, parse_chat_template_json(*texts.processors_template));
  }
  if (texts.chat_template) templates["default"] = *texts.chat_template;
  for (const auto& [path, text] : texts.named_templates) {
    if (text) templates[std::filesystem::path(path).stem().string()] = *text;
  }
  return templates;
}

// The files beside a tokenizer's own file.
Result<TokenizerConfig> parse_config(const TokenizerTexts& texts) {
  TokenizerConfig config;
  if (texts.config) {
    OUTRIDER_ASSIGN_OR_RETURN(config, parse_tokenizer_config(*texts.config));
  }
  OUTRIDER_ASSIGN_OR_RETURN(auto templates, template_files(texts));
  if (!templates.empty()) config.chat_templates = std::move(templates);
  return config;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerState> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  OUTRIDER_ASSIGN_OR_RETURN(const TokenizerTexts texts, read_tokenizer_texts(path));
  return load(texts);
}

Result<Tokenizer> Tokenizer::load(const TokenizerTexts& texts) {
  Result<TokenizerConfig> config = parse_config(texts);
  Result<Tokenizer> loaded =
      config.ok() ? create(parse_parts(texts), *std::move(config)) : config.status();
  if (loaded.ok() || loaded.status().message().starts_with(texts.what)) return loaded;
  return loaded.status().with_context(texts.what);
}

Result<Tokenizer> Tokenizer::create(Result<TokenizerParts> parts, TokenizerConfig config) {
  if (!parts.ok()) return parts.status();
  OUTRIDER_ASSIGN_OR_RETURN(auto state,
                            TokenizerState::create(*std::move(parts), std::move(config)));
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

Result<Tokenizer> Tokenizer::load_gguf(const GgufMetadata& metadata) {
  return create(parse_gguf_tokenizer(metadata), TokenizerConfig());
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

std::size_t Tokenizer::fewest_tokens(std::size_t bytes) const {
  const std::size_t most = state_->most_bytes_of_token;
  return most == 0 ? 0 : (bytes + most - 1) / most;
}

const std::vector<TokenId>& Tokenizer::prefix() const {
  return state_->prefix;
}
const std::vector<TokenId>& Tokenizer::suffix() const {
  return state_->suffix;
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
const std::map<std::string, std::string>& Tokenizer::chat_templates() const {
  return state_->chat_templates;
}
const std::string& Tokenizer::assumed() const {
  return state_->assumed;
}
const std::string& Tokenizer::content_hash() const {
  return state_->content_hash;
}
const Decoder& Tokenizer::decoder() const {
  return state_->decoder;
}

}  // namespace outrider
