// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/format/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "common/engine/model/format/safetensors_writer.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

std::string file_of(const std::string& header, std::size_t data_bytes) {
  std::string bytes(8, '\0');
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(header.size() >> (8 * i));
  return bytes + header + std::string(data_bytes, 'x');
}

Result<std::vector<SafetensorsEntry>> parse(const std::string& bytes) {
  return parse_safetensors(std::as_bytes(std::span(bytes)), "w.safetensors");
}

// The error of a file with that header, padded to 8 bytes, and so many bytes of data.
std::string error_of(std::string header, std::size_t data_bytes) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const Status status = parse(file_of(header, data_bytes)).status();
  EXPECT_FALSE(status.ok()) << header;
  EXPECT_THAT(status.message(), HasSubstr("w.safetensors"));
  return status.message();
}

std::string tensor(const std::string& name, const std::string& shape, std::uint64_t begin,
                   std::uint64_t end, const std::string& dtype = "F32") {
  return "\"" + name + "\": {\"dtype\": \"" + dtype + "\", \"shape\": " + shape +
         ", \"data_offsets\": [" + std::to_string(begin) + ", " + std::to_string(end) + "]}";
}

TEST(SafetensorsTest, ReadsTensorsInFileOrderWhateverTheHeadersOrder) {
  std::string header = "{" + tensor("b", "[3]", 24, 30, "F16") + ", " +
                       R"("__metadata__": {"format": "pt"}, )" + tensor("a", "[2, 3]", 0, 24) + "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const auto entries = parse(file_of(header, 30));
  ASSERT_TRUE(entries.ok()) << entries.status().to_string();
  ASSERT_EQ(entries->size(), 2u);
  EXPECT_EQ((*entries)[0].name, "a");
  EXPECT_EQ((*entries)[0].begin, 8 + header.size());
  EXPECT_EQ((*entries)[1].dtype, DType::kF16);
  EXPECT_EQ((*entries)[1].end, 8 + header.size() + 30);
}

TEST(SafetensorsTest, HeaderLengthsThatDoNotFitAreRefused) {
  EXPECT_THAT(parse("1234567").status().message(), HasSubstr("too few"));
  EXPECT_THAT(parse(std::string(8, '\xff') + "{}").status().message(), HasSubstr("at most"));
  std::string too_long = file_of("{}", 0);
  too_long[0] = 100;
  EXPECT_THAT(parse(too_long).status().message(), HasSubstr("cut short"));
  std::string huge = file_of("{}", 0);
  huge[3] = '\x06';  // 100 663 298 bytes
  EXPECT_THAT(parse(huge).status().message(), HasSubstr("100000000"));
}

TEST(SafetensorsTest, WhatIsNoHeaderIsRefused) {
  EXPECT_THAT(error_of(" {}", 0), HasSubstr("begin with {"));
  EXPECT_THAT(error_of("[]", 0), HasSubstr("begin with {"));
  EXPECT_THAT(error_of("{", 0), HasSubstr("broken JSON"));
  EXPECT_THAT(error_of("{} x", 0), HasSubstr("broken JSON"));
  EXPECT_THAT(error_of("{\"\xff\xfe\": 1}", 0), HasSubstr("broken JSON"));
  std::string deep = "{";
  for (int i = 0; i < 100000; ++i) deep += "\"a\": {";
  EXPECT_THAT(error_of(deep, 0), HasSubstr("unknown field"));
  EXPECT_THAT(error_of("{\"a\": " + std::string(100000, '['), 0), HasSubstr("an array"));
  EXPECT_THAT(error_of(R"({"a": 1})", 0), HasSubstr("a number"));
  EXPECT_THAT(error_of(R"({"a": null})", 0), HasSubstr("null"));
  EXPECT_THAT(error_of(R"({"a": {"dtype": "F32", "shape": [1]}})", 4),
              HasSubstr("are all required"));
  EXPECT_THAT(error_of(R"({"a": {"dtype": ["F32"]}})", 4), HasSubstr("an array"));
  EXPECT_THAT(error_of(R"({"a": {"shape": [[1]]}})", 4), HasSubstr("an array"));
  EXPECT_THAT(error_of(R"({"a": {"shape": 1}})", 4), HasSubstr("a number"));
}

TEST(SafetensorsTest, ANameThatStandsTwiceIsRefused) {
  EXPECT_THAT(error_of("{" + tensor("a", "[1]", 0, 4) + "," + tensor("a", "[1]", 4, 8) + "}", 8),
              HasSubstr("\"a\" appears twice"));
  EXPECT_THAT(error_of(R"({"a": {"dtype": "F32", "dtype": "F16"}})", 8), HasSubstr("twice"));
  EXPECT_THAT(error_of(R"({"__metadata__": {}, "__metadata__": {}})", 0), HasSubstr("twice"));
}

TEST(SafetensorsTest, MetadataMapsStringsToStrings) {
  EXPECT_THAT(error_of(R"({"__metadata__": {"a": 1}})", 0), HasSubstr("a number"));
  EXPECT_THAT(error_of(R"({"__metadata__": {"a": {}}})", 0), HasSubstr("an object"));
  EXPECT_THAT(error_of(R"({"__metadata__": "x"})", 0), HasSubstr("a string"));
}

TEST(SafetensorsTest, TensorsMustFillTheDataExactly) {
  const std::string a = tensor("a", "[1]", 0, 4);
  EXPECT_THAT(error_of("{" + a + "," + tensor("b", "[2]", 0, 8) + "}", 8), HasSubstr("inside"));
  EXPECT_THAT(error_of("{" + a + "," + tensor("b", "[1]", 8, 12) + "}", 12), HasSubstr("gap"));
  EXPECT_THAT(error_of("{" + tensor("a", "[1]", 4, 8) + "}", 8), HasSubstr("gap"));
  EXPECT_THAT(error_of("{" + tensor("a", "[1]", 4, 0) + "}", 8), HasSubstr("do not lie"));
  EXPECT_THAT(error_of("{" + tensor("a", "[1]", 0, 4) + "}", 3), HasSubstr("cut short"));
  EXPECT_THAT(error_of("{" + a + "}", 5), HasSubstr("1 bytes after the last tensor"));
  EXPECT_THAT(error_of("{}", 1), HasSubstr("after the last tensor"));
  EXPECT_THAT(error_of("{" + tensor("a", "[1]", 0, 18446744073709551615u) + "}", 4),
              HasSubstr("do not lie"));
}

TEST(SafetensorsTest, ShapesMustMatchTheirBytes) {
  EXPECT_THAT(error_of("{" + tensor("a", "[2]", 0, 4) + "}", 4), HasSubstr("need 8"));
  EXPECT_THAT(error_of("{" + tensor("a", "[4294967296, 4294967296]", 0, 4) + "}", 4),
              HasSubstr("overflows"));
  EXPECT_THAT(error_of("{" + tensor("a", "[0, 9223372036854775807, 2]", 0, 4) + "}", 4),
              HasSubstr("need 0"));
  EXPECT_THAT(error_of("{" + tensor("a", "[9223372036854775808]", 0, 4) + "}", 4),
              HasSubstr("too large"));
  EXPECT_THAT(error_of("{" + tensor("a", "[-1]", 0, 4) + "}", 4), HasSubstr("negative"));
  EXPECT_THAT(error_of("{" + tensor("a", "[1.5]", 0, 4) + "}", 4), HasSubstr("1.5"));
  EXPECT_THAT(error_of("{" + tensor("a", "[1,1,1,1,1,1,1,1,1]", 0, 4) + "}", 4),
              HasSubstr("more than 8 dimensions"));
  const std::string misaligned =
      "{" + tensor("a", "[1]", 0, 2, "BF16") + "," + tensor("b", "[1]", 2, 6) + "}";
  EXPECT_THAT(error_of(misaligned, 6), HasSubstr("misaligned"));
  EXPECT_THAT(error_of("{" + tensor("a", "[1]", 0, 1, "F8_E5M2") + "}", 1), HasSubstr("F8_E5M2"));
}

TEST(SafetensorsTest, FilesPutInPlaceOfWeightsAreCalledByTheirName) {
  const auto message = [](const std::string& text) { return parse(text).status().message(); };
  EXPECT_THAT(message("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
              HasSubstr("Git LFS pointer"));
  EXPECT_THAT(message("<!DOCTYPE html><html>Not found</html>"), HasSubstr("web page"));
  EXPECT_THAT(message(std::string("PK\x03\x04") + std::string(20, 'x')), HasSubstr("pickle"));
  EXPECT_THAT(message("GGUF" + std::string(20, 'x')), HasSubstr("GGUF"));
}

TEST(SafetensorsWriterTest, OrdersTensorsSoThatAllAreAligned) {
  TestDirectory directory;
  const std::string path = directory.path("w.safetensors");
  const std::vector<std::byte> bytes(20);
  const auto part = [&bytes](std::size_t count) { return std::span(bytes).first(count); };
  ASSERT_TRUE(write_safetensors(path, {{{"h", DType::kBF16, {3}}, part(6)},
                                       {{"f", DType::kF32, {2, 2}}, part(16)}})
                  .ok());
  const auto entries = parse(directory.read("w.safetensors"));
  ASSERT_TRUE(entries.ok()) << entries.status().to_string();
  EXPECT_EQ((*entries)[0].name, "f");
  EXPECT_EQ((*entries)[1].name, "h");
}

TEST(SafetensorsWriterTest, AnUnfinishedFileNeverAppears) {
  TestDirectory directory;
  const std::string path = directory.path("w.safetensors");
  const std::vector<TensorHeader> headers = {{"a", DType::kF32, {2}}};
  const std::vector<std::byte> bytes(12);
  {
    auto writer = SafetensorsWriter::create(path, headers);
    ASSERT_TRUE(writer.ok());
    EXPECT_TRUE((*writer)->append(std::span(bytes).first(4)).ok());
    EXPECT_EQ((*writer)->finish().code(), StatusCode::kFailedPrecondition);
    EXPECT_EQ((*writer)->append(bytes).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
  const std::vector<TensorHeader> twice = {headers[0], headers[0]};
  EXPECT_FALSE(SafetensorsWriter::create(path, twice).ok());
  EXPECT_FALSE(SafetensorsWriter::create(directory.path("no/w"), headers).ok());
  EXPECT_FALSE(write_safetensors(path, {{headers[0], bytes}}).ok());
}

TEST(DTypeTest, EveryHalfIsNarrowedBackToItself) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    if (std::isnan(from_f16(half))) {
      EXPECT_TRUE(std::isnan(from_f16(to_f16(from_f16(half)))));
    } else {
      ASSERT_EQ(to_f16(from_f16(half)), half);
    }
    if (std::isnan(from_bf16(half))) {
      EXPECT_TRUE(std::isnan(from_bf16(to_bf16(from_bf16(half)))));
    } else {
      ASSERT_EQ(to_bf16(from_bf16(half)), half);
    }
  }
}

TEST(DTypeTest, NarrowingRoundsToNearestAndTiesToEven) {
  EXPECT_EQ(from_f16(0x3c01), 1.0f + 0x1p-10f);
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(to_f16(1.0f + 0x1p-11f + 0x1p-20f), 0x3c01);
  EXPECT_EQ(to_f16(1.0f + 0x3p-11f), 0x3c02);
  EXPECT_EQ(to_f16(65504.0f), 0x7bff);
  EXPECT_EQ(to_f16(65520.0f), 0x7c00);
  EXPECT_EQ(to_f16(65519.0f), 0x7bff);
  EXPECT_EQ(to_f16(-1e9f), 0xfc00);
  EXPECT_EQ(to_f16(0x1p-24f), 1);
  EXPECT_EQ(to_f16(0x1p-25f), 0);
  EXPECT_EQ(to_f16(-0.0f), 0x8000);
  EXPECT_EQ(to_bf16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(to_bf16(1.0f + 0x3p-8f), 0x3f82);
  EXPECT_EQ(to_bf16(std::numeric_limits<float>::max()), 0x7f80);
}

}  // namespace
}  // namespace outrider
