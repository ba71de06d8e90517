// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "adapters/data/corpus.h"
#include "adapters/tokenizer/bpe_trainer.h"
#include "common/serving/conversation/chat_template.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

Tokenizer small_tokenizer() {
  const Result<TrainedBpe> bpe = train_bpe({"user\nHow many?", "assistant\nThree, I think."}, 280);
  const auto vocab = static_cast<std::int32_t>(bpe->pieces.size()) + kNumSpecialTokens;
  return std::move(*Tokenizer::load_json(tokenizer_json(*bpe), tokenizer_config_json(vocab, 1024)));
}

TurnFormat turns_of(const Tokenizer& tokenizer) {
  return {tokenizer, std::move(*ChatTemplate::choose(tokenizer, ""))};
}

// A document of `length` tokens, all `token`.
Document document_of(std::size_t length, TokenId token) {
  return {std::vector<TokenId>(length, token), std::vector<std::uint8_t>(length, 1)};
}

Source source_of(double share, TokenId token, std::size_t length, std::size_t count) {
  Source source;
  source.share = share;
  source.documents.assign(count, document_of(length, token));
  return source;
}

std::string write_temporary(const std::string& name, const std::string& text) {
  std::string path = testing::TempDir() + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

// The text whose tokens a document has learnt.
std::string learnt_text(const Tokenizer& tokenizer, const Document& document) {
  std::vector<TokenId> learnt;
  for (std::size_t i = 0; i < document.tokens.size(); ++i) {
    if (document.learnt[i] != 0) learnt.push_back(document.tokens[i]);
  }
  return *tokenizer.decode(learnt, false);
}

TEST(Corpus, ADocumentHasTheTokensOfTheChatTemplate) {
  const Tokenizer tokenizer = small_tokenizer();
  const Result<Document> document =
      make_document(turns_of(tokenizer), "How <|im_end|> many?", "Three.\n\n3", true);
  ASSERT_TRUE(document.ok());
  const Result<ChatTemplate> chat = ChatTemplate::choose(tokenizer, "");
  ASSERT_TRUE(chat.ok());
  const auto whole = chat->encode_chat(
      tokenizer, {{ChatRole::kUser, "How <|im_end|> many?"}, {ChatRole::kAssistant, "Three.\n\n3"}},
      false);
  ASSERT_TRUE(whole.ok());
  EXPECT_EQ(document->tokens, *whole);
}

TEST(Corpus, OnlyTheAnswerAndItsEndAreLearntIfPromptsAreNot) {
  const Tokenizer tokenizer = small_tokenizer();
  const Result<Document> document = make_document(turns_of(tokenizer), "How many?", "Three.", true);
  ASSERT_TRUE(document.ok());
  EXPECT_EQ(learnt_text(tokenizer, *document), "Three.<|im_end|>");
}

TEST(Corpus, TurnsAreThoseOfTheTokenizersOwnTemplate) {
  Json json = small_byte_level();
  json["added_tokens"] = Json::array();
  int id = 300;
  for (const char* name : {"<s>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"}) {
    json["added_tokens"].push_back({{"id", id++}, {"content", name}, {"special", true}});
  }
  const char* const turns =
      "{{ bos_token }}{% for m in messages %}"
      "{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' + m.content + '<|eot_id|>' }}"
      "{% endfor %}{% if add_generation_prompt %}"
      "{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";
  const Json config = {{"bos_token", "<s>"}, {"chat_template", turns}};
  const Result<Tokenizer> llama3 = Tokenizer::load_json(json.dump(), config.dump());
  ASSERT_TRUE(llama3.ok()) << llama3.status().to_string();
  ASSERT_FALSE(llama3->find("<|im_end|>"));
  const Result<Document> document = make_document(turns_of(*llama3), "Hi", "Yes.", true);
  ASSERT_TRUE(document.ok()) << document.status().to_string();
  EXPECT_EQ(*llama3->decode(document->tokens, false),
            "<s><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
            "<|start_header_id|>assistant<|end_header_id|>\n\nYes.<|eot_id|>");
  EXPECT_EQ(learnt_text(*llama3, *document), "Yes.<|eot_id|>");
  const Result<Document> whole = make_document(turns_of(*llama3), "Hi", "Yes.", false);
  EXPECT_EQ(learnt_text(*llama3, *whole), *llama3->decode(whole->tokens, false));
}

TEST(Corpus, LinesThatAreNoPromptsAreRefusedWithTheirPlace) {
  const Tokenizer tokenizer = small_tokenizer();
  const std::string path =
      write_temporary("corpus.jsonl", "{\"prompt\":\"a\",\"answer\":\"b\"}\n{\"prompt\":1}\n");
  const Status status = load_source(path, turns_of(tokenizer), true).status();
  EXPECT_EQ(status.code(), StatusCode::kDataLoss);
  EXPECT_NE(status.message().find("corpus.jsonl:2"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("prompt"), std::string::npos) << status.message();
  EXPECT_EQ(load_source(path + "=0", turns_of(tokenizer), true).status().code(),
            StatusCode::kInvalidArgument);
}

TEST(Packer, SequencesAreAFunctionOfSourcesAndSeed) {
  const auto sources = [] {
    std::vector<Source> all = {source_of(1, 5, 20, 30), source_of(2, 6, 33, 40)};
    for (Source& source : all) {
      for (std::size_t i = 0; i < source.documents.size(); ++i) {
        source.documents[i].tokens[0] = static_cast<TokenId>(100 + i);
      }
    }
    return all;
  };
  Packer first(sources(), 9, 0), second(sources(), 9, 0), other(sources(), 10, 0);
  bool differs = false;
  for (int i = 0; i < 50; ++i) {
    const Sequence sequence = first.next(100);
    EXPECT_EQ(sequence.tokens, second.next(100).tokens);
    differs = differs || sequence.tokens != other.next(100).tokens;
  }
  EXPECT_TRUE(differs);
}

TEST(Packer, SequencesHoldWholeDocumentsAndPadding) {
  Packer packer({source_of(1, 7, 30, 10)}, 1, 0);
  const Sequence sequence = packer.next(99);
  ASSERT_EQ(sequence.tokens.size(), 100u);
  EXPECT_EQ(std::count(sequence.tokens.begin(), sequence.tokens.end(), 7), 90);
  EXPECT_EQ(std::accumulate(sequence.learnt.begin(), sequence.learnt.end(), 0), 90);
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(sequence.starts[static_cast<std::size_t>(i)], i / 30 * 30) << "token " << i;
  }
}

TEST(Packer, ADocumentLongerThanASequenceIsCut) {
  Packer packer({source_of(1, 7, 300, 2)}, 1, 0);
  const Sequence sequence = packer.next(50);
  EXPECT_EQ(sequence.tokens, std::vector<TokenId>(51, 7));
}

TEST(Packer, SourcesGetTheirSharesOfTheTokens) {
  Packer packer({source_of(1, 5, 10, 7), source_of(3, 6, 40, 5)}, 3, 0);
  double first = 0, second = 0;
  for (int i = 0; i < 3000; ++i) {
    const Sequence sequence = packer.next(200);
    first += static_cast<double>(std::count(sequence.tokens.begin(), sequence.tokens.end(), 5));
    second += static_cast<double>(std::count(sequence.tokens.begin(), sequence.tokens.end(), 6));
  }
  EXPECT_NEAR(second / first, 3.0, 0.1);
}

}  // namespace
}  // namespace outrider
