// Streams of real files, by every kind of reader. SPDX-License-Identifier: Apache-2.0
#include "edge_client/flash/section_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "common/engine/model/cpu/pack/pack_checksum.h"
#include "tests/unit/common/engine/model/test_directory.h"

namespace outrider {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kPage = kDirectAlignment;

// Sections of 1 to 5 pages whose bytes are their own offsets, behind one page of something else.
class SectionStreamTest : public testing::TestWithParam<ExtentReaderOptions> {
 protected:
  SectionStreamTest() {
    std::string content(kPage, 'x');
    for (std::size_t i = 0; i < 7; ++i) {
      const std::uint64_t bytes = (1 + i * 3 % 5) * kPage;
      std::string part(bytes, '\0');
      for (std::size_t at = 0; at < bytes; ++at) part[at] = static_cast<char>(at * 7 + i * 31);
      sections_.push_back(
          {.name = "section " + std::to_string(i),
           .offset = content.size(),
           .bytes = bytes,
           .pieces = {{.name = "",
                       .offset = content.size(),
                       .bytes = bytes - 9,
                       .checksum = pack_checksum(std::as_bytes(std::span(part)).first(bytes - 9))}},
           .number = i});
      contents_.push_back(part);
      content += part;
    }
    directory_.write("file", content);
  }

  std::unique_ptr<SectionStream> open(std::uint64_t pages,
                                      const SectionStreamOptions& options = {}) {
    auto reader = open_extent_reader(directory_.path("file"), GetParam());
    EXPECT_TRUE(reader.ok()) << reader.status().to_string();
    auto ring = AnonymousMemory::make(static_cast<std::int64_t>(pages * kPage), "ring", "");
    return std::make_unique<SectionStream>(*std::move(reader), sections_, *std::move(ring),
                                           pages * kPage, options, clock_);
  }

  void expect_section(SectionStream& stream, std::size_t index) {
    const auto bytes = stream.acquire(index);
    ASSERT_TRUE(bytes.ok()) << bytes.status().to_string();
    const std::span got(reinterpret_cast<const char*>(*bytes), contents_[index].size());
    EXPECT_TRUE(std::ranges::equal(got, contents_[index])) << index;
  }

  // While the file is read from.
  void flip_a_bit(std::uint64_t at) {
    std::fstream file(directory_.path("file"), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 1));
  }

  TestDirectory directory_;
  SystemClock clock_;
  std::vector<StreamSection> sections_;
  std::vector<std::string> contents_;
};

TEST_P(SectionStreamTest, OnDemandReadsWhatIsRequestedAndNoOther) {
  for (const std::uint64_t pages : {5, 9, 40}) {
    const auto stream = open(pages, {.on_demand = true});
    std::uint64_t bytes = 0;
    for (const std::vector<std::size_t>& wanted :
         {std::vector<std::size_t>{1, 4, 5}, {0, 1, 2, 3, 4, 5, 6}, {}, {6}, {2, 3}}) {
      stream->request(wanted);
      for (const std::size_t index : wanted) {
        expect_section(*stream, index);
        bytes += sections_[index].bytes;
      }
    }
    EXPECT_EQ(stream->stats().bytes_read, bytes);
    stream->release();
    // Nobody comes for some of them; one that was not requested is read all the same.
    stream->request(std::vector<std::size_t>{1, 2, 3, 4});
    expect_section(*stream, 2);
    stream->request(std::vector<std::size_t>{0, 5});
    expect_section(*stream, 0);
    expect_section(*stream, 6);
    stream->request(std::vector<std::size_t>{1});
    expect_section(*stream, 1);
  }
}

TEST_P(SectionStreamTest, OnDemandDamageIsNamedAndReadAnew) {
  const auto stream = open(9, {.on_demand = true});
  flip_a_bit(sections_[3].offset + 5);
  stream->request(std::vector<std::size_t>{2, 3, 4});
  expect_section(*stream, 2);
  const auto damaged = stream->acquire(3);
  EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(damaged.status().message(), HasSubstr("section 3"));
  flip_a_bit(sections_[3].offset + 5);
  expect_section(*stream, 3);
}

TEST_P(SectionStreamTest, GivesSectionsRoundAndRound) {
  for (const std::uint64_t pages : {5, 9, 13, 40}) {
    const auto stream = open(pages);
    for (int pass = 0; pass < 5; ++pass) {
      for (std::size_t i = 0; i < sections_.size(); ++i) expect_section(*stream, i);
      stream->release();
    }
    EXPECT_GT(stream->stats().bytes_read, 5 * 15 * kPage);
  }
}

TEST_P(SectionStreamTest, GivesThemInAnyOrder) {
  const auto stream = open(12);
  for (const std::size_t i : {0, 1, 2, 0, 1, 6, 0, 3, 3, 5, 6, 1, 0}) expect_section(*stream, i);
}

TEST_P(SectionStreamTest, ReadsOneSectionNoOftenerThanItIsUsed) {
  const auto stream = open(12);
  std::uint64_t all = 0;
  for (const StreamSection& section : sections_) all += section.bytes;
  for (int pass = 0; pass < 10; ++pass) {
    for (std::size_t i = 0; i < sections_.size(); ++i) expect_section(*stream, i);
  }
  stream->release();
  EXPECT_LE(stream->stats().bytes_read, 10 * all + 12 * kPage);  // and what the ring holds
}

TEST_P(SectionStreamTest, DamageIsToldBySectionAndReadAnew) {
  flip_a_bit(sections_[2].offset + 5);
  const auto stream = open(9);
  expect_section(*stream, 0);
  for (int i = 0; i < 2; ++i) {
    const auto damaged = stream->acquire(2);
    EXPECT_EQ(damaged.status().code(), StatusCode::kDataLoss);
    EXPECT_THAT(damaged.status().message(), HasSubstr("section 2"));
    EXPECT_THAT(damaged.status().message(), HasSubstr("checksum"));
  }
  flip_a_bit(sections_[2].offset + 5);
  expect_section(*stream, 3);
  expect_section(*stream, 2);
}

TEST_P(SectionStreamTest, AFileCutShortIsAnErrorNotACrash) {
  const auto stream = open(6);
  expect_section(*stream, 0);
  ASSERT_EQ(truncate(directory_.path("file").c_str(), static_cast<off_t>(sections_[5].offset)), 0);
  for (std::size_t i = 1; i < 5; ++i) expect_section(*stream, i);
  const auto cut = stream->acquire(5);
  EXPECT_EQ(cut.status().code(), StatusCode::kDataLoss);
  EXPECT_THAT(cut.status().message(), HasSubstr("cut short"));
  expect_section(*stream, 0);
}

TEST_P(SectionStreamTest, AnEmulatedDiskIsNotFasterThanAsked) {
  std::uint64_t all = 0;
  for (const StreamSection& section : sections_) all += section.bytes;
  const double rate = static_cast<double>(all) * 50;  // a round takes 20 ms
  const TimePoint begin = clock_.now();
  const auto stream = open(6, {.bandwidth = rate});
  for (int pass = 0; pass < 3; ++pass) {
    for (std::size_t i = 0; i < sections_.size(); ++i) expect_section(*stream, i);
  }
  EXPECT_GE(clock_.now() - begin, from_ms(59));
}

TEST_P(SectionStreamTest, EndsWhileReadsAreInFlight) {
  for (int i = 0; i < 50; ++i) open(5 + static_cast<std::uint64_t>(i) % 9);
}

TEST(FailedRead, NamesThePiecesThatItTouches) {
  const StreamSection section{
      .name = "layer 3",
      .offset = 8 * kPage,
      .bytes = 4 * kPage,
      .pieces = {{.name = "level 40", .offset = 8 * kPage, .bytes = kPage - 9, .checksum = 0},
                 {.name = "level 60", .offset = 9 * kPage, .bytes = 2 * kPage, .checksum = 0},
                 {.name = "level 100", .offset = 11 * kPage, .bytes = kPage, .checksum = 0}}};
  const auto message = [&](std::uint64_t at, std::uint64_t bytes) {
    return failed_read(section, at, bytes, data_loss("I/O error")).message();
  };
  EXPECT_EQ(message(0, kPage), "level 40: I/O error");
  EXPECT_EQ(message(kPage, kPage), "level 60: I/O error");
  EXPECT_EQ(message(0, kPage + 1), "level 40, level 60: I/O error");
  EXPECT_EQ(message(0, 4 * kPage), "level 40, level 60, level 100: I/O error");
  EXPECT_EQ(message(kPage - 9, 9), "I/O error");  // behind what the first one has
  const StreamSection whole{
      .name = "layer 3",
      .offset = 8 * kPage,
      .bytes = kPage,
      .pieces = {{.name = "", .offset = 8 * kPage, .bytes = kPage, .checksum = 0}}};
  EXPECT_EQ(failed_read(whole, 0, kPage, data_loss("I/O error")).message(), "I/O error");
}

INSTANTIATE_TEST_SUITE_P(Readers, SectionStreamTest,
                         testing::Values(ExtentReaderOptions{.uring = true, .direct = true},
                                         ExtentReaderOptions{.uring = true, .direct = false},
                                         ExtentReaderOptions{.uring = false, .direct = true},
                                         ExtentReaderOptions{.uring = false, .direct = false}));

}  // namespace
}  // namespace outrider
