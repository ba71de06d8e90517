// Bytes of a GGUF file: every accepted value and tensor lies within the file, and the config of a
// model that its keys describe has bounded sizes.
// SPDX-License-Identifier: Apache-2.0
#include <string_view>
#include <vector>

#include "common/engine/gguf/gguf_header.h"
#include "common/engine/model/format/gguf_config.h"
#include "common/engine/text/pipeline/utf8.h"
#include "common/engine/text/tokenizer.h"

namespace {

void check(bool condition) {
  if (!condition) __builtin_trap();
}

// Every request succeeds or is refused; nothing is read beyond the file.
void read_all(const outrider::GgufMetadata& metadata) {
  for (const auto& [key, value] : metadata.values()) {
    (void)metadata.text(key);
    (void)metadata.integer(key);
    (void)metadata.real(key);
    (void)metadata.flag(key);
    const auto texts = metadata.texts(key);
    check(!texts.ok() || texts->size() == value.count);
    (void)metadata.integers(key);
    (void)metadata.reals(key);
  }
}

// A tokenizer that loads gives existing ids, and text for them.
void use_tokenizer(const outrider::GgufMetadata& metadata, std::string_view text) {
  const auto tokenizer = outrider::Tokenizer::load_gguf(metadata);
  if (!tokenizer.ok()) return;
  const auto ids = tokenizer->encode(text.substr(0, 400), {.parse_special = true});
  if (!ids.ok()) return;
  const auto back = tokenizer->decode(*ids);
  check(back.ok() && outrider::is_utf8(*back));
}

void check_config(const outrider::ModelConfig& config) {
  check(config.num_kv_heads > 0 && config.num_heads % config.num_kv_heads == 0);
  check(config.head_dim >= 2 && config.head_dim % 2 == 0);
  check(config.windows.size() == static_cast<std::size_t>(config.num_layers));
  const std::vector<float> frequencies = outrider::rope_frequencies(config.rope, config.head_dim);
  check(frequencies.size() == static_cast<std::size_t>(config.head_dim) / 2);
  for (const outrider::TokenId id : config.stop_ids) check(id >= 0 && id < config.vocab_size);
  if (config.num_layers < 8) check(outrider::num_parameters(config) > 0);
  check(!outrider::config_to_json(config, "float32").dump().empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  const auto header = outrider::parse_gguf(bytes, "fuzzed");
  if (!header.ok()) return 0;
  read_all(header->metadata);
  use_tokenizer(header->metadata, {reinterpret_cast<const char*>(data), size});
  for (const outrider::GgufTensor& tensor : header->tensors) {
    const outrider::GgufTensorTypeInfo& type = info_of(tensor.type);
    std::int64_t elements = 1;
    for (const std::int64_t length : tensor.shape) elements *= length;
    check(tensor.shape.back() % type.block_elements == 0);
    check(static_cast<std::size_t>(elements / type.block_elements * type.block_bytes) ==
          tensor.data.size());
    check(tensor.data.data() >= bytes.data() &&
          tensor.data.data() + tensor.data.size() <= bytes.data() + bytes.size());
  }
  const auto config = outrider::gguf_config(*header);
  if (config.ok()) check_config(*config);
  return 0;
}
