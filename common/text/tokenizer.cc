// SPDX-License-Identifier: Apache-2.0
#include "common/text/tokenizer.h"

#include <filesystem>

#include "common/base/files.h"
#include "common/text/format/tokenizer_files.h"
#include "common/text/pipeline/decoder.h"
#include "common/text/pipeline/utf8.h"
#include "common/text/streaming_detokenizer.h"
#include "common/text/tokenizer_state.h"

namespace outrider {
namespace {

constexpr std::int64_t kMaxTokenizerBytes = std::int64_t{256} << 20;
constexpr std::int64_t kMaxConfigBytes = std::int64_t{16} << 20;

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

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerState> state) : state_(std::move(state)) {}
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
