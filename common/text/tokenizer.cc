// SPDX-License-Identifier: Apache-2.0
#include "common/text/tokenizer.h"

#include <filesystem>

#include "common/base/files.h"
#include "common/gguf/find_gguf.h"
#include "common/gguf/gguf_file.h"
#include "common/text/format/gguf_tokenizer.h"
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

using Content = std::optional<std::string>;

Result<Content> read_if_there(const std::string& directory, const char* name,
                              std::int64_t max_bytes = kMaxTokenizerBytes) {
  const std::filesystem::path path = std::filesystem::path(directory) / name;
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Content();
  OUTRIDER_ASSIGN_OR_RETURN(std::string content, read_file(path.string(), max_bytes));
  return Content(std::move(content));
}

// What lies beside a tokenizer's own file.
Result<TokenizerConfig> read_config(const std::string& directory) {
  TokenizerConfig config;
  OUTRIDER_ASSIGN_OR_RETURN(const Content json,
                            read_if_there(directory, "tokenizer_config.json", kMaxConfigBytes));
  if (json) {
    OUTRIDER_ASSIGN_OR_RETURN(config, parse_tokenizer_config(*json));
  }
  OUTRIDER_ASSIGN_OR_RETURN(const Content jinja,
                            read_if_there(directory, "chat_template.jinja", kMaxConfigBytes));
  if (jinja) config.chat_templates["default"] = *jinja;
  return config;
}

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const TokenizerState> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<Tokenizer> Tokenizer::load(const std::string& path) {
  // A file can only be a GGUF file; a directory may hold one in place of a tokenizer's own files.
  OUTRIDER_ASSIGN_OR_RETURN(const Content json, read_if_there(path, "tokenizer.json"));
  OUTRIDER_ASSIGN_OR_RETURN(const Content model, read_if_there(path, "tokenizer.model"));
  const auto load_parts = [&]() -> Result<TokenizerParts> {
    if (json) return parse_tokenizer_json(*json);
    if (model) return parse_sentencepiece_model(*model);
    OUTRIDER_ASSIGN_OR_RETURN(const std::optional<std::string> gguf, find_gguf(path));
    if (!gguf) {
      return not_found("neither tokenizer.json nor tokenizer.model nor a GGUF file is there");
    }
    OUTRIDER_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::open(*gguf));
    return parse_gguf_tokenizer(file.metadata());
  };
  const auto load_all = [&]() -> Result<Tokenizer> {
    OUTRIDER_ASSIGN_OR_RETURN(TokenizerConfig config, read_config(path));
    return create(load_parts(), std::move(config));
  };
  Result<Tokenizer> loaded = load_all();
  if (loaded.ok() || loaded.status().message().starts_with(path)) return loaded;
  return loaded.status().with_context(path);
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
const std::string& Tokenizer::content_hash() const {
  return state_->content_hash;
}
const Decoder& Tokenizer::decoder() const {
  return state_->decoder;
}

}  // namespace outrider
