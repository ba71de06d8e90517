// The Hugging Face files of a trained vocabulary. SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "adapters/tokenizer/bpe_trainer.h"
#include "common/engine/text/pipeline/byte_level.h"
#include "common/engine/text/pipeline/utf8.h"

namespace outrider {
namespace {

using OrderedJson = nlohmann::ordered_json;

// ChatML without a default system message.
constexpr std::string_view kChatTemplate =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

std::string as_characters(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    append_utf8(byte_to_character(static_cast<std::uint8_t>(byte)), text);
  }
  return text;
}

OrderedJson byte_level() {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", false},
          {"trim_offsets", false},
          {"use_regex", false}};
}

OrderedJson special_token(std::string_view content) {
  return {{"content", content}, {"lstrip", false},      {"normalized", false},
          {"rstrip", false},    {"single_word", false}, {"special", true}};
}

}  // namespace

std::string tokenizer_json(const TrainedBpe& bpe) {
  OrderedJson vocabulary = OrderedJson::object();
  for (std::size_t id = 0; id < bpe.pieces.size(); ++id) {
    vocabulary[as_characters(bpe.pieces[id])] = id;
  }
  OrderedJson merges = OrderedJson::array();
  for (const auto& [left, right] : bpe.merges) {
    merges.push_back(
        OrderedJson::array({as_characters(bpe.pieces[static_cast<std::size_t>(left)]),
                            as_characters(bpe.pieces[static_cast<std::size_t>(right)])}));
  }
  OrderedJson added = OrderedJson::array();
  for (std::size_t i = 0; i < kSpecialTokens.size(); ++i) {
    OrderedJson token = {{"id", bpe.pieces.size() + i}};
    token.update(special_token(kSpecialTokens[i]));
    added.push_back(std::move(token));
  }
  const OrderedJson split = {{"type", "Split"},
                             {"pattern", {{"Regex", kBpeSplitPattern}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  const OrderedJson file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", std::move(added)},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Sequence"}, {"pretokenizers", OrderedJson::array({split, byte_level()})}}},
      {"post_processor", nullptr},
      {"decoder", byte_level()},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"ignore_merges", false},
        {"vocab", std::move(vocabulary)},
        {"merges", std::move(merges)}}}};
  return file.dump(1) + "\n";
}

std::string tokenizer_config_json(std::int32_t vocab_size, std::int64_t max_length) {
  OrderedJson added = OrderedJson::object();
  for (std::size_t i = 0; i < kSpecialTokens.size(); ++i) {
    const auto id = static_cast<std::size_t>(vocab_size - kNumSpecialTokens) + i;
    added[std::to_string(id)] = special_token(kSpecialTokens[i]);
  }
  const OrderedJson file = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                            {"added_tokens_decoder", std::move(added)},
                            {"bos_token", nullptr},
                            {"eos_token", kSpecialTokens[2]},
                            {"pad_token", kSpecialTokens[0]},
                            {"additional_special_tokens", {kSpecialTokens[1], kSpecialTokens[2]}},
                            {"clean_up_tokenization_spaces", false},
                            {"model_max_length", max_length},
                            {"chat_template", kChatTemplate}};
  return file.dump(1) + "\n";
}

}  // namespace outrider
