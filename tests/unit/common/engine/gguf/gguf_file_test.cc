// GGUF files on disk: how a path is resolved, and files in parts.
// SPDX-License-Identifier: Apache-2.0
#include "common/engine/gguf/gguf_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/engine/gguf/find_gguf.h"
#include "tests/unit/common/engine/gguf/gguf_builder.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Part {
  int number = 0;
  int count = 2;
  int tensors = 2;
  std::string tensor;
  std::string model = "one";
};

std::string part_bytes(const Part& part) {
  GgufBuilder file;
  file.value("split.no", GgufValueType::kUint16, static_cast<std::uint16_t>(part.number))
      .value("split.count", GgufValueType::kUint16, static_cast<std::uint16_t>(part.count))
      .value("split.tensors.count", GgufValueType::kInt32, part.tensors)
      .text("general.name", part.model);
  if (part.number == 0) file.u32("llama.block_count", 7);
  return file.tensor(part.tensor, GgufTensorType::kF32, {1}, part.tensor + "    ").build();
}

class GgufFileTest : public ::testing::Test {
 protected:
  GgufFileTest() {
    directory_.write("m-00001-of-00002.gguf", part_bytes({.number = 0, .tensor = "a"}));
    write_second({.number = 1, .tensor = "b"});
  }
  void write_second(const Part& part) {
    directory_.write("m-00002-of-00002.gguf", part_bytes(part));
  }
  std::string error() const {
    return GgufFile::open(directory_.path("m-00001-of-00002.gguf")).status().message();
  }

  TestDirectory directory_;
};

TEST_F(GgufFileTest, AnyPartStandsForAll) {
  for (const char* name : {"m-00001-of-00002.gguf", "m-00002-of-00002.gguf"}) {
    Result<GgufFile> opened = GgufFile::open(directory_.path(name));
    ASSERT_TRUE(opened.ok()) << opened.status().to_string();
    const GgufFile gguf = *std::move(opened);  // its views survive the move
    EXPECT_EQ(*gguf.metadata().integer("llama.block_count"), 7);
    ASSERT_EQ(gguf.tensors().size(), 2u);
    EXPECT_EQ(gguf.tensors()[1].name, "b");
    EXPECT_EQ(std::to_integer<char>(gguf.tensors()[1].data[0]), 'b');
    EXPECT_TRUE(gguf.check_unchanged().ok());
  }
}

TEST_F(GgufFileTest, PartsThatAreMissingOrOfAnotherModelAreRefused) {
  write_second({.number = 1, .tensor = "b", .model = "two"});
  EXPECT_THAT(error(), HasSubstr("00002-of-00002.gguf: \"general.name\" differs from that of"));
  write_second({.number = 1, .tensors = 3, .tensor = "b"});
  EXPECT_THAT(error(), HasSubstr("\"split.tensors.count\" differs"));
  write_second({.number = 1, .tensor = "a"});
  EXPECT_THAT(error(), HasSubstr("tensor \"a\" is in two parts"));
  write_second({.number = 0, .tensor = "b"});
  EXPECT_THAT(error(), HasSubstr("says that it is part 0 (from 0) of 2, but its name says part 1"));
  write_second({.number = 1, .count = 3, .tensor = "b"});
  EXPECT_THAT(error(), HasSubstr("part 1 (from 0) of 3, but its name says part 1 of 2"));
  directory_.write("m-00002-of-00002.gguf", GgufBuilder().build());
  EXPECT_THAT(error(), HasSubstr("split.count is missing"));
  std::filesystem::remove(directory_.path("m-00002-of-00002.gguf"));
  EXPECT_THAT(error(), HasSubstr("m-00002-of-00002.gguf: no such file"));
}

TEST_F(GgufFileTest, TooFewTensorsInAllPartsAreRefused) {
  directory_.write("m-00001-of-00002.gguf", part_bytes({.number = 0, .tensors = 3, .tensor = "a"}));
  write_second({.number = 1, .tensors = 3, .tensor = "b"});
  EXPECT_THAT(error(), HasSubstr("split.tensors.count is 3, but its parts hold 2 tensors"));
}

TEST_F(GgufFileTest, APartUnderAnotherNameIsRefused) {
  directory_.write("renamed.gguf", part_bytes({.number = 0, .tensor = "a"}));
  EXPECT_THAT(GgufFile::open(directory_.path("renamed.gguf")).status().message(),
              HasSubstr("part 0 (from 0) of 2, but its name says part 0 of 1"));
}

TEST_F(GgufFileTest, ACutFileIsSeenBeforeItIsRead) {
  const Result<GgufFile> gguf = GgufFile::open(directory_.path("m-00001-of-00002.gguf"));
  ASSERT_TRUE(gguf.ok());
  std::filesystem::resize_file(directory_.path("m-00002-of-00002.gguf"), 100);
  EXPECT_EQ(gguf->check_unchanged().code(), StatusCode::kDataLoss);
}

TEST_F(GgufFileTest, FilesOfOtherKindsAreNotTakenForModels) {
  const auto status = [&](const char* key, const char* value) {
    directory_.write("other.gguf", GgufBuilder().text(key, value).build());
    return GgufFile::open(directory_.path("other.gguf")).status();
  };
  EXPECT_EQ(status("general.type", "model"), Status());
  EXPECT_EQ(status("general.name", "adapter"), Status());
  EXPECT_THAT(status("general.type", "adapter").message(), HasSubstr("is a LoRA adapter, not a"));
  EXPECT_THAT(status("adapter.type", "lora").message(), HasSubstr("is a LoRA adapter, not a"));
  EXPECT_THAT(status("general.type", "imatrix").message(), HasSubstr("importance matrix"));
  EXPECT_THAT(status("general.type", "mmproj").message(), HasSubstr("image part"));
  EXPECT_THAT(status("general.type", "else").message(), HasSubstr("\"else\" (general.type)"));
}

TEST_F(GgufFileTest, ADirectoryStandsForItsOneModel) {
  const auto found = find_gguf(directory_.path());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(*found, directory_.path("m-00001-of-00002.gguf"));
  EXPECT_EQ(*find_gguf(directory_.path("m-00002-of-00002.gguf")),
            directory_.path("m-00002-of-00002.gguf"));
  EXPECT_EQ(*find_gguf(directory_.path("nowhere")), std::nullopt);
  directory_.write("other.gguf", "");
  EXPECT_THAT(find_gguf(directory_.path()).status().message(),
              HasSubstr("2 GGUF models (\"m-00001-of-00002.gguf\", \"other.gguf\")"));
  directory_.write("model.safetensors", "");
  EXPECT_EQ(*find_gguf(directory_.path()), std::nullopt);
  EXPECT_EQ(*find_gguf(TestDirectory().path()), std::nullopt);
}

TEST(GgufPartsTest, PartsAreKnownByTheirNames) {
  EXPECT_THAT(
      gguf_parts("d/m-00002-of-00003.gguf"),
      ElementsAre("d/m-00001-of-00003.gguf", "d/m-00002-of-00003.gguf", "d/m-00003-of-00003.gguf"));
  for (const char* name :
       {"m.gguf", "m-00001-of-00002", "m-00003-of-00002.gguf", "m-00000-of-00002.gguf",
        "m-0000a-of-00002.gguf", "00001-of-00002.gguf", "-00001-of-00002.gguf"}) {
    EXPECT_THAT(gguf_parts(name), ElementsAre(name));
  }
  EXPECT_EQ(gguf_parts("m-00001-of-99999.gguf").size(), 99999u);
}

TEST(GgufPartsTest, AModelIsNamedAfterItsFile) {
  EXPECT_EQ(gguf_name("models/SmolLM2-135M.Q4_1.gguf"), "SmolLM2-135M.Q4_1");
  EXPECT_EQ(gguf_name("models/m-00001-of-00002.gguf"), "m");
  EXPECT_EQ(gguf_name("odd"), "odd");
}

}  // namespace
}  // namespace outrider
