// The content of a valid GGUF file. SPDX-License-Identifier: Apache-2.0
#include "common/engine/gguf/gguf_header.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/common/engine/gguf/gguf_builder.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<GgufHeader> parse(const std::string& bytes) {
  return parse_gguf(std::as_bytes(std::span(bytes)), "test.gguf");
}

GgufBuilder small_file() {
  GgufBuilder file;
  file.text("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .f32("llama.rope.freq_base", 0.5f)
      .value("signed", GgufValueType::kInt8, std::int8_t{-3})
      .value("wide", GgufValueType::kUint64, std::uint64_t{1} << 63)
      .value("double", GgufValueType::kFloat64, 0.1)
      .flag("yes", true)
      .texts("tokens", {"a", "", "\xc4\xa0the"})
      .numbers("kinds", GgufValueType::kInt32, std::vector<std::int32_t>{1, -1})
      .numbers("scores", GgufValueType::kFloat32, std::vector<float>{1.5f, -2.0f})
      .tensor("norm", GgufTensorType::kF32, {3}, std::string(12, 'x'))
      .tensor("matrix", GgufTensorType::kQ4_0, {2, 64}, std::string(72, 'y'));
  return file;
}

TEST(GgufHeaderTest, ValuesAreReadByTheirTypes) {
  const std::string bytes = small_file().build();
  const Result<GgufHeader> header = parse(bytes);
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  const GgufMetadata& metadata = header->metadata;
  EXPECT_EQ(*metadata.text("general.architecture"), "llama");
  EXPECT_EQ(*metadata.integer("llama.block_count"), 2);
  EXPECT_EQ(*metadata.integer("signed"), -3);
  EXPECT_EQ(*metadata.real("llama.rope.freq_base"), 0.5);
  EXPECT_EQ(*metadata.real("double"), 0.1);
  EXPECT_EQ(*metadata.real("llama.block_count"), 2.0);
  EXPECT_TRUE(*metadata.flag("yes"));
  EXPECT_THAT(*metadata.texts("tokens"), ElementsAre("a", "", "\xc4\xa0the"));
  EXPECT_THAT(*metadata.integers("kinds"), ElementsAre(1, -1));
  EXPECT_THAT(*metadata.reals("scores"), ElementsAre(1.5f, -2.0f));
  EXPECT_TRUE(metadata.has("yes"));
  EXPECT_FALSE(metadata.has("no"));
}

TEST(GgufHeaderTest, AValueOfAnotherTypeIsNamed) {
  const std::string bytes = small_file().build();
  const Result<GgufHeader> header = parse(bytes);
  ASSERT_TRUE(header.ok());
  const GgufMetadata& metadata = header->metadata;
  const auto message = [](const auto& result) { return result.status().message(); };
  EXPECT_EQ(metadata.integer("absent").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(message(metadata.integer("absent")), HasSubstr("test.gguf: absent is missing"));
  EXPECT_THAT(message(metadata.integer("tokens")),
              HasSubstr("an array of string, must be one value"));
  EXPECT_THAT(message(metadata.texts("yes")), HasSubstr("bool, must be an array"));
  EXPECT_THAT(message(metadata.texts("kinds")), HasSubstr("must be an array of string"));
  EXPECT_THAT(message(metadata.text("yes")), HasSubstr("must be a string"));
  EXPECT_THAT(message(metadata.flag("signed")), HasSubstr("must be a bool"));
  EXPECT_THAT(message(metadata.integer("double")), HasSubstr("must be an integer"));
  EXPECT_THAT(message(metadata.integer("wide")), HasSubstr("below 2^63"));
  EXPECT_THAT(message(metadata.real("general.architecture")), HasSubstr("must be a number"));
  EXPECT_THAT(message(metadata.integers("scores")), HasSubstr("array of integers"));
  EXPECT_THAT(message(metadata.integers("tokens")), HasSubstr("array of integers"));
  EXPECT_THAT(message(metadata.reals("tokens")), HasSubstr("array of numbers"));
}

TEST(GgufHeaderTest, TensorsAreViewsWithRowMajorShapes) {
  for (const std::uint64_t alignment : {8, 32, 4096}) {
    GgufBuilder file;
    file.alignment = alignment;
    file.tensor("norm", GgufTensorType::kF32, {3}, "123456789012")
        .tensor("matrix", GgufTensorType::kQ4_0, {2, 64}, std::string(72, 'y'));
    file.version = alignment == 8 ? 2 : 3;
    const std::string bytes = file.build();
    const Result<GgufHeader> header = parse(bytes);
    ASSERT_TRUE(header.ok()) << header.status().to_string();
    ASSERT_EQ(header->tensors.size(), 2u);
    const GgufTensor& norm = header->tensors[0];
    EXPECT_EQ(norm.name, "norm");
    EXPECT_EQ(norm.type, GgufTensorType::kF32);
    EXPECT_THAT(norm.shape, ElementsAre(3));
    EXPECT_EQ(std::memcmp(norm.data.data(), "123456789012", 12), 0);
    EXPECT_EQ(norm.data.size(), 12u);
    const GgufTensor& matrix = header->tensors[1];
    EXPECT_THAT(matrix.shape, ElementsAre(2, 64));
    EXPECT_EQ(matrix.data.size(), 72u);
    EXPECT_EQ(std::to_integer<char>(matrix.data[71]), 'y');
  }
}

TEST(GgufHeaderTest, AFileWithoutTensorsIsSound) {
  const std::string bytes = GgufBuilder().text("general.architecture", "llama").build();
  EXPECT_TRUE(parse(bytes).ok());
  const std::string no_padding = bytes.substr(0, bytes.find("llama") + 5);
  EXPECT_TRUE(parse(no_padding).ok());
}

}  // namespace
}  // namespace outrider
