// SPDX-License-Identifier: Apache-2.0
#include "adapters/data/tokenizer_copy.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "common/base/output_file.h"
#include "common/engine/text/tokenizer.h"
#include "tests/unit/common/engine/text/gguf_of.h"
#include "tests/unit/common/engine/text/small_tokenizers.h"

namespace outrider {
namespace {

class TokenizerCopy : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ + "/from");
    std::filesystem::create_directories(root_ + "/to");
    std::ofstream(root_ + "/from/model.gguf", std::ios::binary)
        << gguf_of_json(small_byte_level(), "gpt-2")
               .text("tokenizer.chat_template", "<|im_start|>")
               .build();
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  std::string copied_hash() const {
    const Result<Tokenizer> copied = Tokenizer::load(root_ + "/to");
    EXPECT_TRUE(copied.ok()) << copied.status().to_string();
    return copied.ok() ? copied->content_hash() : "";
  }

  const std::string root_ = testing::TempDir() + "tokenizer_copy";
  const std::string hash_ = load_or_die(small_byte_level()).content_hash();
};

TEST_F(TokenizerCopy, OfAGgufFileIsThatTokenizerWithItsTemplate) {
  const Status status = copy_tokenizer(root_ + "/from/model.gguf", root_ + "/to");
  ASSERT_TRUE(status.ok()) << status.to_string();
  EXPECT_EQ(copied_hash(), hash_);
  EXPECT_EQ(Tokenizer::load(root_ + "/to")->chat_templates().size(), 1u);
  EXPECT_LT(std::filesystem::file_size(root_ + "/to/tokenizer.gguf"), 1u << 16);
}

TEST_F(TokenizerCopy, OfADirectoryWithAGgufFileIsTheSame) {
  ASSERT_TRUE(copy_tokenizer(root_ + "/from", root_ + "/to").ok());
  EXPECT_EQ(copied_hash(), hash_);
}

TEST_F(TokenizerCopy, KeepsAnotherTokenizerUntilItIsAllowedToReplaceIt) {
  Json other = small_byte_level();
  other["model"]["merges"].erase(0);
  std::ofstream(root_ + "/to/tokenizer.json") << other.dump();
  const Status refused = copy_tokenizer(root_ + "/from/model.gguf", root_ + "/to");
  EXPECT_NE(refused.message().find("tokenizer.json: exists"), std::string::npos)
      << refused.to_string();
  EXPECT_EQ(std::filesystem::file_size(root_ + "/to/tokenizer.json"), other.dump().size());
  EXPECT_FALSE(std::filesystem::exists(root_ + "/to/tokenizer.gguf")) << "nothing is written";
  allow_replacing();
  ASSERT_TRUE(copy_tokenizer(root_ + "/from/model.gguf", root_ + "/to").ok());
  EXPECT_EQ(copied_hash(), hash_) << "and nothing of the other is left";
}

TEST_F(TokenizerCopy, LeavesTheSameFilesAsTheyAre) {
  ASSERT_TRUE(copy_tokenizer(root_ + "/from", root_ + "/to").ok());
  ASSERT_TRUE(copy_tokenizer(root_ + "/from", root_ + "/to").ok());
  EXPECT_EQ(copied_hash(), hash_);
}

TEST_F(TokenizerCopy, TakesNamedTemplatesAlongAndLeavesNoneOfAnother) {
  for (const char* folder : {"/from", "/to"})
    std::filesystem::create_directories(root_ + folder + "/additional_chat_templates");
  std::ofstream(root_ + "/from/additional_chat_templates/tool_use.jinja") << "tools";
  std::ofstream(root_ + "/to/additional_chat_templates/rag.jinja") << "of another";
  allow_replacing();
  ASSERT_TRUE(copy_tokenizer(root_ + "/from", root_ + "/to").ok());
  const std::map<std::string, std::string> copied =
      Tokenizer::load(root_ + "/to")->chat_templates();
  EXPECT_EQ(copied.size(), 2u);
  EXPECT_EQ(copied.at("tool_use"), "tools");
}

TEST_F(TokenizerCopy, SaysWhereThereIsNone) {
  std::filesystem::remove(root_ + "/from/model.gguf");
  const Status status = copy_tokenizer(root_ + "/from", root_ + "/to");
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find(root_ + "/from"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace outrider
