// Damaged and hostile GGUF files: each is refused by name, and nothing is read beyond its end.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "common/engine/gguf/gguf_header.h"
#include "tests/unit/common/engine/gguf/gguf_builder.h"

namespace outrider {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kHuge = (std::uint64_t{1} << 63) - 1;

// A copy of exactly that size on the heap, so that a sanitizer detects reads beyond it.
Status parse_error(const std::string& bytes) {
  const std::vector<char> exact(bytes.begin(), bytes.end());
  return parse_gguf(std::as_bytes(std::span(exact)), "bad.gguf").status();
}

void expect_loss(const std::string& bytes, const std::string& message) {
  const Status status = parse_error(bytes);
  EXPECT_EQ(status.code(), StatusCode::kDataLoss) << message;
  EXPECT_THAT(status.message(), HasSubstr("bad.gguf: "));
  EXPECT_THAT(status.message(), HasSubstr(message));
}

void expect_unimplemented(const std::string& bytes, const std::string& message) {
  const Status status = parse_error(bytes);
  EXPECT_EQ(status.code(), StatusCode::kUnimplemented) << message;
  EXPECT_THAT(status.message(), HasSubstr(message));
}

std::string replaced(std::string bytes, std::size_t at, std::string_view with) {
  return bytes.replace(at, with.size(), with);
}

std::string sound_file() {
  return GgufBuilder()
      .text("general.architecture", "llama")
      .texts("tokens", {"one", "two"})
      .numbers("kinds", GgufValueType::kInt32, std::vector<std::int32_t>{1, 2})
      .tensor("norm", GgufTensorType::kF32, {8}, std::string(32, 'x'))
      .tensor("matrix", GgufTensorType::kQ8_0, {2, 32}, std::string(68, 'y'))
      .build();
}

TEST(BadGgufTest, AFileCutAnywhereIsRefused) {
  const std::string whole = sound_file();
  ASSERT_TRUE(parse_error(whole).ok());
  const std::size_t used = whole.rfind('y') + 1;  // the rest is padding
  for (std::size_t size = 0; size < used; ++size) {
    EXPECT_EQ(parse_error(whole.substr(0, size)).code(), StatusCode::kDataLoss) << size;
  }
  EXPECT_TRUE(parse_error(whole.substr(0, used)).ok());
  expect_loss(whole.substr(0, used - 1), "cut short");
}

TEST(BadGgufTest, OtherFilesAndVersionsAreNamed) {
  const std::string whole = sound_file();
  expect_loss(replaced(whole, 0, "GGML"), "begins with \"GGML\"");
  expect_loss(replaced(whole, 0, "OUTR"), "is a pack of outrider-edge");
  expect_unimplemented(replaced(whole, 4, gguf_bytes(std::uint32_t{1})), "GGUF version 1");
  expect_unimplemented(replaced(whole, 4, gguf_bytes(std::uint32_t{4})), "supported are 2 and 3");
  expect_unimplemented(replaced(whole, 4, gguf_bytes(std::uint32_t{0})), "GGUF version 0");
  expect_unimplemented(replaced(whole, 4, gguf_bytes(std::uint32_t{3} << 24)), "big-endian");
}

TEST(BadGgufTest, CountsBeyondTheFileAreRefusedBeforeMemoryIsTaken) {
  const std::string whole = sound_file();
  constexpr std::size_t kTensorCount = 8;
  constexpr std::size_t kKeyCount = 16;
  for (const std::uint64_t count : {kHuge, kHuge + 1, ~std::uint64_t{0}}) {
    expect_loss(replaced(whole, kTensorCount, gguf_bytes(count)), "the number of tensors is");
    expect_loss(replaced(whole, kKeyCount, gguf_bytes(count)), "the number of keys is");
  }
  expect_loss(replaced(whole, kTensorCount, gguf_bytes(kMaxGgufTensors)), "200000 tensors in");
  expect_loss(replaced(whole, kKeyCount, gguf_bytes(kMaxGgufKeys)), "65536 keys in");
}

TEST(BadGgufTest, StringsAndArraysWithoutEndAreRefused) {
  using Type = GgufValueType;
  for (const std::uint64_t count : {std::uint64_t{1000}, kHuge, ~std::uint64_t{0}}) {
    expect_loss(GgufBuilder().raw_key("k", Type::kString, gguf_bytes(count)).build(),
                "key \"k\": a string of " + std::to_string(count) + " bytes");
    for (const Type type : {Type::kString, Type::kUint8, Type::kFloat64, Type::kUint64}) {
      expect_loss(GgufBuilder().raw_array("k", type, count, "").build(),
                  "key \"k\": " + std::to_string(count) + " values in");
    }
  }
  const std::string endless_inside = gguf_text("sound") + gguf_bytes(kHuge);
  expect_loss(GgufBuilder().raw_array("k", Type::kString, 2, endless_inside).build(),
              "key \"k\": a string of 9223372036854775807 bytes");
  const std::string key_length = gguf_bytes(kHuge);
  std::string file = GgufBuilder().u32("k", 1).build();
  expect_loss(replaced(file, 24, key_length), "the key of 9223372036854775807 bytes");
}

TEST(BadGgufTest, KeysAndTheirTypesAreChecked) {
  using Type = GgufValueType;
  expect_loss(GgufBuilder().u32("k", 1).u32("k", 1).build(), "key \"k\": appears twice");
  expect_loss(GgufBuilder().u32("", 1).build(), "a key of 0 bytes");
  expect_loss(GgufBuilder().u32(std::string(70'000, 'k'), 1).build(), "a key of 70000 bytes");
  expect_loss(GgufBuilder().raw_key("k", static_cast<Type>(13), "12345678").build(),
              "value type number 13 is unknown");
  expect_loss(GgufBuilder().raw_key("k", static_cast<Type>(~0u), "12345678").build(),
              "value type number 4294967295 is unknown");
  expect_loss(GgufBuilder().raw_array("k", Type::kArray, 1, std::string(20, '\0')).build(),
              "an array of arrays");
  expect_loss(GgufBuilder().raw_key("k", Type::kBool, "\x02").build(), "neither 0 nor 1");
}

TEST(BadGgufTest, AlignmentsAreChecked) {
  for (const std::uint32_t alignment : {0u, 1u, 3u, 4u, 48u, 131072u, 0xffffffffu}) {
    expect_loss(GgufBuilder().u32("general.alignment", alignment).build(),
                "general.alignment is " + std::to_string(alignment) + ", must be a power of two");
  }
  expect_loss(GgufBuilder().text("general.alignment", "32").build(), "must be an integer");
}

TEST(BadGgufTest, ShapesAreChecked) {
  const auto with_shape = [](const std::vector<std::int64_t>& shape, std::uint32_t type = 0) {
    return GgufBuilder().raw_tensor("t", type, shape, 0).build();
  };
  expect_loss(with_shape({}), "0 dimensions");
  expect_loss(with_shape({1, 1, 1, 1, 1}), "5 dimensions");
  expect_loss(with_shape({4, 0}), "dimension 0 is empty");
  expect_loss(with_shape({-1}), "the product of the shape overflows");
  expect_loss(with_shape({1 << 30, 1 << 30, 1 << 30}), "the product of the shape overflows");
  expect_loss(with_shape({std::int64_t{1} << 32, std::int64_t{1} << 32}), "overflows");
  expect_loss(with_shape({std::int64_t{1} << 60}), "do not lie in the file");
  expect_loss(with_shape({2, 48}, 2), "rows of 48 elements are not whole blocks of 32, as Q4_0");
  expect_loss(with_shape({2, 128}, 12), "not whole blocks of 256, as Q4_K");
}

TEST(BadGgufTest, UnknownTensorTypesAreNamedWithWhatIsSupported) {
  const auto with_type = [](std::uint32_t type) {
    return GgufBuilder().raw_tensor("t", type, {256}, 0).build();
  };
  expect_unimplemented(with_type(17), "tensor \"t\" has type IQ2_XS; supported are F32, F16, BF16");
  expect_unimplemented(with_type(21), "type IQ3_S");
  expect_unimplemented(with_type(77), "type number 77");
  expect_unimplemented(with_type(0xffffffff), "type number 4294967295");
}

TEST(BadGgufTest, TensorsLieInTheFileAlignedAndApart) {
  const auto two = [](std::uint64_t first, std::uint64_t second) {
    GgufBuilder file;
    file.raw_tensor("a", 0, {16}, first).raw_tensor("b", 0, {16}, second);
    return file.build() + std::string(128, 'x');
  };
  EXPECT_TRUE(parse_error(two(0, 64)).ok());
  EXPECT_TRUE(parse_error(two(64, 0)).ok());
  expect_loss(two(0, 32), "tensor \"b\": offset 32 lies inside the tensor before it");
  expect_loss(two(0, 0), "lies inside the tensor before it, which ends at 64");
  expect_loss(two(0, 72), "offset 72 is not a multiple of the alignment, 32");
  expect_loss(two(0, 96), "64 bytes at offset 96 do not lie in the file's 128 bytes of data");
  expect_loss(two(0, 160), "do not lie in the file");
  expect_loss(two(0, kHuge - 31), "do not lie in the file");
  expect_loss(two(0, ~std::uint64_t{31}), "do not lie in the file");
}

TEST(BadGgufTest, NamesAreChecked) {
  const auto named = [](const std::string& name) {
    return GgufBuilder().tensor(name, GgufTensorType::kF32, {1}, "1234").build();
  };
  expect_loss(named(""), "a name that is empty or longer than 1024 bytes");
  expect_loss(named(std::string(1025, 'n')), "a name that is empty or longer than 1024 bytes");
  expect_loss(GgufBuilder()
                  .tensor("t", GgufTensorType::kF32, {1}, "1234")
                  .tensor("t", GgufTensorType::kF32, {1}, "1234")
                  .build(),
              "tensor \"t\" appears twice");
}

}  // namespace
}  // namespace outrider
