// SPDX-License-Identifier: Apache-2.0
#include "common/engine/model/cpu/pack/weight_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "common/base/json_record.h"
#include "common/engine/model/cpu/kernels/weight_memory.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace {
int synced_folders = 0;
}  // namespace

// Replaces the system's: counts calls.
extern "C" int fsync(int descriptor) {
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) ++synced_folders;
  return static_cast<int>(::syscall(SYS_fsync, descriptor));
}

namespace outrider {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WeightCacheTest : public ::testing::Test {
 protected:
  WeightCacheTest() {
    const QuantFormat int4{.bits = 4, .has_minimum = true};
    for (std::int64_t i = 0; i < 5; ++i) {
      WeightMatrix matrix{.type = i == 2 ? WeightType::kBf16 : WeightType::kQuantized,
                          .format = i == 1 ? int4 : QuantFormat{},
                          .outputs = 20 + i,
                          .inputs = 70};
      memory_.emplace_back(static_cast<std::size_t>(bytes_of(matrix)));
      for (std::size_t b = 0; b < memory_.back().size(); ++b) {
        memory_.back()[b] = static_cast<std::byte>(b * 31 + static_cast<std::size_t>(i));
      }
      matrix.data = memory_.back().data();
      matrices_.push_back({"m" + std::to_string(i), matrix, i / 2});
    }
  }

  WeightCache cache() {
    return {directory_.path() + "/deep/cache",
            [this](const std::string& text) { told_.push_back(text); }};
  }
  void keep() { cache().keep("some model", "f00d", "int8, kernels 2", matrices_); }
  std::shared_ptr<const CachedWeights> open(const std::string& fingerprint = "f00d",
                                            const std::string& arithmetic = "int8, kernels 2") {
    told_.clear();
    return cache().open("some model", fingerprint, arithmetic, pool_);
  }
  std::string file() {
    return std::filesystem::directory_iterator(directory_.path() + "/deep/cache")->path();
  }
  std::string contents() {
    std::ifstream in(file(), std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void replace(const std::string& contents) {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << contents;
  }

  TestDirectory directory_;
  ThreadPool pool_{2};
  std::vector<std::vector<std::byte>> memory_;
  std::vector<NamedMatrix> matrices_;
  std::vector<std::string> told_;
};

TEST_F(WeightCacheTest, GivesBackWhatItKept) {
  keep();
  EXPECT_THAT(told_, ElementsAre(HasSubstr("kept converted weights in")));
  const auto weights = open();
  ASSERT_NE(weights, nullptr);
  EXPECT_THAT(told_, IsEmpty());
  for (const NamedMatrix& kept : matrices_) {
    const auto found = weights->find(kept.name);
    ASSERT_TRUE(found.has_value()) << kept.name;
    EXPECT_EQ(found->type, kept.matrix.type);
    EXPECT_EQ(found->format, kept.matrix.format);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found->data) % 64, 0u);
    EXPECT_TRUE(std::ranges::equal(memory_of(*found), memory_of(kept.matrix))) << kept.name;
  }
  EXPECT_FALSE(weights->find("m5").has_value());
}

TEST_F(WeightCacheTest, LayersBeginAtPagesOfTheFile) {
  keep();
  const std::string bytes = contents();
  const auto index = parse_pack_index(std::as_bytes(std::span(bytes)), "file");
  ASSERT_TRUE(index.ok()) << index.status().to_string();
  ASSERT_EQ(index->extents.size(), 3u);
  for (const PackExtent& extent : index->extents) EXPECT_EQ(extent.offset % 4096, 0u);
}

TEST_F(WeightCacheTest, HasNothingBeforeItKeptAnything) {
  EXPECT_EQ(open(), nullptr);
  EXPECT_THAT(told_, IsEmpty());
}

TEST_F(WeightCacheTest, WhatIsOfOtherWeightsOrKernelsIsToldAndReplaced) {
  keep();
  EXPECT_EQ(open("f00d", "int8, kernels 3"), nullptr);
  EXPECT_THAT(told_, ElementsAre(HasSubstr("another kernel version")));
  matrices_.pop_back();
  keep();
  const auto weights = open();
  ASSERT_NE(weights, nullptr);
  EXPECT_FALSE(weights->find("m4").has_value());
  EXPECT_EQ(open("beef"), nullptr);  // another file, which does not exist
}

TEST_F(WeightCacheTest, FilesCutShortAreRefused) {
  keep();
  const std::string whole = contents();
  for (std::size_t length = 0; length < whole.size();
       length += length < 60 ? 1 : whole.size() / 40) {
    replace(whole.substr(0, length));
    EXPECT_EQ(open(), nullptr) << length;
    EXPECT_EQ(told_.size(), 1u) << length;
  }
}

TEST_F(WeightCacheTest, DamagedFilesAreRefused) {
  keep();
  const std::string whole = contents();
  const auto index = parse_pack_index(std::as_bytes(std::span(whole)), "file");
  ASSERT_TRUE(index.ok());
  std::vector<std::size_t> places = {0, 8, 16, 24, 32, 40, whole.size() - 1};
  for (const PackExtent& extent : index->extents) {
    places.push_back(extent.offset);
    places.push_back(extent.offset + extent.bytes - 1);
  }
  for (const std::size_t at : places) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    replace(damaged);
    EXPECT_EQ(open(), nullptr) << at;
    EXPECT_EQ(told_.size(), 1u) << at;
  }
  replace(whole);
  EXPECT_NE(open(), nullptr);
}

TEST_F(WeightCacheTest, AFolderThatCannotBeMadeCostsNoStart) {
  std::ofstream(directory_.path() + "/deep") << "a file where a folder should be";
  keep();
  EXPECT_THAT(told_, ElementsAre(HasSubstr("are not kept")));
}

TEST_F(WeightCacheTest, KeepsNothingWhenItIsOff) {
  const WeightCache off("", {});
  off.keep("some model", "f00d", "int8", matrices_);
  EXPECT_EQ(off.open("some model", "f00d", "int8", pool_), nullptr);
}

// Without it a power cut may lose the new name, or leave the old file under it.
TEST_F(WeightCacheTest, ANewNameIsOnTheDiskWhenItIsKept) {
  synced_folders = 0;
  keep();
  EXPECT_EQ(synced_folders, 1);
}

// An index with a right checksum and wrong offsets.
class PackIndexTest : public WeightCacheTest {
 protected:
  void expect_refused(PackIndex index, const std::string& reason) {
    const std::string text = write_json(index).dump();
    std::string bytes = write_pack_header(kPackPage * 2, std::as_bytes(std::span(text)));
    bytes.resize(kPackPage * 2);
    bytes += text;
    const auto parsed = parse_pack_index(std::as_bytes(std::span(bytes)), "file");
    EXPECT_THAT(parsed.status().message(), HasSubstr(reason));
  }

  PackIndex good_ = [] {
    PackIndex index;
    index.matrices = {
        describe_matrix("m", {.type = WeightType::kQuantized, .outputs = 16, .inputs = 32})};
    index.matrices[0].offset = kPackPage;
    index.extents = {{.offset = kPackPage,
                      .bytes = static_cast<std::uint64_t>(bytes_of(matrix_of(index.matrices[0]))),
                      .checksum = 0}};
    return index;
  }();
};

TEST_F(PackIndexTest, OffsetsBeyondTheFileAreRefused) {
  expect_refused(good_, "");
  for (const std::uint64_t offset :
       {std::uint64_t{0}, std::uint64_t{4097}, std::uint64_t{8192}, ~std::uint64_t{4095}}) {
    PackIndex index = good_;
    index.extents[0].offset = offset;
    expect_refused(index, "extents[0].offset is " + std::to_string(offset) + ", must be 4096");
  }
  for (const std::uint64_t bytes : {std::uint64_t{4097}, ~std::uint64_t{0}}) {
    PackIndex index = good_;
    index.extents[0].bytes = bytes;
    expect_refused(index, "extents[0].bytes is " + std::to_string(bytes) + ", beyond the index");
  }
  PackIndex index = good_;
  index.extents[0].bytes -= 64;
  expect_refused(index, "beyond the end of extents[0]");
  index.extents[0].bytes += 128;
  expect_refused(index, "extents[0].bytes is");
  index = good_;
  index.extents.clear();
  expect_refused(index, "index_offset is 8192, must be 4096");
}

TEST_F(PackIndexTest, TheOtherByteOrderIsSaidToBeThat) {
  const std::string text = write_json(good_).dump();
  std::string bytes = write_pack_header(kPackPage * 2, std::as_bytes(std::span(text)));
  std::reverse(bytes.begin() + 8, bytes.begin() + 16);  // the version
  const auto parsed = parse_pack_index(std::as_bytes(std::span(bytes)), "file");
  EXPECT_EQ(parsed.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(parsed.status().message(), HasSubstr("big-endian"));
}

// Their panels have another layout.
TEST_F(PackIndexTest, FilesOfAnEarlierVersionAreRefused) {
  const std::string text = write_json(good_).dump();
  std::string bytes = write_pack_header(kPackPage * 2, std::as_bytes(std::span(text)));
  bytes[8] = 2;
  const auto parsed = parse_pack_index(std::as_bytes(std::span(bytes)), "file");
  EXPECT_EQ(parsed.status().message(), "file: of version 2, not 3");
}

TEST_F(PackIndexTest, MatricesBeyondTheirExtentAreRefused) {
  for (const std::uint64_t offset :
       {std::uint64_t{0}, kPackPage + 1, kPackPage + 1984, ~std::uint64_t{63}}) {
    PackIndex index = good_;
    index.matrices[0].offset = offset;
    expect_refused(index,
                   "matrices[0] (\"m\").offset is " + std::to_string(offset) + ", must be 4096");
  }
  PackIndex index = good_;
  index.matrices[0].extent = 1;
  expect_refused(index, "extents[0].bytes is");  // no matrix lies in it
  index = good_;
  index.matrices.push_back(index.matrices[0]);
  expect_refused(index, "appears twice");
  index.matrices[1].name = "another";
  expect_refused(index, "offset is 4096, must be");  // they overlap
  index.matrices[1].extent = 1;
  expect_refused(index, "extent is 1, must be below 1");
  for (const std::int64_t side : {std::int64_t{0}, std::int64_t{-1}, INT64_MAX}) {
    index = good_;
    index.matrices[0].outputs = side;
    expect_refused(index, "outputs " + std::to_string(side));
    index = good_;
    index.matrices[0].inputs = side;
    expect_refused(index, "inputs " + std::to_string(side));
  }
}

TEST_F(PackIndexTest, AMatrixIsDescribedWithItsWholeFormat) {
  for (const QuantFormat& format :
       {QuantFormat{.bits = 4, .has_table = true},
        QuantFormat{.bits = 4, .scales = ScaleType::kF32, .has_table = true},
        QuantFormat{.bits = 4, .scale_group = 16, .scales = ScaleType::kF32, .has_minimum = true},
        QuantFormat{.bits = 4, .scales = ScaleType::kMultiples, .has_minimum = true},
        QuantFormat{.bits = 4, .scales = ScaleType::kMultiples, .has_table = true},
        QuantFormat{.bits = 6, .scale_group = 16, .scales = ScaleType::kMultiples},
        QuantFormat{.bits = 8}}) {
    const WeightMatrix matrix{
        .type = WeightType::kQuantized, .format = format, .outputs = 3, .inputs = 64};
    const WeightMatrix read = matrix_of(describe_matrix("m", matrix));
    EXPECT_EQ(read.type, WeightType::kQuantized);
    EXPECT_EQ(read.format, format);
  }
}

TEST_F(PackIndexTest, FormatsThatNoKernelKnowsAreRefused) {
  PackIndex index = good_;
  index.matrices[0].bits = 5;
  expect_refused(index, "no kernel knows type 3, bits 5");
  index = good_;
  index.matrices[0].type = 5;
  expect_refused(index, "no kernel knows type 5");
  index = good_;
  index.matrices[0].type = 4;  // a table, whose indices have 4 bits
  index.matrices[0].bits = 8;
  expect_refused(index, "no kernel knows type 4, bits 8");
  index = good_;
  index.matrices[0].bits = 6;  // of scales for 16 weights only
  expect_refused(index, "no kernel knows type 3, bits 6");
  index = good_;
  index.matrices[0].scale_group = 8;
  expect_refused(index, "scale_group 8");
  index = good_;
  index.matrices[0].scale_group = 0;  // used as a divisor
  expect_refused(index, "scale_group 0");
  index = good_;
  index.matrices[0].scales = 3;
  expect_refused(index, "scales 3");
}

}  // namespace
}  // namespace outrider
